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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import unskew
from benchmarks import funnel, judge, loop, peers, quality, speed, tables
from benchmarks.cases import Experiment, Job

EXPERIMENTS = {
    "quality": quality.EXPERIMENT,
    "peers": peers.EXPERIMENT,
    "speed": speed.EXPERIMENT,
    "funnel": funnel.EXPERIMENT,
    "loop": loop.EXPERIMENT,
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


def run(experiment: Experiment, data: Path, jobs: list[tables.Key], file: Path, again: bool) -> int:
    """Carry out jobs and record each; one that fails is named and the others go on."""
    failed = 0
    for number, (case, method, seed) in enumerate(jobs, 1):
        try:
            settings = None if not experiment.tuned or (again and seed == 0) else tuned(file, case, method)
            found = experiment.measure(Job(method, experiment.cases[case](data, seed), seed, settings))
        except (unskew.UnskewError, ImportError) as error:
            failed += 1
            report(f"error: {method} on {case}, seed {seed}: {error}")
            continue
        key = dict(zip(tables.KEY, (case, method, seed), strict=True))
        rest = {"metrics": found.metrics, "settings": found.settings}
        tables.record(file, {**key, **rest, **provenance(), **found.versions})
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found.metrics.items())
        report(f"{number}/{len(jobs)} {case}, {method}, seed {seed}: {figures}")
    return BAD_INPUT if failed else 0


def tuned(file: Path, case: str, method: str) -> dict[str, Any] | None:
    """Return the settings that another seed was tuned to, those of the last record."""
    earlier = [r["settings"] for r in tables.read(file) if (r["case"], r["method"]) == (case, method)]
    return earlier[-1] if earlier else None


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=raw)
    commands = options.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the experiments")
    running, showing = commands.add_parser("run", help="fit and record"), commands.add_parser("table", help="print")
    running.add_argument("experiment")
    showing.add_argument("experiment", nargs="?", help="or none, with --page")
    showing.add_argument("--page", type=Path, help="make the tables of a Markdown page anew")
    for command in (running, showing):
        command.add_argument("--records", type=Path, default=RECORDS, help="another folder of records")
        command.add_argument("--case", action="append", help="one of its cases, may be repeated (default: all)")
        command.add_argument("--method", action="append", help="a method, may be repeated (default: its own)")
    running.add_argument("--data", type=Path, default=os.environ.get("UNSKEW_DATA", "."), help="or UNSKEW_DATA")
    running.add_argument("--seeds", type=int, help="how many")
    running.add_argument("--again", action="store_true", help="replace records of these jobs")
    return options.parse_args(arguments)


def carry_out(asked: argparse.Namespace) -> int:
    if asked.command == "list":
        for name, experiment in EXPERIMENTS.items():
            print(f"{name}: {experiment.about}; {len(experiment.methods)} methods, {experiment.n_seeds} seeds")
        return 0
    if asked.command == "table" and asked.page is not None:
        tables.write(asked.page, tables.with_tables(asked.page.read_text(encoding="utf-8"), asked.records))
        return 0
    experiment = EXPERIMENTS[one_of(asked.experiment, "experiment", EXPERIMENTS)]
    cases = [one_of(name, "case", experiment.cases) for name in asked.case or experiment.cases]
    methods = [one_of(name, "method", experiment.methods) for name in asked.method or experiment.methods]
    if asked.command == "table":
        own = experiment.table
        records = tables.gathered(asked.records, asked.experiment)
        print(tables.report(records, cases, methods) if own is None else own(records))
        return 0
    n_seeds = experiment.n_seeds if asked.seeds is None else asked.seeds
    if n_seeds < 1:
        raise unskew.ParameterError(f"--seeds must be at least 1, not {n_seeds}.")
    file = asked.records / f"{asked.experiment}.jsonl"
    known = set() if asked.again else {tables.key_of(record) for record in tables.read(file)}
    jobs = [(c, m, seed) for c in cases for m in methods if experiment.applies(m, c) for seed in range(n_seeds)]
    left = [job for job in jobs if job not in known]
    report(f"{asked.experiment}: {len(left)} of {len(jobs)} jobs are left to run.")
    return run(experiment, Path(asked.data), left, file, asked.again)


def one_of(name: str, kind: str, known: Any) -> str:
    """Return a name that is known; any other is refused with those that are."""
    if name not in known:
        raise unskew.ParameterError(f"There is no {kind} {name!r} here: choose from {', '.join(known)}.")
    return name


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
