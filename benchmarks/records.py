"""Long runs that may be stopped: every finished job becomes a line of a records file and is not run again.

A record holds the key of its job, the recipe (its settings in words), the version of the package and the numbers that
were found. It is reused for the same key, recipe and version only; code that changed under one version is not noticed,
so delete the file then.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

import unskew
from unskew.files.atomic import checked_path, reason, replace_file

Values = dict[str, float]
Attempt = tuple[str, Values, str]  # the key, and the values or the sentence that says why there are none

RECORD_START = '{"key": '
BAD_INPUT, INTERRUPTED = 2, 130
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Job:
    """Something to find out; `work` must be picklable if it is to run in another process."""

    key: str
    recipe: str
    work: Callable[[], Values]


@dataclass(frozen=True)
class Record:
    """A line of the file."""

    key: str
    recipe: str
    version: str
    values: Values


@dataclass(frozen=True)
class Outcome:
    """The numbers by key, and for jobs that unskew refused or broke off, the sentence that says why."""

    values: dict[str, Values]
    failures: dict[str, str]


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence about how to go on."""


def run(jobs: Sequence[Job], file: Path, workers: int = 1) -> Outcome:
    """Run the jobs that have no record yet; failed ones leave none and are tried again next time."""
    values = _recorded(jobs, file)
    todo = [job for job in jobs if job.key not in values]
    recipes, failures = {job.key: job.recipe for job in jobs}, {}
    try:
        with (
            tqdm(total=len(jobs), initial=len(values), unit="job") as bar,
            closing(_attempts(todo, workers)) as attempts,
        ):
            for key, found, sentence in attempts:
                if sentence:
                    failures[key] = sentence
                else:
                    _append(file, Record(key, recipes[key], unskew.__version__, found))
                    values[key] = found
                bar.set_postfix_str(key, refresh=False)
                bar.update()
    except KeyboardInterrupt:
        raise Stopped(
            f"Stopped with {len(values)} of {len(jobs)} jobs finished and kept in {file}; "
            "run the same command again to go on."
        ) from None
    return Outcome(values, failures)


def _recorded(jobs: Sequence[Job], file: Path) -> dict[str, Values]:
    """What the file knows about these jobs; what is not reused is counted and said."""
    wanted = {job.key: (job.recipe, unskew.__version__) for job in jobs}
    values: dict[str, Values] = {}
    stale: set[str] = set()
    for record in _records(file):
        if wanted.get(record.key) == (record.recipe, record.version):
            values[record.key] = record.values
        elif record.key in wanted:
            stale.add(record.key)
    if values:
        say(f"{len(values)} of {len(jobs)} jobs have been finished before and are read from {file}.")
    if left := len(stale - values.keys()):
        say(f"{left} jobs were recorded in {file} with other settings or another version and are run anew.")
    return values


def _records(file: Path) -> list[Record]:
    """All records of the file; the rest of a line that a crash cut short is removed and said."""
    try:
        file.open("ab").close()  # so that a place that cannot be written is found before the work
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise unskew.ParameterError(
            f"The records file {file} cannot be used: {reason(error)}; choose another by --records."
        ) from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(Record(**json.loads(line)))
        except (ValueError, TypeError):
            raise _not_records(file, number) from None
    start = RECORD_START.encode()
    if rest and not (rest.startswith(start) or start.startswith(rest)):
        raise _not_records(file, len(lines) + 1)
    if rest:
        os.truncate(file, file.stat().st_size - len(rest))
        say(f"The last line of {file} was cut short; its job is run anew.")
    return records


def _not_records(file: Path, line: int) -> unskew.DataError:
    return unskew.DataError(f"Line {line} of {file} is not a record; remove the line or choose another --records file.")


def _append(file: Path, record: Record) -> None:
    line = json.dumps(asdict(record), allow_nan=False) + "\n"
    with file.open("ab") as out:
        out.write(line.encode())
        out.flush()
        os.fsync(out.fileno())


def _attempts(jobs: Sequence[Job], workers: int) -> Generator[Attempt, None, None]:
    return (_attempt(job) for job in jobs) if workers == 1 else _in_processes(jobs, workers)


def _attempt(job: Job) -> Attempt:
    try:
        values = job.work()
    except unskew.UnskewError as error:
        return job.key, {}, str(error)
    odd = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    return job.key, values, ", ".join(odd)


def _in_processes(jobs: Sequence[Job], workers: int) -> Generator[Attempt, None, None]:
    """Attempts as they finish; leaving early, by Ctrl-C or an error, ends the processes at once."""
    waiting, others = iter(jobs), set(active_children())
    running: set[Future[Attempt]] = set()
    with _one_thread_each(), ProcessPoolExecutor(workers, get_context("spawn"), _start_worker) as pool:
        try:
            with _ignoring_interrupts():  # which the processes inherit: only this one answers Ctrl-C
                running = {pool.submit(_attempt, job) for job in islice(waiting, workers)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(_attempt, job) for job in islice(waiting, len(done))}
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            raise unskew.UnskewError(
                "A worker process died, perhaps for want of memory; run the same command with fewer --workers to go on."
            ) from None
        finally:
            if running:
                for process in set(active_children()) - others:
                    process.terminate()


def _start_worker() -> None:
    import torch  # here, as the process that only waits does not need it

    torch.set_num_threads(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside compute on one thread: some libraries read this once, when they are imported."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    return {name: unskew.make(name) for name in names or [entry.name for entry in unskew.methods()]}


def mean_and_sd(values: Sequence[float], digits: int = 4) -> str:
    """ "0.1234 ± 0.0012"; of a single value there is no spread."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def seed_names(seeds: int) -> str:
    return "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1}"


def failed(outcome: Outcome) -> str:
    """A list of the jobs that failed and why, or nothing."""
    lines = [f"- {key}: {sentence}" for key, sentence in outcome.failures.items()]
    return "\n".join(["Failed fits:", "", *lines]) if lines else ""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


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


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


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
