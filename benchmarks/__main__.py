"""Run experiments and print what was found.

    python -m benchmarks list
    python -m benchmarks run quality --data DATA --case coat --method naive --method dce-bayes --seeds 2
    python -m benchmarks table quality
    python -m benchmarks table --page docs/benchmarks.md

Every job (a method on a case with a seed) becomes a line of `benchmarks/records/EXPERIMENT.jsonl`; one that is there is
not run again, unless `--again` replaces it. A line holds figures, settings, versions, the commit and the date.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path

import unskew
from benchmarks import judge, peers, quality, speed, tables, worlds
from benchmarks.cases import Job
from unskew.errors import chosen, whole

EXPERIMENTS = {
    "quality": quality.EXPERIMENT,
    "peers": peers.EXPERIMENT,
    "speed": speed.EXPERIMENT,
    "funnel": worlds.FUNNEL,
    "loop": worlds.LOOP,
    "judge": judge.EXPERIMENT,
}
RECORDS = Path(__file__).parent / "records"
BAD_INPUT, INTERRUPTED = 2, 130


def provenance() -> tables.Record:
    """Name the code that ran: version and commit of the package (+ if changed since), other versions, and the date."""
    git = ["git", "-C", str(Path(unskew.__file__).parent)]
    asked = ["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."]
    commit, changed = (subprocess.run([*git, *a], capture_output=True, text=True, check=False).stdout for a in asked)
    versions = {name: version(name) for name in ("numpy", "numba")}
    date = datetime.now(UTC).date().isoformat()
    return {"unskew": unskew.__version__, "commit": commit.strip() + "+" * bool(changed), "date": date, **versions}


def run(name: str, cases: list[str], methods: list[str], asked: argparse.Namespace) -> int:
    """Carry out the jobs that are left and record each; one that fails is named and the others go on."""
    experiment, file, failed = EXPERIMENTS[name], asked.records / f"{name}.jsonl", 0
    n_seeds = experiment.n_seeds if asked.seeds is None else asked.seeds
    seeds = range(whole(n_seeds, "--seeds", 1))
    jobs = [(c, m, s) for c, s, m in product(cases, seeds, methods) if experiment.applies(m, c)]
    known = {tables.key_of(record): record["settings"] for record in tables.read(file)}
    left = [job for job in jobs if asked.again or job not in known]
    report(f"{name}: {len(left)} of {len(jobs)} jobs are left to run.")
    made = lru_cache(maxsize=1)(lambda case, seed: experiment.cases[case](asked.data, seed))
    for number, (case, method, seed) in enumerate(left, 1):
        settings = known.get((case, method, 0)) if seed else None
        try:
            found = experiment.measure(Job(case, method, seed, made(case, seed), settings))
        except (unskew.UnskewError, ImportError) as error:
            failed += 1
            report(f"error: {method} on {case}, seed {seed}: {error}")
            continue
        known[case, method, seed] = found.settings
        job = {"case": case, "method": method, "seed": seed, "metrics": found.metrics, "settings": found.settings}
        tables.record(file, job | provenance() | dict(found.versions))
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found.metrics.items())
        report(f"{number}/{len(left)} {case}, {method}, seed {seed}: {figures}")
    return BAD_INPUT if failed else 0


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=raw)
    options.add_argument("command", choices=("list", "run", "table"))
    options.add_argument("experiment", nargs="?", help="what to run or to print")
    options.add_argument("--page", type=Path, help="make the tables of a Markdown page anew instead")
    options.add_argument("--records", type=Path, default=RECORDS, help="another folder of records")
    options.add_argument("--case", action="append", help="one of its cases, may be repeated (default: all)")
    options.add_argument("--method", action="append", help="a method, may be repeated (default: its own)")
    options.add_argument("--data", type=Path, default=Path(os.environ.get("UNSKEW_DATA", ".")), help="or UNSKEW_DATA")
    options.add_argument("--seeds", type=int, help="how many")
    options.add_argument("--again", action="store_true", help="replace records of these jobs")
    return options.parse_args(arguments)


def carry_out(asked: argparse.Namespace) -> int:
    if asked.command == "list":
        for name, each in EXPERIMENTS.items():
            print(f"{name}: {each.about}; {len(each.methods)} methods, {each.n_seeds} seeds")
        return 0
    if asked.command == "table" and asked.page is not None:
        tables.write(asked.page, tables.with_tables(asked.page.read_text(encoding="utf-8"), asked.records))
        return 0
    name = chosen(asked.experiment, "experiment", EXPERIMENTS)
    experiment = EXPERIMENTS[name]
    cases = [chosen(case, "--case", experiment.cases) for case in asked.case or experiment.cases]
    methods = [chosen(method, "--method", experiment.methods) for method in asked.method or experiment.methods]
    if asked.command == "run":
        return run(name, cases, methods, asked)
    records = tables.gathered(asked.records, name)
    print(experiment.table(records) if experiment.table else tables.report(records, cases, methods))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command; bad input ends it with one sentence and exit code 2."""
    try:
        return carry_out(parsed(arguments))
    except unskew.UnskewError as error:
        report(f"error: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        report("Stopped; every finished job is recorded, and the same command goes on from there.")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
