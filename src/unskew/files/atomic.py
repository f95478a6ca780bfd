"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from unskew.errors import ParameterError

PathLike = str | os.PathLike[str]
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_A_DAY = 24 * 60 * 60.0


def checked_path(path: PathLike) -> Path:
    """An absolute path with symbolic links followed, so that what is replaced is what they point to."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise ParameterError(f"A path must be a text or a Path, not {path!r}.") from None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParameterError(f"The path {text!r} cannot name a file or folder.")
    return Path(os.path.realpath(text))


@contextmanager
def synced(path: Path) -> Iterator[IO[bytes]]:
    """A new file to write to, whose bytes have reached the disk when the block ends well."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def write_synced(path: Path, data: bytes) -> None:
    """A new file whose bytes have reached the disk."""
    with synced(path) as file:
        file.write(data)


def replace_file(target: Path, data: bytes) -> None:
    """Write aside, then rename: a reader finds the old file or the new one, never half of one."""
    fresh = _beside(target, "new")
    try:
        write_synced(fresh, data)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def write_file(path: PathLike, data: bytes) -> None:
    """As `replace_file`, for those who want what keeps a file from being written in a sentence."""
    try:
        replace_file(checked_path(path), data)
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {reason(error)}.") from error


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` to write into, which takes its place when the block ends well.

    After any error the target is as it was. Linux swaps two folders in one call. Elsewhere, for the instant between
    two renames, the old folder stands beside its place under a name ending in .old.
    """
    fresh = _beside(target, "new")
    fresh.mkdir()
    try:
        yield fresh
        _sync_folder(fresh)
        old = _swap(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _sync_folder(target.parent)
    if old is not None:
        _remove(old, target)
    _sweep(target.parent)


def _swap(fresh: Path, target: Path) -> Path | None:
    """Put `fresh` in the place of `target`; where the old one is now, if there was one."""
    if not target.exists():
        fresh.rename(target)
        return None
    if _exchanged(fresh, target):
        return fresh
    old = _beside(target, "old")
    target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        old.rename(target)
        raise
    return old


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders swap their names at once, where the system can."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return swap is not None and swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _remove(old: Path, target: Path) -> None:
    try:
        shutil.rmtree(old)
    except OSError as error:
        warnings.warn(f"{target} is saved, but the old {old} cannot be removed: {reason(error)}.", stacklevel=5)


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed have left unfinished; whoever still writes has touched it today."""
    for path in folder.glob(".unskew-*.new"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _A_DAY:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def reason(error: OSError) -> str:
    """Why a system call failed, in words and without the errno."""
    return (error.strerror or str(error)).lower()


def _beside(target: Path, ending: str) -> Path:
    """A name that nobody has, short because the target's own may already be as long as names can be."""
    return target.parent / f".unskew-{uuid.uuid4().hex}.{ending}"


def _sync_folder(folder: Path) -> None:
    """Make renames inside a folder last, where the system can: Windows and some network disks cannot."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
