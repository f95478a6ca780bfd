"""Columns that say each value once, and the numbers of rows whose values are not in a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Rows = int | NDArray[np.int64]  # the number of the first of some rows, or the number of each


class Distinct(NamedTuple):
    """The values that a column holds, in the order of their first appearance, and which of them stands in each row."""

    values: pa.Array
    places: NDArray[np.int64]  # -1 where nothing stands
    first: NDArray[np.int64]  # how many rows stand before the first of each value

    @classmethod
    def of(cls, column: pa.DictionaryArray) -> Distinct:
        """A dictionary may also hold values that stand nowhere in the column."""
        index = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        rows, size = np.arange(len(index)), len(column.dictionary)
        first = np.full(size + 1, len(index))  # the last one is for nothing
        first[index[::-1]] = rows[::-1]  # of several rows, the one written last is the first
        used = np.flatnonzero(first[:size] < len(index))
        used = used[np.argsort(first[used])]
        place = np.full(size + 1, -1)
        place[used] = np.arange(len(used))
        return cls(column.dictionary.take(pa.array(used)), place[index], first[used])


def row_number(rows: Rows, at: int) -> int:
    return rows + at if isinstance(rows, int) else int(rows[at])


def written_size(column: pa.Array) -> int:
    """The bytes of a column if every row said its value."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not is_text(kind := column.type.value_type):
        return int(len(column) * max(kind.bit_width // 8, 1))
    times = np.bincount(column.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(column.dictionary))
    return int(times @ pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False))


def written_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the value of every row in its row."""
    if not any(map(pa.types.is_dictionary, batch.schema.types)):
        return batch
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings or bytes of varying length."""
    views = (getattr(pa.types, name, None) for name in ("is_string_view", "is_binary_view"))  # since pyarrow 16
    plain = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in (*plain, *views) if test is not None)
