"""A log streamed from its source into raw columns on the disk, in memory that does not grow with the log."""

from __future__ import annotations

import hashlib
import math
import os
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.catalogue import Ids
from unskew.data.columns import pieces
from unskew.data.duplicates import merge_duplicates
from unskew.data.log import RatingLog, Settings
from unskew.data.stream import Coded, LogStream, Request
from unskew.data.vocabulary import Vocabulary
from unskew.files.seal import FileEntry

COLUMNS: dict[str, Any] = {"users.i32": np.int32, "items.i32": np.int32, "ratings.f32": np.float32}
IDS = ("user_ids.arrow", "item_ids.arrow")
_STAGED = {"users": np.int32, "items": np.int32, "ratings": np.float64}


class Built(NamedTuple):
    """What stands in the folder of a log when it has been built."""

    rows: int
    duplicates_merged: int
    files: dict[str, FileEntry]


def build(request: Request, folder: Path) -> Built:
    """Write the log into an empty folder, or raise what keeps it from being one.

    The rows are staged as they come, because only after the last one is it known which of them are merged and
    how codes stand in a catalogue. The finished columns are then put to the test of every `RatingLog`.
    """
    scratch = folder / "scratch"
    scratch.mkdir()
    built = _built(request, folder, scratch)
    pa.default_memory_pool().release_unused()  # what the last batch and the ids took
    rmtree(scratch)  # when nothing of it is mapped any more: not every system removes what is
    return built


def ids_in(contents: Any) -> Vocabulary:
    """The ids of an Arrow file that `build` has written, in place."""
    table = pa.ipc.open_file(pa.py_buffer(contents)).read_all()
    return Vocabulary.proved(table.column("id").chunk(0))


class _GrowingFile:
    """A new file that takes its digest while it grows; as much of a Python file as Arrow asks for."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._file, self._digest, self._size = path.open("xb"), hashlib.sha256(), 0

    def __enter__(self) -> _GrowingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> None:
        view = memoryview(data)
        self._file.write(view)
        self._digest.update(view)
        self._size += view.nbytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Arrow closes what it has written to, but `finish` still needs the file."""

    def finish(self) -> FileEntry:
        """What was written, when it has reached the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return FileEntry(self._size, self._digest.hexdigest())


def _built(request: Request, folder: Path, scratch: Path) -> Built:
    staged, ids = _stage(request, scratch)
    lost = _lost(staged, request.settings, scratch)
    files = _finish(staged, lost, ids, request.settings, folder)
    user_ids, item_ids = (side.vocabulary for side in ids)
    users, items, ratings = (np.memmap(folder / name, dtype, "r") for name, dtype in COLUMNS.items())
    log = RatingLog(users, items, ratings, user_ids, item_ids, request.settings.scale)
    files |= {name: _write_ids(folder / name, side.vocabulary) for name, side in zip(IDS, ids, strict=True)}
    return Built(len(log), len(staged.ratings) - len(log), files)


def _stage(request: Request, scratch: Path) -> tuple[Coded, tuple[Ids, Ids]]:
    stream = LogStream(request)
    with ExitStack() as stack:
        files = [stack.enter_context(_GrowingFile(scratch / name)) for name in _STAGED]
        for rows in stream:
            for file, column in zip(files, rows, strict=True):
                file.write(np.ascontiguousarray(column))
            pa.default_memory_pool().release_unused()  # Arrow would keep what the batch took
    staged = Coded(*(np.memmap(scratch / name, dtype, "r+") for name, dtype in _STAGED.items()))
    return staged, stream.ids(staged.users, staged.items)


def _lost(staged: Coded, settings: Settings, scratch: Path) -> NDArray[np.bool_] | None:
    """Which rows are merged into later ones of the same pair; None if that is not asked for."""
    if settings.duplicates == "error":
        return None
    n_rows = len(staged.ratings)
    with _GrowingFile(scratch / "lost") as file:  # written, not mapped, because only then a full disk is an error
        for piece in pieces(n_rows):
            file.write(np.zeros(piece.stop - piece.start, np.bool_))
    lost = np.memmap(scratch / "lost", np.bool_, "r+")
    n_users, n_items = 1 + int(staged.users.max()), 1 + int(staged.items.max())
    merge_duplicates(*staged, lost, n_users, n_items, settings.duplicates)
    return lost


def _finish(
    staged: Coded, lost: NDArray[np.bool_] | None, ids: tuple[Ids, Ids], settings: Settings, folder: Path
) -> dict[str, FileEntry]:
    """The staged rows that are not lost, as the columns of a log."""
    low, high = math.inf, -math.inf
    with ExitStack() as stack:
        files = {name: stack.enter_context(_GrowingFile(folder / name)) for name in COLUMNS}
        for piece in pieces(len(staged.ratings)):
            kept = slice(None) if lost is None else ~lost[piece]
            ratings = staged.ratings[piece][kept]
            low, high = ratings.min(initial=low), ratings.max(initial=high)
            users = ids[0].codes(staged.users[piece][kept])
            items = ids[1].codes(staged.items[piece][kept])
            for file, column in zip(files.values(), (users, items, settings.scale.to_unit(ratings)), strict=True):
                file.write(np.ascontiguousarray(column))
        settings.scale.refuse_one_class(low, high)
        return {name: file.finish() for name, file in files.items()}


def _write_ids(path: Path, ids: Vocabulary) -> FileEntry:
    table = pa.table({"id": ids.arrow})
    with _GrowingFile(path) as file:
        with pa.ipc.new_file(pa.PythonFile(file, "w"), table.schema) as writer:
            writer.write_table(table)
        return file.finish()
