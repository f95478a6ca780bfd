"""Long runs that may be stopped: every finished job becomes a record and is not run again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from unskew.bench.records import Records, Values
from unskew.datasets.world import simulate
from unskew.errors import ParameterError, UnskewError
from unskew.methods.robust import DRJL
from unskew.propensity.additive import Additive
from unskew.runtime import Bar, bar, say, side_by_side
from unskew.store.atomic import locked
from unskew.training.options import Training


@dataclass(frozen=True)
class Job:
    """Something to find out. `recipe` is all that the outcome depends on, as plain data or text.

    `work` is called with what all jobs of a run are given; to run in another process both must be picklable. Keys are
    paths whose last step is a number, such as fit/naive/0: jobs that differ in it alone take about as long.
    """

    key: str
    recipe: Any
    work: Callable[[Any], Values]

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
def opened(file: Path | None) -> Iterator[Records]:
    """Open the records of a file that nobody else writes to meanwhile."""
    if file is not None and not file.absolute().parent.is_dir():
        raise ParameterError(f"The records file {file} cannot be used: no such file or directory.")
    with locked(file):
        records = Records(file)
        for note in records.notes:
            say(note)
        yield records


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
        kept = "lost" if records.file is None else f"kept in {records.file}"
        sentence = f"Stopped with {len(values)} of {len(jobs)} jobs finished and {kept}; "
        raise Stopped(sentence + "run the same command again to go on.") from None
    in_order = [job.key for job in jobs]  # and not as they happened to finish
    values = {key: values[key] for key in in_order if key in values}
    return Outcome(values, {key: failures[key] for key in in_order if key in failures})


def _announce(jobs: Sequence[Job], left: Sequence[Job], records: Records) -> None:
    """Say how many jobs there are before the first begins."""
    if stale := sum(job.key in records.keys for job in left):
        what = "with other settings or another version and are run anew"
        say(f"{stale} jobs were recorded in {records.file} {what}.")
    read = "" if records.file is None else f" and were read from {records.file}"
    before = f"; {len(jobs) - len(left)} of {len(jobs)} had been finished before{read}" if len(left) < len(jobs) else ""
    if left:
        say(f"{len(left)} jobs to run{before}.")


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
