"""The log of what was shown: JSON lines that only grow, in parts, whole after a kill.

A line is an item at a place, with the columns of `COLUMNS`. The lines of a list are written by one call before the list
is answered, its first place last: a list whose first place is there is whole. Each process begins parts of its own.
"""

import json
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unskew.data.guess import columns_of
from unskew.data.ids import as_arrow
from unskew.data.impressions import as_flags
from unskew.data.read import is_path, read_frame
from unskew.errors import DataError, ParameterError
from unskew.store.atomic import PathLike, checked_path, reason

COLUMNS = ("request", "user", "item", "position", "pscore", "policy", "model", "time")
PART_BYTES = 64 << 20


class ShownLog:
    """Append lists to the newest part in a folder; a part of `part_bytes` is followed by the next."""

    def __init__(self, folder: PathLike, part_bytes: int = PART_BYTES) -> None:
        self.folder, self.part_bytes, self.rows = checked_path(folder), part_bytes, 0
        self._lock, self._file, self._parts, self._written = threading.Lock(), -1, 0, 0
        try:
            self.folder.mkdir(exist_ok=True)
            self._next_part()
        except OSError as error:
            raise ParameterError(f"The log of what is shown cannot be written to {folder}: {reason(error)}.") from error

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write the lines of whole lists; they are in the system's hands when this returns, whatever becomes of us."""
        lines = "".join(json.dumps(row, allow_nan=False) + "\n" for row in reversed(rows))
        data = lines.encode()
        with self._lock:
            if self._written and self._written + len(data) > self.part_bytes:
                self._next_part()
            end = self._written + len(data)
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError:  # a disk that is full, perhaps in the middle of a line
                os.ftruncate(self._file, self._written)
                raise
            self._written = end
            self.rows += len(rows)

    def close(self) -> None:
        """Flush the last part to the disk."""
        with self._lock:
            self._end_part()

    def _end_part(self) -> None:
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _next_part(self) -> None:
        self._end_part()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name = f"shown-{stamp}-{os.getpid()}-{self._parts:05}.jsonl"
        self._file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._parts, self._written = self._parts + 1, 0


def read_shown(folder: PathLike, clicks: Any = None) -> tuple[pa.Table, int]:
    """Read all parts: a table of `COLUMNS`, lists whole and in order, and how many torn lines were left out.

    With `clicks`, a file or a frame of request, item and, by choice, user, the table has a column `clicked`: what
    `unskew.fit` learns from.
    """
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    torn, parts = 0, sorted(checked_path(folder).glob("shown-*.jsonl"))
    if not parts:
        raise DataError(f"{folder} holds no parts shown-*.jsonl: give the folder that `unskew serve --log` writes.")
    for part in parts:
        pending: list[list[Any]] = []
        with part.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    torn += 1
                    break
                try:
                    row = json.loads(line)
                    pending.append([row[name] for name in COLUMNS])
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"line {number} of {part.name} is no line of a served log: {error}.") from None
                if row["position"] == 1:
                    for column, held in zip(columns.values(), zip(*reversed(pending), strict=True), strict=True):
                        column += held
                    pending = []
        torn += len(pending)
    shown = pa.table({name: _column(held) for name, held in columns.items()})
    return (shown if clicks is None else _with_clicks(shown, clicks)), torn


def _with_clicks(shown: pa.Table, clicks: Any) -> pa.Table:
    """Add a column that is 1 for what was clicked; clicks of what was not shown are refused."""
    given = columns_of(read_frame(clicks, sides=()) if is_path(clicks) else clicks, "the clicks")
    by = [name for name in ("request", "item", "user") if name in given]
    if by[:2] != ["request", "item"]:
        raise DataError(f"the clicks have no columns request and item, only {', '.join(given)}: name them so.")
    keys = [pc.binary_join_element_wise(*(as_arrow(table[name], name).cast("string") for name in by), "\0")
            for table in (shown, given)]  # fmt: skip
    if "clicked" in given:
        keys[1] = keys[1].filter(pa.array(as_flags(given["clicked"], "column 'clicked'")))
    lost = keys[1].filter(pc.invert(pc.is_in(keys[1], value_set=keys[0])))
    if len(lost):
        what = ", ".join(f"{name} {held}" for name, held in zip(by, lost[0].as_py().split("\0"), strict=True))
        some = f"{len(lost):,} of {len(keys[1]):,} clicks are of nothing that was shown"
        raise DataError(f"{some}, such as {what}: leave them out.")
    return shown.append_column("clicked", pc.is_in(keys[0], value_set=keys[1]).cast("int8"))


def _column(values: list[Any]) -> pa.Array:
    """Make ids text where they are numbers in some parts and text in others."""
    return pa.array(values if len({type(value) for value in values}) < 2 else [str(value) for value in values])
