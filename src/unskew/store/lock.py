"""One writer at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from unskew.errors import ParameterError
from unskew.store.atomic import reason


@contextmanager
def locked(target: Path | None) -> Iterator[None]:
    """Nobody else writes to `target` while the block runs; None is nothing to guard.

    The system holds the lock for as long as this process lives, so one that was killed leaves none behind. A file next
    to the lock holds the number of the process.
    """
    if target is None:
        yield
        return
    path = target.absolute().with_name(f".{target.name}.lock")
    holder = path.with_suffix(".holder")
    try:
        with FileLock(path, timeout=0, is_singleton=False):
            with suppress(OSError):  # on a full disk nobody is told the number
                holder.write_text(str(os.getpid()))
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
    except Timeout:
        who = holder.read_text() if holder.exists() else "unknown"
        raise ParameterError(
            f"Process {who} is writing to {target}: wait until it has ended, or choose another place."
        ) from None
    except OSError as error:
        raise ParameterError(f"{target} cannot be written: {reason(error)}.") from error
