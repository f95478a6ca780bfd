"""The rows of files batch by batch: as they are, or as the codes and ratings of a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.data.catalogue import Ids, matched
from unskew.data.log import Settings
from unskew.data.parquet import parquet_batches
from unskew.data.scale import as_ratings
from unskew.data.tablefile import AGAIN, TableFile, Tables, plain_errors
from unskew.data.text import header_names, text_batches
from unskew.data.vocabulary import Encoder, Vocabulary
from unskew.errors import DataError

_BATCH = 1 << 19  # rows encoded at once: twice as many are a little faster and need 80 MB more
_BYTES = 1 << 26  # or fewer, if they are long


class Request(NamedTuple):
    """All that determines a log which is read from files."""

    source: Tables
    settings: Settings
    users: Vocabulary | None = None  # catalogues
    items: Vocabulary | None = None


class Coded(NamedTuple):
    """Some rows of a log to be."""

    users: NDArray[np.int32]  # in the order of first appearance
    items: NDArray[np.int32]
    ratings: NDArray[np.float64]  # on the external scale, none of them a stray


class LogStream:
    """The rows of all files as codes and ratings; knows all ids when it has been gone through, once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        where = column_names(request.source.name, request.settings)
        self._users, self._items = (Encoder(side, narrow=request.source.is_text) for side in where[:2])

    def __iter__(self) -> Iterator[Coded]:
        n_rows = 0
        for file in self._request.source.files:
            for rows in self._of(file):
                n_rows += len(rows.ratings)
                yield rows
        if not n_rows:
            raise no_rows(self._request.source.name)

    def ids(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> tuple[Ids, Ids]:
        """The users and the items there are; the columns of all rows tell where there is one of no catalogue."""
        user, item, _ = column_names(self._request.source.name, self._request.settings)
        return (
            matched(users, self._users.vocabulary(), self._request.users, user),
            matched(items, self._items.vocabulary(), self._request.items, item),
        )

    def _of(self, file: TableFile) -> Iterator[Coded]:
        settings, n_rows = self._request.settings, 0
        user, item, rating = column_names(file.name, settings)
        self._users.go_to(user)
        self._items.go_to(item)
        for batch in _gathered(batches(file, (settings.user, settings.item, settings.rating))):
            users, items = self._users.add(batch.column(0)), self._items.add(batch.column(1))
            ratings = as_ratings(batch.column(2), rating, n_rows + 1)
            settings.scale.refuse_strays(ratings, rating, n_rows + 1)
            yield Coded(users, items, ratings)
            n_rows += len(batch)


def batches(source: TableFile, wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The wanted columns (None: all) batch by batch, in that order; those of a text file as bytes."""
    return text_batches(source, wanted) if source.is_text else parquet_batches(source, wanted, _BATCH, _BYTES)


def names_in(source: TableFile) -> list[str]:
    """The names of a file's columns, each as often as it is there."""
    if source.is_text:
        return header_names(source)
    with plain_errors(source.name, "read as Parquet", AGAIN), pq.ParquetFile(source.path) as file:
        return list(file.schema_arrow.names)


def column_names(name: str, settings: Settings) -> tuple[str, str, str]:
    """How sentences call the three columns of a file."""
    user, item, rating = (f"column {column!r} of {name}" for column in (settings.user, settings.item, settings.rating))
    return user, item, rating


def no_rows(name: str) -> DataError:
    return DataError(f"{name} names its columns but has no rows: there is nothing to read.")


def _gathered(small: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, none of them empty, because many ids come again and again in every batch."""
    held: list[pa.RecordBatch] = []
    for batch in small:
        held.append(batch)
        if sum(map(len, held)) >= _BATCH or sum(part.nbytes for part in held) >= _BYTES:
            whole, held = _joined(held), []  # in this order, so that no row is held twice
            yield from whole
    yield from _joined(held)


def _joined(small: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    whole: list[pa.RecordBatch] = pa.Table.from_batches(small).combine_chunks().to_batches() if small else []
    return whole
