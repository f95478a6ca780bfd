"""A log as Arrow files: ratings by code, ids in the order of their codes, features if there are any."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.data.encoding import Encoding
from unskew.data.features import UNKNOWN, Features
from unskew.data.log import RatingLog
from unskew.data.scale import Scale
from unskew.data.vocabulary import Vocabulary
from unskew.errors import ModelFileError
from unskew.files.seal import Hashed

RATINGS, USERS, ITEMS = "log.arrow", "users.arrow", "items.arrow"
USER_FEATURES, ITEM_FEATURES = "user_features.arrow", "item_features.arrow"
COLUMNS = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float32()}


@dataclass(frozen=True)
class FeatureCounts:
    """What a feature file does not say of its making."""

    n_missing: int
    n_unused: int
    n_unknown: int = 0
    encoding: Encoding = UNKNOWN


@dataclass(frozen=True)
class LogFacts:
    """What the columns of a log do not say."""

    scale: Scale
    duplicates_merged: int
    user_features: FeatureCounts | None
    item_features: FeatureCounts | None

    @classmethod
    def of(cls, log: RatingLog) -> LogFacts:
        users, items = _counts(log.user_features), _counts(log.item_features)
        return cls(log.scale, log.duplicates_merged, users, items)


def log_tables(log: RatingLog) -> dict[str, pa.Table]:
    """What the files of a log hold, by name; ratings and ids are not copied."""
    columns = dict(zip(COLUMNS, (log.users, log.items, log.ratings), strict=True))
    stars = {} if log.stars is None else {"stars": pa.array(log.stars, pa.float32())}
    tables = {
        RATINGS: pa.table({name: pa.array(values, COLUMNS[name]) for name, values in columns.items()} | stars),
        USERS: pa.table({"id": log.user_ids.arrow}),
        ITEMS: pa.table({"id": log.item_ids.arrow}),
    }
    for name, features in ((USER_FEATURES, log.user_features), (ITEM_FEATURES, log.item_features)):
        if features is not None:
            columns_of = {of: features.values[:, column] for column, of in enumerate(features.names)}
            tables[name] = pa.table({of: np.ascontiguousarray(v) for of, v in columns_of.items()})
    return tables


def fingerprint(log: RatingLog) -> str:
    """The same for the same log only: its rows in their order, ids, scale and features."""
    digest = hashlib.sha256(repr(LogFacts.of(log)).encode())
    for name, table in sorted(log_tables(log).items()):
        write_arrow(table, size := pa.MockOutputStream())
        digest.update(f"{name} {size.size()}\n".encode())
        write_arrow(table, Hashed(digest))
    return digest.hexdigest()[:32]


def log_from_files(files: Mapping[str, bytes], facts: LogFacts) -> RatingLog:
    """The log of these `log_tables`; it checks itself as every log does."""
    table = _read(files, RATINGS)
    if not any(table.schema.equals(pa.schema(COLUMNS | more)) for more in ({}, {"stars": pa.float32()})):
        raise ModelFileError(f"{RATINGS} does not have the columns {', '.join(COLUMNS)} of 32 bits.")
    users, items, ratings, *stars = (column.to_numpy() for column in table.columns)
    user_ids, item_ids = (Vocabulary(_read(files, name).column("id"), name) for name in (USERS, ITEMS))
    user_features = _features(files, USER_FEATURES, facts.user_features, len(user_ids))
    item_features = _features(files, ITEM_FEATURES, facts.item_features, len(item_ids))
    return RatingLog(
        users,
        items,
        ratings,
        user_ids,
        item_ids,
        facts.scale,
        user_features,
        item_features,
        facts.duplicates_merged,
        *stars,
    )


def _counts(features: Features | None) -> FeatureCounts | None:
    if features is None:
        return None
    return FeatureCounts(features.n_missing, features.n_unused, features.n_unknown, features.encoding)


def _features(files: Mapping[str, bytes], name: str, counts: FeatureCounts | None, n_ids: int) -> Features | None:
    if counts is None:
        return None
    table = _read(files, name)
    values = np.empty((n_ids, table.num_columns), np.float32)
    for place, column in enumerate(table.columns):
        values[:, place] = column.to_numpy()
    told = counts.n_missing, counts.n_unused, counts.encoding, counts.n_unknown
    return Features(tuple(table.column_names), values, *told)


def write_arrow(table: pa.Table, sink: Any) -> None:
    """Write a table to a file that is open, a stretch at a time."""
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _read(files: Mapping[str, bytes], name: str) -> pa.Table:
    if name not in files:
        raise ModelFileError(f"model.json does not list {name}.")
    table = pa.ipc.open_file(pa.BufferReader(files[name])).read_all()
    table.validate(full=True)  # Arrow believes the offsets inside a file unless asked not to
    return table
