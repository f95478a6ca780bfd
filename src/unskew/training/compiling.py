"""Says that kernels are being compiled, once on a machine, instead of letting the first bar stand still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from unskew.progress import is_shown, say

SENTENCE = "Compiling kernels: this takes a moment, once on this machine."


class _Announce(event.Listener):
    """Hears of every function that has to be compiled because no cache holds it; says so the first time."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            say(SENTENCE)

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def announced(progress: bool | None) -> Iterator[None]:
    """Announce compilation inside, if progress is shown at all; None shows it on a terminal only."""
    if not is_shown(progress):
        yield
        return
    with event.install_listener("numba:compile", _Announce()):
        yield
