"""Run experiments and print what was found.

    python -m benchmarks list
    python -m benchmarks run coat --data DATA --seeds 10 --methods naive,dce-dr
    python -m benchmarks table coat

Every fit adds a line to `benchmarks/records/EXPERIMENT.jsonl`; one that is there already, for the same label, case,
method and seed, is not run again. A label names what was measured: the package's version, or the value of `--label`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import unskew
from benchmarks import tables
from benchmarks.experiments import EXPERIMENTS

RECORDS = Path(__file__).parent / "records"
BAD_INPUT, INTERRUPTED = 2, 130


def provenance() -> tables.Record:
    """Name the code that ran: version and commit of the package, versions of what it computes with, and the date."""
    found = subprocess.run(
        ["git", "-C", str(Path(unskew.__file__).parent), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    versions = {name: version(name) for name in ("numpy", "numba")}
    date = datetime.now(UTC).date().isoformat()
    return {"unskew": unskew.__version__, "commit": found.stdout.strip() or None, "date": date, **versions}


def run(name: str, data: Path, methods: list[str], n_seeds: int, label: str, file: Path) -> int:
    """Carry out what is missing of an experiment; a fit that fails is named and the others go on."""
    experiment, failed = EXPERIMENTS[name], 0
    known = {tables.key_of(record) for record in tables.read(file)}
    asked = [(label, case, method, seed) for seed in range(n_seeds) for case in experiment.cases for method in methods]
    left = [key for key in asked if key not in known]
    report(f"{name}: {len(left)} of {len(asked)} fits are left to run.")
    for number, key in enumerate(left, 1):
        _, case, method, seed = key
        try:
            metrics = experiment.measure(method, experiment.cases[case](data, seed), seed)
        except unskew.UnskewError as error:
            failed += 1
            report(f"error: {method} on {case}, seed {seed}: {error}")
            continue
        tables.append(file, dict(zip(tables.KEY, key, strict=True)) | {"metrics": metrics} | provenance())
        figures = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        report(f"{number}/{len(left)} {case}, {method}, seed {seed}: {figures}")
    return BAD_INPUT if failed else 0


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=raw)
    commands = options.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the experiments")
    running, showing = commands.add_parser("run", help="fit and record"), commands.add_parser("table", help="print")
    for command in (running, showing):
        command.add_argument("experiment")
        command.add_argument("--records", type=Path, help="another file of records")
    running.add_argument("--data", type=Path, default=os.environ.get("UNSKEW_DATA", "."), help="or UNSKEW_DATA")
    running.add_argument("--seeds", type=int, help="how many")
    running.add_argument("--methods", help="names with commas between")
    running.add_argument("--label", default=unskew.__version__, help="what is measured")
    showing.add_argument("--labels", help="those to show, with commas between")
    return options.parse_args(arguments)


def carry_out(asked: argparse.Namespace) -> int:
    if asked.command == "list":
        for name, experiment in EXPERIMENTS.items():
            print(f"{name}: {experiment.about}; {len(experiment.methods)} methods, {experiment.n_seeds} seeds")
        return 0
    if asked.experiment not in EXPERIMENTS:
        raise unskew.ParameterError(
            f"There is no experiment {asked.experiment!r}: choose from {', '.join(EXPERIMENTS)}."
        )
    experiment, file = EXPERIMENTS[asked.experiment], asked.records or RECORDS / f"{asked.experiment}.jsonl"
    if asked.command == "table":
        print(tables.table(tables.read(file), asked.labels.split(",") if asked.labels else None))
        return 0
    methods = asked.methods.split(",") if asked.methods else list(experiment.methods)
    for method in methods:
        unskew.make(method)  # an unknown name ends the run before the first fit
    n_seeds = experiment.n_seeds if asked.seeds is None else asked.seeds
    if n_seeds < 1:
        raise unskew.ParameterError(f"--seeds must be at least 1, not {n_seeds}.")
    return run(asked.experiment, Path(asked.data), methods, n_seeds, asked.label, file)


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command; bad input ends it with one sentence and exit code 2."""
    try:
        return carry_out(parsed(arguments))
    except unskew.UnskewError as error:
        report(f"error: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        report("Stopped; every finished fit is recorded, and the same command goes on from there.")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
