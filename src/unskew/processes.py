"""Work done side by side in processes of one thread each, with the same bits as one after the other."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any, Generic, TypeVar

from unskew.errors import UnskewError
from unskew.runtime import silence

Task = TypeVar("Task")
Found = TypeVar("Found")
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Processes(Generic[Task, Found]):
    """Calls work(task, given) for tasks as they come; `given` goes to every process once. All must be picklable."""

    def __init__(self, count: int, work: Callable[[Task, Any], Found], given: Any) -> None:
        self.count, self.work, self.given = count, work, given
        self._pool: ProcessPoolExecutor | None = None
        self._others = set(active_children())

    def results(self, tasks: Sequence[Task]) -> Generator[Found, None, None]:
        """Results as they finish; leaving early, by Ctrl-C or an error, ends the processes at once."""
        waiting, running = iter(tasks), set[Future[Found]]()
        try:
            running = self._submitted(islice(waiting, self.count))
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= self._submitted(islice(waiting, len(done)))
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            raise UnskewError(
                "A worker process died, perhaps for want of memory; do the same with fewer workers to go on."
            ) from None
        finally:
            if running:
                self.close(now=True)

    def _submitted(self, tasks: Iterator[Task]) -> set[Future[Found]]:
        with _one_thread_each(), _ignoring_interrupts():  # which processes inherit: only this one answers Ctrl-C
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self.count, get_context("spawn"), _start, (self.work, self.given))
            return {self._pool.submit(_done, task) for task in tasks}

    def close(self, now: bool = False) -> None:
        """End the processes, at once or when they have done what they are doing."""
        if self._pool is None:
            return
        if now:
            for process in set(active_children()) - self._others:
                process.terminate()
        self._pool.shutdown(cancel_futures=True)
        self._pool = None


_work: Any = None  # in a worker process: what it does with tasks
_given: Any = None  # and what they all are given


def _start(work: Any, given: Any) -> None:
    global _work, _given
    _work, _given = work, given
    silence()  # only the process that waits tells how far things are
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _done(task: Any) -> Any:
    return _work(task, _given)


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
