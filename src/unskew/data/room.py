"""How much memory is left, so that what cannot fit is refused before it is tried."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unskew.errors import DataError, ParameterError

_SYSTEM, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")


def free_memory() -> float:
    """Bytes that may still be taken; infinity where the system does not say."""
    found = [math.inf]
    with suppress(OSError, ValueError, IndexError):
        found.append(int(_SYSTEM.read_text().partition("MemAvailable:")[2].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # "max" where a container has no limit of its own
        found.append(int(_CONTAINER.read_text()))
    return min(found)


def refuse_too_large(needed: float, free: float, what: str, advice: str) -> None:
    """Refuse what needs more memory than there is."""
    if needed > free:
        raise DataError(
            f"{what}, which needs {needed / 1e9:.1f} GB of memory where {free / 1e9:.1f} are free: {advice}."
        )


@contextmanager
def within_memory(what: str, advice: str) -> Iterator[None]:
    """Whatever asks for more memory than there is, NumPy or PyTorch, is refused in one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        raise ParameterError(f"{what} needs more memory than there is: {advice}.") from error
