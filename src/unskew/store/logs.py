"""A log as Arrow files: ratings by code, ids in the order of their codes, features if there are any."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.data.features import UNKNOWN, Encoding, Features
from unskew.data.ids import Vocabulary
from unskew.data.log import Names, RatingLog
from unskew.data.scale import Scale
from unskew.errors import ModelFileError

RATINGS, USERS, ITEMS = "log.arrow", "users.arrow", "items.arrow"
USER_FEATURES, ITEM_FEATURES = "user_features.arrow", "item_features.arrow"
COLUMNS = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float32()}
FURTHER = {"stars": pa.float32(), "times": pa.float64()}


@dataclass(frozen=True)
class FeatureCounts:
    """What a feature file does not say of its making."""

    encoding: Encoding = UNKNOWN


@dataclass(frozen=True)
class LogFacts:
    """What the columns of a log do not say."""

    scale: Scale
    duplicates_merged: int
    user_features: FeatureCounts | None
    item_features: FeatureCounts | None
    names: dict[str, str] = field(default_factory=dict)
    library: str = "pyarrow"

    @classmethod
    def of(cls, log: RatingLog) -> LogFacts:
        users, items = _counts(log.user_features), _counts(log.item_features)
        return cls(log.scale, log.duplicates_merged, users, items, log.names._asdict(), log.library)


def log_tables(log: RatingLog) -> dict[str, pa.Table]:
    """What the files of a log hold, by name; ratings and ids are not copied."""
    columns = dict(zip(COLUMNS, (log.users, log.items, log.ratings), strict=True))
    further = {name: pa.array(held, kind) for name, kind in FURTHER.items() if (held := getattr(log, name)) is not None}
    tables = {
        RATINGS: pa.table({name: pa.array(values, COLUMNS[name]) for name, values in columns.items()} | further),
        USERS: pa.table({"id": log.user_ids.arrow}),
        ITEMS: pa.table({"id": log.item_ids.arrow} | ({} if log.titles is None else {"title": log.titles})),
    }
    for name, features in ((USER_FEATURES, log.user_features), (ITEM_FEATURES, log.item_features)):
        if features is not None:
            columns_of = {of: features.values[:, column] for column, of in enumerate(features.names)}
            tables[name] = pa.table({of: np.ascontiguousarray(v) for of, v in columns_of.items()})
    return tables


def fingerprint(log: RatingLog) -> str:
    """The same for the same log only: its rows in their order, ids, scale and features."""
    facts = LogFacts.of(log)
    digest = hashlib.sha256(repr((facts.scale, facts.user_features, facts.item_features)).encode())
    for name, table in sorted(log_tables(log).items()):
        known = [column for column in table.column_names if column not in ("times", "title")]
        digest.update(name.encode() + arrow_bytes(table.select(known)))
    return digest.hexdigest()[:32]


def log_from_files(files: Mapping[str, bytes], facts: LogFacts) -> RatingLog:
    """The log of these `log_tables`; it checks itself as every log does, unless it was saved without rows."""
    table, items = _read(files, RATINGS), _read(files, ITEMS)
    known = COLUMNS | FURTHER
    if not set(COLUMNS) <= set(table.column_names) <= set(known):
        raise ModelFileError(f"{RATINGS} does not have the columns {', '.join(COLUMNS)}.")
    if any(field.type != known[field.name] for field in table.schema):
        raise ModelFileError(f"{RATINGS} has columns of other types than {', '.join(map(str, COLUMNS.values()))}.")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    user_ids, item_ids = Vocabulary(_read(files, USERS).column("id"), USERS), Vocabulary(items.column("id"), ITEMS)
    fields: dict[str, Any] = {
        "users": columns["user"],
        "items": columns["item"],
        "ratings": columns["rating"],
        "user_ids": user_ids,
        "item_ids": item_ids,
        "scale": facts.scale,
        "user_features": _features(files, USER_FEATURES, facts.user_features, len(user_ids)),
        "item_features": _features(files, ITEM_FEATURES, facts.item_features, len(item_ids)),
        "duplicates_merged": facts.duplicates_merged,
        "stars": columns.get("stars"),
        "times": columns.get("times"),
        "titles": items["title"].combine_chunks() if "title" in items.column_names else None,
        "names": Names(**facts.names),
        "library": facts.library,
        "notes": (),
    }
    return RatingLog(**fields) if len(table) else RatingLog.proved(**fields)  # a model may be saved without its log


def _counts(features: Features | None) -> FeatureCounts | None:
    if features is None:
        return None
    return FeatureCounts(features.encoding)


def _features(files: Mapping[str, bytes], name: str, counts: FeatureCounts | None, n_ids: int) -> Features | None:
    if counts is None:
        return None
    table = _read(files, name)
    values = np.empty((n_ids, table.num_columns), np.float32)
    for place, column in enumerate(table.columns):
        values[:, place] = column.to_numpy()
    return Features(tuple(table.column_names), values, counts.encoding)


def arrow_bytes(table: pa.Table) -> Any:
    """The table as an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(files: Mapping[str, bytes], name: str) -> pa.Table:
    if name not in files:
        raise ModelFileError(f"model.json does not list {name}.")
    table = pa.ipc.open_file(pa.BufferReader(files[name])).read_all()
    table.validate(full=True)  # Arrow believes the offsets inside a file unless asked not to
    return table
