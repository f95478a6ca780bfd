"""Long runs that may be stopped: every finished job becomes a record, a line of JSON, and is not run again."""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import unskew
from unskew.datasets.world import simulate
from unskew.errors import DataError, ParameterError, UnskewError
from unskew.methods.robust import DRJL
from unskew.propensity.additive import Additive
from unskew.runtime import Bar, bar, say, side_by_side
from unskew.store.atomic import locked, reason
from unskew.training.options import Training

Values = dict[str, Any]  # what was found: numbers, texts and further such mappings
RECORD_START = b'{"key": '
PARTS = {"key": str, "recipe": object, "versions": dict, "values": dict}  # of a record
COMPUTING = ("numpy", "scipy", "numba")  # what a figure may depend on besides ourselves


class Records:
    """What a file knows of a job with its recipe and versions."""

    def __init__(self, file: Path) -> None:
        self.file, known = file, _read(file)
        self._found = {_identity(**record): record["values"] for record in known}
        self.keys = {record["key"] for record in known}  # when the file was opened
        self._logs = {record["recipe"].get("log") for record in known if isinstance(record["recipe"], dict)}

    def values(self, key: str, recipe: Any) -> Values | None:
        """Return what this job has found before; None if it has not been run."""
        return self._found.get(_identity(key, recipe, versions()))

    def add(self, key: str, recipe: Any, values: Values) -> None:
        """Keep what a job has found, on the disk before this returns."""
        record = {"key": key, "recipe": recipe, "versions": versions(), "values": values}
        size = self.file.stat().st_size
        try:
            with self.file.open("ab") as out:
                out.write((json.dumps(record, allow_nan=False) + "\n").encode())
                out.flush()
                os.fsync(out.fileno())
        except BaseException as error:
            os.truncate(self.file, size)
            if not isinstance(error, OSError):
                raise
            raise ParameterError(
                f"The records file {self.file} cannot be added to: {reason(error)}; all it held is still there: make "
                "room and run the same command again."
            ) from error

    def refuse_another(self, log: Any, mark: str) -> None:
        """Refuse to go on from records of a log that has changed since; `mark` is its fingerprint now."""
        for of in self._logs - {mark, None}:
            raise another_log(self.file, str(of), log, mark)


def _read(file: Path) -> list[dict[str, Any]]:
    """Read all records; the rest of a line that a crash cut short is removed."""
    try:
        file.open("ab").close()  # so that a place that cannot be written is found before the work
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise ParameterError(f"The records file {file} cannot be used: {reason(error)}; choose another.") from error
    cut_short = rest.startswith(RECORD_START) or RECORD_START.startswith(rest)
    found = [_parsed(file, *line) for line in enumerate(lines if cut_short else [*lines, b""], 1)]
    if rest:
        os.truncate(file, file.stat().st_size - len(rest))
        say(f"The last line of {file} was cut short; its job is run anew.")
    return found


