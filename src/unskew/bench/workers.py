"""Where jobs are done: in this process, or side by side in several of one thread each."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any

from unskew.bench.records import Values
from unskew.errors import UnskewError
from unskew.progress import silence

ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


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
        self._pool: ProcessPoolExecutor | None = None
        self._others = set(active_children())

    def attempts(self, jobs: Sequence[Job]) -> Generator[Attempt, None, None]:
        """Attempts as they finish; leaving early, by Ctrl-C or an error, ends the processes at once."""
        return (attempt(job, self.given) for job in jobs) if self.count == 1 else self._in_processes(jobs)

    def _in_processes(self, jobs: Sequence[Job]) -> Generator[Attempt, None, None]:
        waiting, running = iter(jobs), set[Future[Attempt]]()
        try:
            running = self._submitted(islice(waiting, self.count))
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= self._submitted(islice(waiting, len(done)))
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            raise UnskewError(
                "A worker process died, perhaps for want of memory; run the same command with fewer --workers to go on."
            ) from None
        finally:
            if running:
                self.close(now=True)

    def _submitted(self, jobs: Iterator[Job]) -> set[Future[Attempt]]:
        with _one_thread_each(), _ignoring_interrupts():  # which processes inherit: only this one answers Ctrl-C
            if self._pool is None:
                context = get_context("spawn")
                self._pool = ProcessPoolExecutor(self.count, context, _start, (self.given,))
            return {self._pool.submit(_attempt, job) for job in jobs}

    def close(self, now: bool = False) -> None:
        """End the processes, at once or when they have done what they are doing."""
        if self._pool is None:
            return
        if now:
            for process in set(active_children()) - self._others:
                process.terminate()
        self._pool.shutdown(cancel_futures=True)
        self._pool = None


_given: Any = None  # in a worker process: what its jobs are given


def _start(given: Any) -> None:
    import torch  # here, as the process that only waits does not need it

    global _given
    _given = given
    torch.set_num_threads(1)
    silence()  # only the process that waits tells how far things are
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _attempt(job: Job) -> Attempt:
    return attempt(job, _given)


def _end_with_the_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


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
    if threading.current_thread() is not threading.main_thread():  # which alone hears them
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
