"""Long work: bars on a terminal, sentences on standard error, work side by side in processes of one thread each."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from unskew.errors import UnskewError

Item = TypeVar("Item")
Found = TypeVar("Found")
SENTENCE = "Compiling kernels: this takes a moment, once on this machine."


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
    """How far something is; without a display nothing is shown."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display, self._task = display, task

    def advance(self, note: str | None = None) -> None:
        """Count one more as done; `note` is what there is to know of it."""
        if self._display is not None:
            self._display.update(self._task, advance=1, **({} if note is None else {"note": note}))


@contextmanager
def bar(
    title: str, total: int, unit: str, *, done: int = 0, shown: bool | None = None, at_most: bool = False
) -> Iterator[Bar]:
    """Show a bar while the block runs, below those that are there already; `at_most` if fewer than `total` may do."""
    if not is_shown(shown):
        yield Bar()
        return
    outermost = _State.display is None
    display = _State.display = _State.display or _display()
    if outermost:
        display.start()
    count = f"of {'at most ' if at_most else ''}{total} {unit}s"
    task = display.add_task(title, total=total, completed=done, count=count, note="")
    try:
        yield Bar(display, task)
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


@contextmanager
def announced(progress: bool | None) -> Iterator[None]:
    """Announce, once, that kernels are compiled inside, if progress is shown at all; None shows it on a terminal."""
    if not is_shown(progress):
        yield
        return
    from numba.core import event

    class Announce(event.Listener):
        def on_start(self, event: Any) -> None:
            told.append(event)
            if len(told) == 1:
                say(SENTENCE)

        def on_end(self, event: Any) -> None:
            pass

    told: list[Any] = []
    with event.install_listener("numba:compile", Announce()):
        yield


def side_by_side(work: Callable[[Item], Found], items: Iterable[Item], workers: int) -> Generator[Found, None, None]:
    """Yield work(item) of every item as it finishes; leaving early, by Ctrl-C or an error, ends the processes at once.

    One worker is this process. Several are processes of one thread each, to which work and items are pickled.
    """
    if workers == 1:
        yield from map(work, items)
        return
    import joblib
    from joblib.externals.loky.process_executor import BrokenProcessPool

    settings: dict[str, Any] = {"return_as": "generator_unordered", "pre_dispatch": workers, "batch_size": 1}
    with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1), _ignoring_interrupts():
        pool = joblib.Parallel(max_nbytes=None, **settings)
        results = pool(joblib.delayed(_in_a_worker)(os.getpid(), work, item) for item in items)
    try:
        yield from results
    except BrokenProcessPool:
        sentence = "A worker process died, perhaps for want of memory; do the same with fewer workers to go on."
        raise UnskewError(sentence) from None
    finally:
        with warnings.catch_warnings(action="ignore"):  # that tasks are cancelled
            results.close()


def _in_a_worker(parent: int, work: Callable[[Item], Found], item: Item) -> Found:
    silence()  # only the process that waits shows how far things are
    if not any(thread.name == "parent" for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(parent,), name="parent", daemon=True).start()
    return work(item)


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: it would wait for work for minutes."""
    while os.getppid() == parent:
        threading.Event().wait(0.5)
    os._exit(1)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start processes inside that leave Ctrl-C to this one."""
    before = None
    with suppress(ValueError):  # outside the main thread, which alone gets them
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
