"""Parquet files, streamed: however small a file is packed, no more of it is unpacked at once than fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unskew.data.distinct import is_text
from unskew.data.tablefile import AGAIN, TableFile, plain_errors, present_columns
from unskew.errors import DataError

LONGEST_VALUE = 1 << 20  # bytes of one value, as many as the longest row of a text file may have


def parquet_batches(
    source: TableFile, wanted: Sequence[str] | None, most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The wanted columns (None: all), at most so many rows at once and about so many bytes.

    Text is handed on as codes of distinct values: one that is stored once may stand in a billion rows.
    """
    with plain_errors(source.name, "read as Parquet", AGAIN):
        schema = pq.read_schema(source.path)
        wanted = present_columns(wanted, schema.names, source)
        _refuse_nested(schema, wanted, source)
        texts = [name for name in wanted if is_text(schema.field(name).type)]
        # Buffered and not pre-buffered: otherwise whole row groups are held in memory.
        options = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
        with pq.ParquetFile(source.path, read_dictionary=texts, **options) as file:
            rows = min(most_rows, most_bytes // _bytes_a_row(file.metadata, wanted, source) + 1)
            for batch in file.iter_batches(rows, columns=wanted, use_threads=False):
                yield _checked(batch, source).select(wanted)


def row_count(source: TableFile) -> int:
    """How many rows the file says it has."""
    with plain_errors(source.name, "read as Parquet", AGAIN):
        return int(pq.read_metadata(source.path).num_rows)


def _refuse_nested(schema: pa.Schema, wanted: Sequence[str], source: TableFile) -> None:
    for name in wanted:
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            where = f"column {name!r} of {source.name}"
            raise DataError(f"{where} is of type {kind}: keep one value in a cell, or leave the column out.")


def _bytes_a_row(metadata: pq.FileMetaData, wanted: Sequence[str], source: TableFile) -> int:
    """About how many bytes of all wanted columns one row takes; refused if values are too long to be any."""
    widest = 1
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        row = 0
        for number, chunk in enumerate(map(group.column, range(group.num_columns))):
            if chunk.path_in_schema in wanted and chunk.num_values > 0:
                fixed = metadata.schema.column(number).length  # of values that all have one length, else 0
                length = max(chunk.total_uncompressed_size // chunk.num_values, fixed, 8)
                _refuse_long(length, chunk.path_in_schema, source)
                row += length
        widest = max(widest, row)
    return widest


def _checked(batch: pa.RecordBatch, source: TableFile) -> pa.RecordBatch:
    """The batch, its values checked but for UTF-8, which is checked where rows can be named."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            pa.DictionaryArray.from_arrays(column.indices, column.dictionary, safe=True)  # no index out of range
            _refuse_long(pc.max(pc.binary_length(column.dictionary)).as_py() or 0, name, source)
        elif not is_text(column.type):
            column.validate(full=True)
    return batch


def _refuse_long(length: int, name: str, source: TableFile) -> None:
    if length > LONGEST_VALUE:
        where = f"column {name!r} of {source.name}"
        raise DataError(f"{where} holds a value of {length:,} bytes, more than {LONGEST_VALUE:,}: shorten it.")
