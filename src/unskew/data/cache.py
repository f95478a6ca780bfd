"""Logs kept in a folder from run to run: opened if they are what they were, built again if not."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from unskew.data.build import COLUMNS, IDS, build, ids_in
from unskew.data.columns import pieces
from unskew.data.log import RatingLog
from unskew.data.stream import Request
from unskew.data.tablefile import Tables, plain_errors
from unskew.data.vocabulary import Vocabulary
from unskew.errors import CacheWarning, DataError, FileError, ParameterError
from unskew.files.atomic import checked_path, reason, replaced_folder, write_synced
from unskew.files.seal import FileEntry, check_seal, digest, parsed, read_regular, sealed, verified

FORMAT, VERSION = "unskew cache", 1
CONTENTS = "cache.json"
LOG, LOCK = "log", "lock"  # what stands in the folder of a request


def cached_log(request: Request, cache: str | os.PathLike[str]) -> RatingLog:
    """The log that the request determines, its columns mapped from a sub-folder of `cache`.

    Every request has a sub-folder of its own. What stands there is believed if it has our format and version,
    was made from files of the same names, sizes and times, and has the recorded sizes and SHA-256.
    """
    root = checked_path(cache)
    asked = _asked(request)
    place = root / f"{request.source.name[:40]}-{digest(json.dumps(asked).encode())[:16]}"
    with _one_sentence(root):
        with suppress(FileError):
            return _opened(place / LOG, request, asked)
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place / LOCK):  # one builds, the others wait for it
            try:
                return _opened(place / LOG, request, asked)
            except FileError as fault:
                if (place / LOG).exists():
                    warnings.warn(f"the cache {place / LOG} is built again: {fault}", CacheWarning, stacklevel=3)
            _build(place, request, asked)
            return _opened(place / LOG, request, asked)


def _build(place: Path, request: Request, asked: dict[str, Any]) -> None:
    for remains in place.glob(".unskew-*"):  # of builds that were killed: we hold the lock
        rmtree(remains)
    source = _state(request.source)
    with replaced_folder(place / LOG) as folder:
        built = build(request, folder)
        if _state(request.source) != source:
            raise DataError(f"{request.source.name} has changed while it was read: read it again.")
        files = {name: vars(entry) for name, entry in built.files.items()}
        facts = {"rows": built.rows, "duplicates_merged": built.duplicates_merged, "files": files}
        head = {"format": FORMAT, "version": VERSION}
        write_synced(folder / CONTENTS, sealed(head, {"asked": asked, "source": source, **facts}))


def _opened(folder: Path, request: Request, asked: dict[str, Any]) -> RatingLog:
    """The log in a folder, or a FileError that says why it is not the one wanted."""
    content = _contents(folder)
    if content["asked"] != asked:
        raise FileError("it was made with other settings.")
    if content["source"] != _state(request.source):
        raise FileError(f"{request.source.name} has changed since.")
    files = content["files"]
    mapped = {name: verified(folder / name, FileEntry(**files[name]), _mapped) for name in (*COLUMNS, *IDS)}
    users, items, ratings = (mapped[name].view(dtype) for name, dtype in COLUMNS.items())
    user_ids, item_ids = (ids_in(mapped[name]) for name in IDS)
    return RatingLog.proved(
        users=users,
        items=items,
        ratings=ratings,
        user_ids=user_ids,
        item_ids=item_ids,
        scale=request.settings.scale,
        duplicates_merged=content["duplicates_merged"],
    )


def _contents(folder: Path) -> dict[str, Any]:
    raw = read_regular(folder / CONTENTS)
    content = parsed(raw)
    if content is None or content.get("format") != FORMAT:
        raise FileError(f"{CONTENTS} does not describe an {FORMAT}.")
    if content.get("version") != VERSION:
        raise FileError(f"it has format version {content.get('version')!r}, and this unskew has {VERSION}.")
    check_seal(raw, content, CONTENTS)
    return content


def _mapped(path: Path) -> NDArray[np.uint8]:
    return np.memmap(path, np.uint8, "r")


def _asked(request: Request) -> dict[str, Any]:
    """What the log depends on beside the state of its source, as plain data."""
    source, settings = request.source, request.settings
    scale = settings.scale
    return {
        "path": os.path.realpath(source.path),
        "delimiter": source.delimiter,
        **({} if source.header else {"header": False}),
        "columns": [settings.user, settings.item, settings.rating],
        "scale": [repr(bound) for bound in (scale.positive, scale.low, scale.high)],  # JSON has no infinity
        "duplicates": settings.duplicates,
        "catalogues": [_digest(ids) for ids in (request.users, request.items)],
        "byteorder": sys.byteorder,
    }


def _state(source: Tables) -> list[list[Any]]:
    """Names, sizes and times of the last change: what tells that a source is as it was without reading it."""
    with plain_errors(source.name, "found", "check the path"):
        found = [(file.name, file.path.stat()) for file in source.files]
    return [[name, state.st_size, state.st_mtime_ns] for name, state in found]


def _digest(ids: Vocabulary | None) -> str | None:
    if ids is None:
        return None
    return digest("".join(digest(repr(ids.arrow[piece].to_pylist()).encode()) for piece in pieces(len(ids))).encode())


@contextmanager
def _one_sentence(root: Path) -> Iterator[None]:
    """Whatever keeps a cache from being written or read, as one ParameterError."""
    if root.exists() and not root.is_dir():
        raise ParameterError(f"the cache {root} is a file: pass a folder as cache.")
    try:
        yield
    except OSError as error:
        raise ParameterError(
            f"the cache {root} cannot be used: {reason(error)}; nothing half written is left there, "
            "so make room for it or pass another folder as cache."
        ) from error
