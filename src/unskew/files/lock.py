"""One writer at a time: a lock that its holder's death opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from unskew.errors import ParameterError
from unskew.files.atomic import reason


@contextmanager
def locked(target: Path | None, lock_file: Path | None = None) -> Iterator[None]:
    """Nobody else writes to `target`, a file or a folder, while the block runs.

    The system holds the lock for as long as this process lives, so one that was killed leaves none behind, only the
    file beside `target` (or `lock_file`) that holds the number of the process. Systems without such locks are not
    guarded.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        target = None
    if target is None:
        yield
        return
    path = lock_file or target.absolute().with_name(f".{target.name}.lock")
    with _opened(path, target) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _taken(file, target) from None
        if not _stands(file, path):  # whoever held it has ended since and removed it; another may have made a new one
            with locked(target, lock_file):
                yield
            return
        with suppress(OSError):  # on a full disk nobody is told the number
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            with suppress(OSError):  # the folder may be gone, or may no longer be written to
                path.unlink()


def _opened(path: Path, target: Path) -> IO[str]:
    try:
        return path.open("a+")
    except OSError as error:
        raise ParameterError(f"{target} cannot be written: {reason(error)}.") from error


def _taken(file: IO[str], target: Path) -> ParameterError:
    file.seek(0)
    return ParameterError(
        f"Process {file.read().strip() or 'unknown'} is writing to {target}: wait until it has ended, or choose "
        "another place."
    )


def _stands(file: IO[str], path: Path) -> bool:
    """Whether the file that was opened is still the one that stands there."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file.fileno()), there)
