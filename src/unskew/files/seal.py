"""JSON that carries its own digest, and files that must have the size and digest it lists."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, TypeVar

from unskew.errors import FileError

LARGEST_JSON = 1 << 28  # bytes, far beyond what is ever written: nothing larger is read to find out what it is
NO_DIGEST = "0" * 64  # stands where the JSON's own digest will stand, while that is taken
Contents = TypeVar("Contents")  # whatever has a buffer: bytes, or a file mapped into memory


@dataclass(frozen=True)
class FileEntry:
    """What a file must be to be believed."""

    size: int
    sha256: str

    @classmethod
    def of(cls, contents: bytes) -> FileEntry:
        return cls(len(contents), digest(contents))


class Hashed(RawIOBase):
    """A file to write to that tells the digest of all that was written, and passes it on to another if there is one."""

    def __init__(self, sha256: Any = None, file: IO[bytes] | None = None) -> None:
        super().__init__()
        self.sha256, self.file, self.size = sha256 or hashlib.sha256(), file, 0

    def writable(self) -> bool:
        return True

    def write(self, contents: Any) -> int:
        count = memoryview(contents).nbytes
        self.sha256.update(contents)
        if self.file is not None:
            self.file.write(contents)
        self.size += count
        return count

    @property
    def entry(self) -> FileEntry:
        return FileEntry(self.size, self.sha256.hexdigest())


def sealed(head: Mapping[str, Any], content: Mapping[str, Any]) -> bytes:
    """The content as JSON that carries its own SHA-256, taken with zeros in the place of the digest."""
    whole = {**head, "sha256": NO_DIGEST, **content}
    blank = (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()
    return blank.replace(NO_DIGEST.encode(), digest(blank).encode(), 1)


def parsed(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that the bytes spell, if they spell one."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def check_seal(raw: bytes, content: Mapping[str, Any], name: str) -> None:
    """Refuse the bytes of `content` unless they have the digest that they state."""
    stated = str(content.get("sha256")).encode()
    if digest(raw.replace(stated, NO_DIGEST.encode(), 1)).encode() != stated:
        raise FileError(f"{name} has been altered or damaged: its SHA-256 is not the one it states.")


def verified(path: Path, entry: FileEntry, read: Callable[[Path], Contents]) -> Contents:
    """What `read` makes of a file, which must have the listed size and digest."""
    size = _regular_size(path)
    if size != entry.size:
        raise FileError(f"{path.name} has {size:,} bytes, not the {entry.size:,} that were saved.")
    contents = read(path)
    if digest(contents) != entry.sha256:
        raise FileError(f"{path.name} has been altered or damaged: its SHA-256 is not the one saved.")
    return contents


def read_regular(path: Path) -> bytes:
    """The contents of a file of JSON; links, pipes, folders and what is far too large are refused."""
    size = _regular_size(path)
    if size > LARGEST_JSON:
        raise FileError(f"{path.name} has {size:,} bytes, and none of unskew's has more than {LARGEST_JSON:,}.")
    return path.read_bytes()


def _regular_size(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise FileError(f"{path.name} is missing.") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path.name} is not a regular file.")
    return found.st_size


def digest(contents: Any) -> str:
    """The SHA-256 of anything that has a buffer, which is read in place."""
    return hashlib.sha256(contents).hexdigest()
