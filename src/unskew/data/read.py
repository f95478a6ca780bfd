"""Logs and small frames from files, streamed: CSV, TSV, RecBole's atomic files and Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.data.duplicates import Duplicates
from unskew.data.log import RatingLog, Settings, assemble
from unskew.data.scale import Scale, as_ratings
from unskew.data.tablefile import AGAIN, TableFile, plain_errors, present_columns, table_file
from unskew.data.text import text_batches, typed_column
from unskew.data.vocabulary import Encoder, is_text
from unskew.errors import DataError

_BATCH = 1 << 20  # rows of Parquet decoded at once


def read_log(
    path: str | os.PathLike[str],
    user: str = "user_id",
    item: str = "item_id",
    rating: str = "rating",
    positive: float | None = 3,
    *,
    rating_scale: tuple[float, float] | None = None,
    duplicates: Duplicates = "error",
    delimiter: str | None = None,
    user_features: Any = None,
    item_features: Any = None,
) -> RatingLog:
    """The log in a file with one row per rating; settings as in `RatingLog.from_frame`.

    The ending tells the format: .csv, .txt, .tsv and RecBole's .inter (all also as .gz), .parquet and .pq.
    Ids in a text file are text, unless all of them spell integers. Features may be frames or paths of files.
    """
    settings = Settings(Scale.of(positive, rating_scale), duplicates, user, item, rating)
    settings.check()
    source = table_file(path, delimiter)
    where = [f"column {name!r} of {source.name}" for name in (user, item, rating)]
    encoders = [Encoder(side, narrow=source.is_text) for side in where[:2]]
    users, items, ratings = [], [], []
    n_rows = 0
    for batch in _batches(source, (user, item, rating)):
        users.append(encoders[0].add(batch.column(0)))
        items.append(encoders[1].add(batch.column(1)))
        ratings.append(as_ratings(batch.column(2), where[2], n_rows + 1))
        n_rows += len(batch)
    if not n_rows:
        raise _no_rows(source)
    user_ids, item_ids = (encoder.vocabulary() for encoder in encoders)
    features = _frame(user_features, user), _frame(item_features, item)
    columns = _joined(users), _joined(items), _joined(ratings)
    return assemble(*columns, user_ids, item_ids, settings, where[2], features)


def read_frame(
    path: str | os.PathLike[str],
    ids: Sequence[str] = ("user_id", "item_id"),
    *,
    delimiter: str | None = None,
) -> pa.Table:
    """A small frame (features, pairs to predict) as a pyarrow Table, from the same formats as `read_log`.

    In a text file the columns named in `ids` stay text and every other column becomes numbers if all it
    holds are numbers, so that the id "012" is not mistaken for 12.
    """
    source = table_file(path, delimiter)
    batches = list(_batches(source, None))
    if not sum(len(batch) for batch in batches):
        raise _no_rows(source)
    table = pa.Table.from_batches(batches)
    if not source.is_text:
        with plain_errors(source.name, "read as Parquet", AGAIN):
            table.validate(full=True)  # Parquet does not promise that text is UTF-8
        return table
    return pa.table({name: typed_column(table, name, source, name in ids) for name in table.column_names})


def _batches(source: TableFile, wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The wanted columns (None: all) batch by batch, in that order; those of a text file as bytes."""
    return text_batches(source, wanted) if source.is_text else _parquet_batches(source, wanted)


def _parquet_batches(source: TableFile, wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    with plain_errors(source.name, "read as Parquet", AGAIN):
        # Buffered and not pre-buffered: otherwise whole row groups are held in memory.
        options = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
        with pq.ParquetFile(source.path, **options) as file:
            wanted = present_columns(wanted, file.schema_arrow.names, source)
            for batch in file.iter_batches(_BATCH, columns=wanted, use_threads=False):
                for column in batch.columns:
                    if not is_text(column.type):  # whose UTF-8 is checked later, where rows can be named
                        column.validate(full=True)
                yield batch.select(wanted)


def _frame(features: Any, key: str) -> Any:
    return read_frame(features, (key,)) if isinstance(features, (str, os.PathLike)) else features


def _joined(chunks: list[NDArray[Any]]) -> NDArray[Any]:
    whole = np.concatenate(chunks)
    chunks.clear()  # so that only one column is ever held twice
    return whole


def _no_rows(source: TableFile) -> DataError:
    return DataError(f"{source.name} names its columns but has no rows: there is nothing to read.")
