"""Logs and small frames from files: CSV, TSV, RecBole's atomic files and Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.cache import cached_log
from unskew.data.catalogue import catalogue_of
from unskew.data.distinct import written_out, written_size
from unskew.data.duplicates import Duplicates
from unskew.data.features import Features
from unskew.data.log import RatingLog, Settings, assemble
from unskew.data.parquet import row_count
from unskew.data.room import free_memory, refuse_too_large
from unskew.data.scale import Scale
from unskew.data.stream import Coded, LogStream, Request, batches, column_names, no_rows
from unskew.data.tablefile import AGAIN, Tables, plain_errors, table_file, tables
from unskew.data.text import typed_column
from unskew.data.vocabulary import Vocabulary

_BYTES_A_ROW = 48  # of a log, while it is read: three columns, once more in pieces, and what finds duplicates


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
    header: bool = True,
    user_ids: Any = None,
    item_ids: Any = None,
    user_features: Any = None,
    item_features: Any = None,
    cache: str | os.PathLike[str] | None = None,
) -> RatingLog:
    """The log in a file with one row per rating, or in a folder of such files; settings as in `RatingLog.from_frame`.

    The ending tells the format: .csv, .txt, .tsv and RecBole's .inter (all also as .gz), .parquet and .pq.
    Ids in a text file are text, unless all of them spell integers. `header=False` is for text without names of
    columns, which are then called "1", "2" and so on. Features may be frames or paths of files.
    The files of a folder are read in the order of their names, all of them Parquet or all of them text; those
    whose names begin with . or _ are passed over, and rows are counted through all files.

    With `cache`, a folder, the log need not fit into memory: its rows are streamed into files there, its
    columns are mapped from them, and the next call with the same source and settings opens them without
    reading the source. A cache that is damaged, of another version or older than a change of the source (by
    name, size or time of a file) is built again, with a `CacheWarning`.
    """
    settings = Settings(Scale.of(positive, rating_scale), duplicates, user, item, rating)
    settings.check()
    source = tables(path, delimiter, header)
    where = column_names(source.name, settings)
    request = Request(source, settings, catalogue_of(user_ids, where[0]), catalogue_of(item_ids, where[1]))
    log = _in_memory(request) if cache is None else cached_log(request, cache)
    if user_features is None and item_features is None:
        return log
    features = {
        "user_features": _features(user_features, log.user_ids, user),
        "item_features": _features(item_features, log.item_ids, item),
    }
    return RatingLog.proved(**log.__dict__ | features)


def read_frame(
    path: str | os.PathLike[str],
    ids: Sequence[str] = ("user_id", "item_id"),
    *,
    delimiter: str | None = None,
    header: bool = True,
) -> pa.Table:
    """A small frame (features, pairs to predict) as a pyarrow Table, from a file of the same formats as `read_log`.

    In a text file the columns named in `ids` stay text and every other column becomes numbers if all it
    holds are numbers, so that the id "012" is not mistaken for 12.
    """
    source = table_file(path, delimiter, header)
    rows = list(_held(batches(source, None), source.name))
    if not sum(len(batch) for batch in rows):
        raise no_rows(source.name)
    table = pa.Table.from_batches(rows)
    if not source.is_text:
        with plain_errors(source.name, "read as Parquet", AGAIN):
            table.validate(full=True)  # Parquet does not promise that text is UTF-8
        return table
    return pa.table({name: typed_column(table, name, source, name in ids) for name in table.column_names})


def _held(rows: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a frame with every value written out, while there is memory for them."""
    free, size = free_memory(), 0
    for batch in rows:
        size += sum(map(written_size, batch.columns))
        refuse_too_large(2 * size, free, f"{name} is no small frame", "leave out columns or rows")
        yield written_out(batch)


def _in_memory(request: Request) -> RatingLog:
    stream = LogStream(request)
    users, items, ratings = (list(column) for column in zip(*_fitting(stream, request.source), strict=True))
    columns = _joined(users), _joined(items), _joined(ratings)
    user_ids, item_ids = stream.ids(*columns[:2])
    codes = user_ids.codes(columns[0]), item_ids.codes(columns[1])
    return assemble(*codes, columns[2], user_ids.vocabulary, item_ids.vocabulary, request.settings)


def _fitting(stream: LogStream, source: Tables) -> Iterator[Coded]:
    """The rows, while there is memory for a log of them."""
    free, n_rows = free_memory(), 0
    if not source.is_text:
        _refuse_too_many(sum(map(row_count, source.files)), free, source)
    for rows in stream:
        n_rows += len(rows.ratings)
        _refuse_too_many(n_rows, free, source)
        yield rows


def _refuse_too_many(rows: int, free: float, source: Tables) -> None:
    refuse_too_large(rows * _BYTES_A_ROW, free, f"{source.name} has {rows:,} rows or more", "pass a folder as cache")


def _joined(batches: list[NDArray[Any]]) -> NDArray[Any]:
    whole = np.concatenate(batches)
    batches.clear()  # so that only one column is ever held twice
    return whole


def _features(frame: Any, ids: Vocabulary, key: str) -> Features | None:
    if isinstance(frame, (str, os.PathLike)):
        frame = read_frame(frame, (key,))
    return None if frame is None else Features.aligned(frame, ids, key)
