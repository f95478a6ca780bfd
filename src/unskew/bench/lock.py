"""One run at a time: a lock that its holder's death opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unskew.errors import ParameterError
from unskew.files.atomic import reason


@contextmanager
def locked(file: Path | None) -> Iterator[None]:
    """Nobody else writes to `file` while the block runs.

    The system holds the lock for as long as this process lives, so one that was killed leaves none behind; the lock
    file beside `file` stays, and holds the number of its last holder. Systems without such locks are not guarded.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        file = None
    if file is None:
        yield
        return
    beside = file.with_name(f".{file.name}.lock")
    try:
        lock = beside.open("a+")
    except OSError as error:
        raise ParameterError(f"{file} cannot be written: {reason(error)}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise ParameterError(
                f"Process {lock.read().strip() or 'unknown'} is writing to {file}: wait until it has ended, or choose "
                "another place."
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
