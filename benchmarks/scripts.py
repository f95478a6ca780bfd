"""What the scripts of this folder share: options, choice of methods, and how they end.

Their jobs are those of `unskew.bench.jobs`: a run that is stopped goes on where it ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import unskew
from unskew.bench.jobs import Outcome, say
from unskew.files.atomic import checked_path, reason, replace_file

BAD_INPUT, INTERRUPTED = 2, 130


def parser(doc: str | None, records: str) -> argparse.ArgumentParser:
    """The options that all benchmarks of the registered methods share."""
    options = bare_parser(doc, records)
    options.add_argument("--seeds", type=count, default=3, help="how many (default: 3)")
    options.add_argument("--method", action="append", help="a registered method, may be repeated (default: all)")
    return options


def bare_parser(doc: str | None, records: str) -> argparse.ArgumentParser:
    """The options that all benchmarks share."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=count, default=1, help="processes of one thread each (default: 1)")
    options.add_argument("--records", type=Path, default=Path(records), help=f"finished jobs (default: {records})")
    options.add_argument("--out", type=Path, help="write the table to this file too")
    return options


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def chosen(names: Sequence[str] | None) -> dict[str, unskew.Method]:
    """The named methods, or all that are registered, with their default settings."""
    return {name: unskew.make(name) for name in names or [entry.name for entry in unskew.registered()]}


def mean_and_sd(values: Sequence[float], digits: int = 4) -> str:
    """ "0.1234 ± 0.0012"; of a single value there is no spread."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def failed(outcome: Outcome) -> str:
    """A list of the jobs that failed and why, or nothing."""
    lines = [f"- {key}: {sentence}" for key, sentence in outcome.failures.items()]
    return "\n".join(["Failed fits:", "", *lines]) if lines else ""


def publish(paragraphs: Sequence[str], out: Path | None) -> None:
    """Print the text and, if asked to, write it to a file, whole or not at all."""
    text = "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"
    print(text, end="", flush=True)
    if out is None:
        return
    try:
        replace_file(checked_path(out), text.encode())
    except OSError as error:
        raise unskew.ParameterError(f"The table cannot be written to {out}: {reason(error)}.") from error


def script(main: Callable[[], None]) -> None:
    """Run a benchmark; bad input and Ctrl-C end it with one sentence."""
    try:
        main()
    except unskew.UnskewError as error:
        say(f"error: {error}")
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt as stopped:
        say(str(stopped) or "Stopped before the first job; nothing is lost.")
        sys.exit(INTERRUPTED)
