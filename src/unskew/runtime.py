"""Long work: how far it is on standard error, and work side by side in processes of one thread each."""

import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from unskew.errors import UnskewError

Item = TypeVar("Item")
Found = TypeVar("Found")
EVERY = 30.0  # seconds between lines where there is no terminal


class _State:
    """Of this process: whether progress may be shown, and the display that all bars share while there are any."""

    silent = False
    display: Any = None


def silence(silent: bool = True) -> None:
    """Show no progress and no sentences from now on in this process, but for bars that are asked for expressly."""
    _State.silent = silent


def is_shown(progress: bool | None) -> bool:
    """Return whether to show progress: as asked for, and for None if errors go to a terminal."""
    return progress if progress is not None else sys.stderr.isatty() and not _State.silent


def say(sentence: str) -> None:
    """Print a line on standard error, above whatever is shown there."""
    if _State.silent:
        return
    if _State.display is None:
        print(sentence, file=sys.stderr)
    else:
        _State.display.console.print(sentence, highlight=False, markup=False, soft_wrap=True)


class Bar:
    """How far something is: a bar on a terminal, elsewhere a line now and then."""

    def __init__(
        self, title: str, count: str, done: int, display: Any = None, task: Any = None, every: float = EVERY
    ) -> None:
        self._title, self._count, self._done, self._note = title, count, done, ""
        self._display, self._task, self._every, self._last = display, task, every, time.monotonic()

    def advance(self, note: str | None = None) -> None:
        """Count one more as done; `note` is what there is to know of it."""
        self._done, self._note = self._done + 1, self._note if note is None else note
        if self._display is not None:
            self._display.update(self._task, completed=self._done, note=self._note)
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            say(f"{self._title}: {self._done} {self._count} {self._note}".rstrip())


@contextmanager
def bar(
    title: str, total: int, unit: str, *, done: int = 0, shown: bool | None = None, at_most: bool = False
) -> Iterator[Bar]:
    """Show a bar while the block runs, below those that are there already; `at_most` if fewer than `total` may do."""
    count = f"of {'at most ' if at_most else ''}{total} {unit}s"
    if not is_shown(shown):
        yield Bar(title, count, done, every=math.inf if shown is False or _State.silent else EVERY)
        return
    outermost = _State.display is None
    display = _State.display = _State.display or _display()
    if outermost:
        display.start()
    task = display.add_task(title, total=total, completed=done, count=count, note="")
    try:
        yield Bar(title, count, done, display, task)
    finally:
        display.remove_task(task)
        if outermost:
            display.stop()
            _State.display = None


def _display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(10),  # all of it fits into 80 columns
        TextColumn("{task.completed:.0f} {task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


def side_by_side(work: Callable[[Item], Found], items: Iterable[Item], workers: int) -> Generator[Found, None, None]:
    """Yield work(item) of every item as it finishes; leaving early, by Ctrl-C or an error, ends the processes at once.

    One worker is this process. Several are processes of one thread each, to which work and items are pickled.
    """
    if workers == 1:
        yield from map(work, items)
        return
    import joblib
    from joblib.externals.loky.process_executor import BrokenProcessPool

    beginning: dict[str, Any] = {"initializer": _begin, "initargs": (os.getpid(),), "inner_max_num_threads": 1}
    with joblib.parallel_config("loky", n_jobs=workers, **beginning):
        pool = joblib.Parallel(return_as="generator_unordered", pre_dispatch=workers, batch_size=1, max_nbytes=None)
        results = pool(joblib.delayed(work)(item) for item in items)
    try:
        yield from results
    except BrokenProcessPool:
        sentence = "A worker process died, perhaps for want of memory; do the same with fewer workers to go on."
        raise UnskewError(sentence) from None
    finally:
        with warnings.catch_warnings(action="ignore"):  # that tasks are cancelled
            results.close()


def _begin(parent: int) -> None:
    """Begin a worker: the process that waits for it shows progress and gets Ctrl-C, and the worker ends with it."""
    silence()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:  # else it would wait for work for minutes when its parent is killed
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
