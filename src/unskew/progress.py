"""Progress on a terminal: what is being done, how far it is and how long it will take. Elsewhere nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

Item = TypeVar("Item")
SENTENCE = "Compiling kernels: this takes a moment, once on this machine."


class _State:
    """Of this process: whether progress may be shown, and the display that all bars share while there are any."""

    silent = False
    display: Any = None


def silence(silent: bool = True) -> None:
    """Show no progress and say nothing from now on in this process, but for bars that are asked for expressly."""
    _State.silent = silent


def is_shown(progress: bool | None) -> bool:
    """Whether to show progress: as asked for, and for None if errors go to a terminal."""
    return progress if progress is not None else sys.stderr.isatty() and not _State.silent


def say(sentence: str) -> None:
    """A line on standard error, above whatever is shown there."""
    if _State.silent:
        return
    if _State.display is None:
        print(sentence, file=sys.stderr)
    else:
        _State.display.console.print(sentence, highlight=False, markup=False, soft_wrap=True)


class Bar:
    """How far something is; without a display it only listens."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display, self._task = display, task

    def advance(self, note: str | None = None) -> None:
        """One more is done; `note` says what there is to know of it."""
        if self._display is not None:
            self._display.update(self._task, advance=1, **({} if note is None else {"note": note}))

    def pass_over(self, count: int) -> None:
        """So many more need not be done, which says nothing about speed."""
        if self._display is not None and count:
            done = self._display.tasks[self._display.task_ids.index(self._task)].completed
            self._display.reset(self._task, completed=done + count)


@contextmanager
def bar(
    title: str, total: int, unit: str, *, done: int = 0, shown: bool | None = None, at_most: bool = False
) -> Iterator[Bar]:
    """A bar while the block runs, below those that are there already; `at_most` if fewer than `total` may do."""
    if not is_shown(shown):
        yield Bar()
        return
    with _display() as display:
        limit = "at most " if at_most else ""
        task = display.add_task(title, total=total, completed=done, unit=unit, limit=limit, note="")
        try:
            yield Bar(display, task)
        finally:
            display.remove_task(task)


def each(items: Sequence[Item], title: str, unit: str = "step") -> Iterator[Item]:
    """The items, with a bar that says how many are done."""
    with bar(title, len(items), unit) as shown:
        for item in items:
            yield item
            shown.advance()


@contextmanager
def _display() -> Iterator[Any]:
    """The one display of the process: the first bar opens it, and it goes when that one does."""
    if _State.display is not None:
        yield _State.display
        return
    _State.display = _made()
    try:
        with _State.display:
            yield _State.display
    finally:
        _State.display = None


def _made() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Any) -> Text:
            left = time_left(task.time_remaining, task.fields["limit"])
            return Text(left or f"{timedelta(seconds=int(task.elapsed or 0))} so far", style="progress.remaining")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(10),  # all of it fits into 80 columns
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.fields[unit]}s"),
        TimeLeft(Column(no_wrap=True)),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


def time_left(seconds: float | None, limit: str = "") -> str:
    """In hours, minutes and seconds; nothing while nobody can tell."""
    return "" if seconds is None else f"{limit}{timedelta(seconds=max(0, round(seconds)))} left"


@contextmanager
def announced(progress: bool | None) -> Iterator[None]:
    """Announce, once, that kernels are compiled inside, if progress is shown at all; None shows it on a terminal."""
    if not is_shown(progress):
        yield
        return
    from numba.core import event

    class Announce(event.Listener):
        announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                say(SENTENCE)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Announce()):
        yield
