"""Where jobs are done: in this process, or side by side in several of one thread each."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unskew.bench.records import Values
from unskew.errors import UnskewError
from unskew.processes import Processes


@dataclass(frozen=True)
class Job:
    """Something to find out. `recipe` is all that the outcome depends on, as plain data or text.

    `work` is called with what all jobs of a run are given; to run in another process it must be picklable.
    """

    key: str
    recipe: Any
    work: Callable[[Any], Values]


@dataclass(frozen=True)
class Attempt:
    """What a job found, or the sentence that says why nothing."""

    job: Job
    values: Values
    failure: str = ""


def attempt(job: Job, given: Any) -> Attempt:
    try:
        values = job.work(given)
    except UnskewError as error:
        return Attempt(job, {}, str(error))
    return Attempt(job, values, ", ".join(_odd(values)))


def _odd(values: Values, prefix: str = "") -> Iterator[str]:
    """What is no finite number and so cannot be recorded."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _odd(value, f"{prefix}{name} ")
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{prefix}{name} is {value}"


class Workers:
    """Does jobs as they come; all of them are given the same thing, which goes to every process once."""

    def __init__(self, count: int, given: Any) -> None:
        self.count, self.given = count, given
        self._processes: Processes[Job, Attempt] = Processes(count, attempt, given)

    def attempts(self, jobs: Sequence[Job]) -> Generator[Attempt, None, None]:
        """Attempts as they finish; leaving early, by Ctrl-C or an error, ends the processes at once."""
        return (attempt(job, self.given) for job in jobs) if self.count == 1 else self._processes.results(jobs)

    def close(self, now: bool = False) -> None:
        """End the processes, at once or when they have done what they are doing."""
        self._processes.close(now)
