"""Columns of a log of impressions: what was shown, whether it was clicked, whether it was bought."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.ids import as_arrow, plain
from unskew.data.pairs import pair_keys
from unskew.data.population import ListedRows
from unskew.data.scale import as_ratings
from unskew.errors import DataError

Flags = NDArray[np.bool_]


def as_flags(values: Any, where: str) -> Flags:
    """A column of 0 and 1, or of true and false, or a DataError that names the first row with anything else."""
    column = plain(as_arrow(values, where))
    if pa.types.is_boolean(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
    numbers = as_ratings(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column, where)
    if (bad := ~((numbers == 0) | (numbers == 1))).any():
        row = int(bad.argmax())
        raise DataError(f"row {row + 1} of {where} holds {_held(numbers[row])}, where only 0 and 1 tell yes from no.")
    return np.asarray(numbers == 1)


def visible(ratings: Any, seen: Flags, where: str, seen_where: str) -> Any:
    """The column of ratings, in which rows that were not seen hold the rating of one that was: they are not read."""
    if not seen.any():
        raise DataError(f"{seen_where} is 0 in every row: where nothing is seen there is nothing to learn from.")
    column = plain(as_arrow(ratings, where))
    if len(column) != len(seen):
        raise DataError(f"{where} has {len(column):,} rows and {seen_where} {len(seen):,}: give one a row.")
    return pc.if_else(pa.array(seen), column, column[int(seen.argmax())])


def cells_of(sample_rate: Any, where: str) -> NDArray[np.float32]:
    """How many rows each stands for, of which a share of `sample_rate` was kept."""
    rate = as_ratings(sample_rate, where)
    if (bad := ~((rate > 0) & (rate <= 1))).any():
        row = int(bad.argmax())
        raise DataError(
            f"row {row + 1} of {where} holds {_held(rate[row])}: a row is kept with a chance above 0 and at most 1."
        )
    return (1 / rate).astype(np.float32)


def counted(listed: ListedRows, ratings: NDArray[Any], n_items: int) -> tuple[ListedRows, NDArray[Any]]:
    """Equal rows (pair, seen or not, rating) as one that stands for as many; what else they held is lost."""
    keys = pair_keys(listed.users, listed.items, n_items)
    level = np.where(listed.seen, np.unique(ratings, return_inverse=True)[1] + 1, 0)
    order = np.lexsort((level, keys))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(keys[order]) != 0) | (np.diff(level[order]) != 0)
    first, place = order[new], np.cumsum(new) - 1
    weight = np.ones(len(order)) if listed.cells is None else listed.cells[order]
    cells = np.bincount(place, weight).astype(np.float32)
    again = np.argsort(first)  # in the order of the file
    rows = first[again]
    return ListedRows(listed.users[rows], listed.items[rows], listed.seen[rows], cells[again]), ratings[rows]


def shares(keys: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """The share of its pair that each row stands for, where pairs may have several rows; None if none has."""
    _, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    return None if count.max() == 1 else (1 / count[place]).astype(np.float32)


def _held(number: float) -> str:
    return "nothing" if np.isnan(number) else f"{number:g}"
