"""Files and folders that appear whole or not at all."""

import hashlib
import os
import shutil
import uuid
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unskew.errors import ParameterError, UnskewError

PathLike = str | os.PathLike[str]


def checked_path(path: PathLike) -> Path:
    """Return an absolute path with symbolic links followed, so that what is replaced is what they point to."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise ParameterError(f"A path must be a text or a Path, not {path!r}.") from None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParameterError(f"The path {text!r} cannot name a file or folder.")
    try:
        return Path(os.path.realpath(text))
    except OSError:
        raise ParameterError(f"{text!r} leads nowhere, as the current folder is gone: change to another.") from None


def refuse_others(target: Path, own: Collection[str], refusal: type[UnskewError] = ParameterError) -> None:
    """Refuse to replace a file, the current folder, or a folder that holds anything but what is called so."""
    if not target.exists():
        return
    if not target.is_dir():
        raise refusal(f"{target} is a file: give the path of a folder.")
    if foreign := sorted({entry.name for entry in target.iterdir()} - {*own}):
        raise refusal(f"{target} holds {foreign[0]!r}, which would be lost: choose another folder.")
    if target.samefile(os.curdir):
        raise refusal(f"{target} is the current folder, which cannot be replaced: name one inside of it.")


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file whose bytes have reached the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: PathLike, data: bytes) -> None:
    """Write aside, then rename: a reader finds the old file or the new one, never half of one."""
    target = checked_path(path)
    try:
        fresh = _beside(target)
        try:
            write_synced(fresh, data)
            fresh.replace(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {reason(error)}.") from error


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Yield a fresh folder next to `target` to write into, which takes its place when the block ends well.

    After any error the target is as it was. For the instant between two renames the old folder stands next to its
    place, where `standing` finds it.
    """
    fresh, old = _beside(target), _aside(target)
    fresh.mkdir()
    try:
        yield fresh
        if target.exists():
            if old.exists():
                shutil.rmtree(old)
            target.rename(old)
        fresh.rename(target)
    except BaseException:
        if not target.exists() and old.exists():
            old.rename(target)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if old.exists():
        try:
            shutil.rmtree(old)
        except OSError as error:
            warnings.warn(f"{target} is saved, but the old {old} cannot be removed: {reason(error)}.", stacklevel=5)


def standing(target: Path) -> Path:
    """Return the folder or, if a process died between two renames, the old one that stands next to its place."""
    old = _aside(target)
    return old if old.is_dir() and not target.exists() else target


def reason(error: OSError) -> str:
    """Return why a system call failed, in words and without the errno."""
    return (error.strerror or str(error)).lower()


def _aside(target: Path) -> Path:
    return target.parent / f".unskew-{hashlib.sha256(target.name.encode()).hexdigest()[:12]}.old"


def _beside(target: Path) -> Path:
    """Return a name that nobody has, short because the target's own may already be as long as names can be.

    It holds the number of this process: what processes that are gone have left unfinished is cleared.
    """
    for left in target.parent.glob(".unskew-*.new"):
        process = left.name.split("-")[1]
        if process.isdigit() and not _runs(int(process)):
            with suppress(OSError):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    return target.parent / f".unskew-{os.getpid()}-{uuid.uuid4().hex[:12]}.new"


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # else it is another user's, or the system cannot tell
        return not isinstance(error, ProcessLookupError)
    return True


@contextmanager
def locked(target: Path | None) -> Iterator[None]:
    """Nobody else writes to `target` while the block runs; None is nothing to guard.

    The system holds the lock for as long as this process lives, so one that was killed leaves none behind. A file next
    to the lock holds the number of the process.
    """
    if target is None:
        yield
        return
    from filelock import FileLock, Timeout  # slow to import

    path = target.absolute().with_name(f".{target.name}.lock")
    holder = path.with_suffix(".holder")
    try:
        with FileLock(path, timeout=0, is_singleton=False):
            with suppress(OSError):  # on a full disk nobody learns the number
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