def _parsed(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    whole = isinstance(record, dict) and record.keys() == PARTS.keys()
    if whole and all(isinstance(record[name], kind) for name, kind in PARTS.items()):
        return dict(record)
    raise DataError(f"Line {number} of {file} is not a record; remove the line or choose another file.")


def _identity(key: str, recipe: Any, versions: dict[str, str], values: Any = None) -> str:
    return json.dumps([key, recipe, versions], sort_keys=True)


def another_log(file: Path | None, of: str, log: Any, mark: str) -> DataError:
    """Return the sentence about records of a log that has changed since."""
    return DataError(
        f"{file} holds records of another log, of fingerprint {of}, while this one ({log!r}) has {mark}: the ratings "
        "or how they are read have changed. Choose another place, or delete that file."
    )


def versions() -> dict[str, str]:
    """Return those of all that a figure may depend on."""
    return {"unskew": unskew.__version__, "python": platform.python_version(), **{n: version(n) for n in COMPUTING}}


@dataclass(frozen=True)
class Job:
    """Something to find out, in another process if there are several."""

    key: str  # a path such as fit/naive/0: jobs that differ in its number alone take about as long
    recipe: Any  # all that the outcome depends on, as plain data or text
    work: Callable[[Any], Values]  # is given what all jobs of a run are

    @property
    def kind(self) -> str:
        return self.key.rpartition("/")[0]


class Outcome(NamedTuple):
    """The values by key, and for jobs that unskew refused or broke off, the sentence that says why."""

    values: dict[str, Values]
    failures: dict[str, str]


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence about how to go on."""


@contextmanager
def opened(file: Path) -> Iterator[Records]:
    """Open the records of a file that nobody else writes to meanwhile."""
    with locked(file):
        yield Records(file)


def run(jobs: Sequence[Job], records: Records, workers: int = 1, given: Any = None) -> Outcome:
    """Run the jobs that have no record yet; failed ones leave none and are tried again next time."""
    values = {job.key: found for job in jobs if (found := records.values(job.key, job.recipe)) is not None}
    failures = dict[str, str]()
    left = [job for job in jobs if job.key not in values]
    _announce(jobs, left, records)
    forecast = Forecast([job.kind for job in left], workers)
    try:
        with bar("jobs", len(jobs), "job", done=len(values)) as shown:
            for job, found, failure, _ in attempts(left, workers, given, shown, forecast):
                if failure:
                    failures[job.key] = failure
                else:
                    records.add(job.key, job.recipe, found)
                    values[job.key] = found
    except KeyboardInterrupt:
        sentence = f"Stopped with {len(values)} of {len(jobs)} jobs finished and kept in {records.file}; "
        raise Stopped(sentence + "run the same command again to go on.") from None
    in_order = [job.key for job in jobs]  # and not as they happened to finish
    values = {key: values[key] for key in in_order if key in values}
    return Outcome(values, {key: failures[key] for key in in_order if key in failures})


def _announce(jobs: Sequence[Job], left: Sequence[Job], records: Records) -> None:
    """Say how many jobs there are before the first begins."""
    if stale := sum(job.key in records.keys for job in left):
        what = "with other settings or another version and are run anew"
        say(f"{stale} jobs were recorded in {records.file} {what}.")
    if left:
        done = f"; {len(jobs) - len(left)} of {len(jobs)} had been finished before and were read from {records.file}"
        say(f"{len(left)} jobs to run{done if len(left) < len(jobs) else ''}.")


class Forecast:
    """Says how long jobs will take as soon as one of each kind is done."""

    def __init__(self, kinds: Sequence[str], workers: int) -> None:
        self.left, self.seconds, self.workers = list(kinds), dict[str, float](), workers

    def learn(self, kind: str, seconds: float) -> None:
        self.left.remove(kind)
        new = kind not in self.seconds
        self.seconds.setdefault(kind, seconds)
        if new and self.left and set(self.left) <= self.seconds.keys():
            total = sum(self.seconds[kind] for kind in self.left) / self.workers
            say(f"The other {len(self.left)} will take about {timedelta(seconds=round(total))}, by one of each kind.")


class Attempt(NamedTuple):
    """What a job has found, or the sentence that says why it failed, and how long it took."""

    job: Job
    values: Values
    failure: str
    seconds: float


def attempts(jobs: Sequence[Job], workers: int, given: Any, shown: Bar, forecast: Forecast) -> Iterator[Attempt]:
    """Run jobs side by side, each given the same, and yield them as they finish."""
    with closing(side_by_side(partial(_attempt, given=given), jobs, workers)) as finished:
        for one in finished:
            forecast.learn(one.job.kind, one.seconds)
            yield one
            shown.advance(one.job.key)


def _attempt(job: Job, given: Any) -> Attempt:
    began = time.perf_counter()
    try:
        values, failure = job.work(given), ""
    except UnskewError as error:
        values, failure = {}, str(error)
    return Attempt(job, values, failure or ", ".join(_odd(values)), time.perf_counter() - began)


def _odd(values: Values, prefix: str = "") -> Iterator[str]:
    """Name what is no finite number and so cannot be recorded."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _odd(value, f"{prefix}{name} ")
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{prefix}{name} is {value}"


@cache
def warm_up() -> None:
    """Load what is compiled, once a process, so that the first fit's seconds do not include it."""
    tiny = simulate(n_users=80, n_items=50, density=0.15)
    DRJL(propensity=Additive()).fit(tiny.log, training=Training(max_epochs=1, progress=False))
