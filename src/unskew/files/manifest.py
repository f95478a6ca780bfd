"""model.json: what a model folder holds, and the checks without which nothing in it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unskew.errors import ModelFileError
from unskew.files import seal
from unskew.files.seal import FileEntry

MANIFEST = "model.json"
FORMAT, VERSION = "unskew model", 2


def sealed(content: Mapping[str, Any]) -> bytes:
    """The manifest, which carries its own digest."""
    return seal.sealed({"format": FORMAT, "version": VERSION}, content)


def unsealed(raw: bytes) -> dict[str, Any]:
    """The content of a manifest of our format that nobody has altered, with the version of the format."""
    content = seal.parsed(raw)
    if content is None or content.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} does not describe an unskew model.")
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(
            f"{MANIFEST} has format version {version}, and this unskew reads up to {VERSION}: update unskew."
        )
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{MANIFEST} has the unknown format version {version!r}.")
    seal.check_seal(raw, content, MANIFEST)
    return {key: value for key, value in content.items() if key not in ("format", "sha256")}


def read_verified(folder: Path, entries: Mapping[str, FileEntry]) -> dict[str, bytes]:
    """The contents of all listed files, each of the listed size and digest."""
    for name in entries:
        inside = all(system(name).name == name != ".." for system in (PurePosixPath, PureWindowsPath))
        if not name or not inside:
            raise ModelFileError(f"{MANIFEST} lists {name!r}, which is not a file of the model's own folder.")
    return {name: seal.verified(folder / name, entry, Path.read_bytes) for name, entry in entries.items()}


def foreign_names(folder: Path) -> list[str]:
    """What in a folder is no part of an unskew model, and so must not be replaced by one."""
    names = {entry.name for entry in folder.iterdir()}
    manifest = folder / MANIFEST
    content = seal.parsed(manifest.read_bytes()) if manifest.is_file() else None
    if content is None or content.get("format") != FORMAT or not isinstance(content.get("files"), dict):
        return sorted(names)
    return sorted(names - {MANIFEST, *content["files"]})
