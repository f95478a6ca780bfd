"""model.json: what a model folder holds, and the checks without which nothing in it is believed."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unskew.errors import ModelFileError

MANIFEST = "model.json"
FORMAT, VERSION = "unskew model", 1
NO_DIGEST = "0" * 64  # stands where the manifest's own digest will stand, while that is taken


@dataclass(frozen=True)
class FileEntry:
    """What a file must be to be believed."""

    size: int
    sha256: str

    @classmethod
    def of(cls, contents: bytes) -> FileEntry:
        return cls(len(contents), _digest(contents))


def sealed(content: Mapping[str, Any]) -> bytes:
    """The manifest as JSON that carries its own SHA-256, taken with zeros in the place of the digest."""
    head = {"format": FORMAT, "version": VERSION, "sha256": NO_DIGEST}
    blank = (json.dumps(head | dict(content), indent=1, allow_nan=False) + "\n").encode()
    return blank.replace(NO_DIGEST.encode(), _digest(blank).encode(), 1)


def unsealed(raw: bytes) -> dict[str, Any]:
    """The content of a manifest of our format and version that nobody has altered."""
    content = _parsed(raw)
    if content is None or content.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} does not describe an unskew model.")
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(
            f"{MANIFEST} has format version {version}, and this unskew reads up to {VERSION}: update unskew."
        )
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{MANIFEST} has the unknown format version {version!r}.")
    stated = str(content.get("sha256")).encode()
    if _digest(raw.replace(stated, NO_DIGEST.encode(), 1)).encode() != stated:
        raise ModelFileError(f"{MANIFEST} has been altered or damaged: its SHA-256 is not the one it states.")
    return {key: value for key, value in content.items() if key not in ("format", "version", "sha256")}


def read_verified(folder: Path, entries: Mapping[str, FileEntry]) -> dict[str, bytes]:
    """The contents of all listed files, each of the listed size and digest."""
    for name in entries:
        inside = all(system(name).name == name != ".." for system in (PurePosixPath, PureWindowsPath))
        if not name or not inside:
            raise ModelFileError(f"{MANIFEST} lists {name!r}, which is not a file of the model's own folder.")
    return {name: _verified(folder / name, entry) for name, entry in entries.items()}


def read_regular(path: Path) -> bytes:
    """A file's contents; links, pipes and folders are refused."""
    _regular_size(path)
    return path.read_bytes()


def foreign_names(folder: Path) -> list[str]:
    """What in a folder is no part of an unskew model, and so must not be replaced by one."""
    names = {entry.name for entry in folder.iterdir()}
    manifest = folder / MANIFEST
    content = _parsed(manifest.read_bytes()) if manifest.is_file() else None
    if content is None or content.get("format") != FORMAT or not isinstance(content.get("files"), dict):
        return sorted(names)
    return sorted(names - {MANIFEST, *content["files"]})


def _verified(path: Path, entry: FileEntry) -> bytes:
    size = _regular_size(path)
    if size != entry.size:
        raise ModelFileError(f"{path.name} has {size:,} bytes, not the {entry.size:,} that were saved.")
    contents = path.read_bytes()
    if _digest(contents) != entry.sha256:
        raise ModelFileError(f"{path.name} has been altered or damaged: its SHA-256 is not the one saved.")
    return contents


def _regular_size(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise ModelFileError(f"{path.name} is missing.") from None
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"{path.name} is not a regular file.")
    return found.st_size


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
