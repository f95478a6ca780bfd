"""Long runs that may be stopped: every finished job becomes a record and is not run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.bench.records import Records, Values
from unskew.bench.workers import Job, Workers
from unskew.errors import ParameterError
from unskew.files.lock import locked
from unskew.runtime import bar, say

__all__ = ["Job", "Outcome", "Runner", "Stopped", "opened", "run", "say"]


@dataclass(frozen=True)
class Outcome:
    """The values by key, and for jobs that unskew refused or broke off, the sentence that says why."""

    values: dict[str, Values]
    failures: dict[str, str]


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence about how to go on."""


class Runner:
    """Runs jobs, batch after batch, with one progress bar over all; `total` is how many there will be."""

    def __init__(self, records: Records, total: int, workers: int = 1, given: Any = None, unit: str = "job") -> None:
        if workers < 1:
            raise ParameterError(f"workers must be at least 1, not {workers}.")
        self.records, self.workers, self.total = records, Workers(workers, given), total
        self.finished, self.again = 0, 0  # jobs that have values now, and those read from records
        self._unit, self._shown = unit, ExitStack()

    def __enter__(self) -> Runner:
        self._bar = self._shown.enter_context(bar(f"{self._unit}s", self.total, self._unit))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self._shown.close()
        self.workers.close(now=kind is not None)
        if kind is None and self.again:
            kept = "" if self.records.file is None else f" and were read from {self.records.file}"
            say(f"{self.again} of {self.total} jobs had been finished before{kept}.")

    def run(self, jobs: Sequence[Job]) -> Outcome:
        """Run the jobs that have no record yet; failed ones leave none and are tried again next time."""
        found = {job.key: self.records.values(job.key, job.recipe) for job in jobs}
        values = {key: known for key, known in found.items() if known is not None}
        self._pass_over(len(values))
        self._say_what_is_stale(jobs)
        failures: dict[str, str] = {}
        try:
            with closing(self.workers.attempts([job for job in jobs if job.key not in values])) as attempts:
                for tried in attempts:
                    if tried.failure:
                        failures[tried.job.key] = tried.failure
                    else:
                        self.records.add(tried.job.key, tried.job.recipe, tried.values)
                        values[tried.job.key] = tried.values
                        self.finished += 1
                    self._bar.advance(tried.job.key)
        except KeyboardInterrupt:
            raise Stopped(self._how_to_go_on()) from None
        in_order = [job.key for job in jobs]  # and not as they happened to finish
        return Outcome(
            {key: values[key] for key in in_order if key in values},
            {key: failures[key] for key in in_order if key in failures},
        )

    def _pass_over(self, count: int) -> None:
        """Count jobs that need not be run, but not as speed."""
        self.finished += count
        self.again += count
        for _ in range(count):
            self._bar.advance()

    def _say_what_is_stale(self, jobs: Sequence[Job]) -> None:
        if stale := sum(self.records.stale(job.key, job.recipe) for job in jobs):
            say(
                f"{stale} jobs were recorded in {self.records.file} with other settings or another version and are "
                "run anew."
            )

    def _how_to_go_on(self) -> str:
        kept = "lost" if self.records.file is None else f"kept in {self.records.file}"
        return (
            f"Stopped with {self.finished} of {self.total} jobs finished and {kept}; "
            "run the same command again to go on."
        )


@contextmanager
def opened(file: Path | None) -> Iterator[Records]:
    """The records of a file that nobody else writes to meanwhile."""
    if file is not None and not file.absolute().parent.is_dir():
        raise ParameterError(f"The records file {file} cannot be used: no such file or directory.")
    with locked(file):
        records = Records(file)
        for note in records.notes:
            say(note)
        yield records


def run(jobs: Sequence[Job], file: Path, workers: int = 1, given: Any = None) -> Outcome:
    """Run the jobs that have no record in the file yet."""
    with opened(file) as records, Runner(records, len(jobs), workers, given) as runner:
        return runner.run(jobs)
