"""Kernels that Numba compiles when they are first called, and the notice that it does: importing it takes its time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

from unskew.runtime import is_shown, say

Function = TypeVar("Function", bound=Callable[..., Any])
SENTENCE = "Compiling kernels: this takes a moment, once on this machine."
_LOCK = threading.RLock()


class Kernel:
    """A function that becomes one of Numba's at the first call, and with it the kernels that its module knows."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self._options, self._compiled = function, options, None

    @property
    def compiled(self) -> Any:
        """Return the function of Numba, made once; what it calls must be Numba's own too."""
        with _LOCK:
            waiting = [self] if self._compiled is None else []
            while waiting:
                names = waiting.pop().py_func.__globals__
                kernels = {name: held for name, held in names.items() if isinstance(held, Kernel)}
                for held in kernels.values():
                    if held._compiled is None:
                        import numba

                        held._compiled = numba.njit(**held._options)(held.py_func)
                        waiting.append(held)
                names.update({name: held._compiled for name, held in kernels.items()})
            return self._compiled

    def __call__(self, *given: Any) -> Any:
        return (self._compiled or self.compiled)(*given)


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return `numba.njit` with these options, without importing Numba before a function is called."""
    return lambda function: cast(Any, Kernel(function, options))


def cache_folder(kernel: Any) -> Path:
    """Return where Numba keeps what it has compiled of a kernel."""
    return Path((kernel.compiled if isinstance(kernel, Kernel) else kernel).stats.cache_path)


def n_threads() -> int:
    """Return how many threads kernels may use, by NUMBA_NUM_THREADS or the number of cores."""
    import numba

    return int(numba.get_num_threads())


@contextmanager
def announced(progress: bool | None) -> Iterator[None]:
    """Announce, once, that kernels are compiled inside, if progress is shown at all; None shows it on a terminal."""
    if not is_shown(progress):
        yield
        return
    from numba.core import event

    class Announce(event.Listener):
        def on_start(self, event: Any) -> None:
            if not started:
                say(SENTENCE)
            started.append(event)

        def on_end(self, event: Any) -> None:
            pass

    started: list[Any] = []
    with event.install_listener("numba:compile", Announce()):
        yield
