"""Pairs as single numbers, and what becomes of pairs that were rated more than once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError

Duplicates = Literal["error", "last", "mean"]
Codes = NDArray[np.integer[Any]]


def pair_keys(users: Codes, items: Codes, n_items: int) -> NDArray[np.int64]:
    """One number a pair, user * n_items + item: sorting by it sorts by user, then by item."""
    return users.astype(np.int64) * n_items + items


def merged(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: NDArray[np.float64],
    n_items: int,
    how: Duplicates,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """One row per pair, in the place of the pair's last row."""
    keys = pair_keys(users, items, n_items)
    order = keys.argsort(kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    ends = np.append(starts[1:], len(keys))
    last = order[ends - 1]
    kept = ratings[last] if how == "last" else np.add.reduceat(ratings[order], starts) / (ends - starts)
    in_order = last.argsort()
    rows = last[in_order]
    return users[rows], items[rows], kept[in_order]


def refuse_duplicates(
    users: NDArray[np.int32], items: NDArray[np.int32], user_ids: Vocabulary, item_ids: Vocabulary
) -> None:
    """Raise a DataError that names the first row whose pair an earlier row already holds."""
    keys = pair_keys(users, items, len(item_ids))
    keys.sort()
    if not (keys[1:] == keys[:-1]).any():
        return
    keys = pair_keys(users, items, len(item_ids))
    order = keys.argsort(kind="stable")
    again = int(order[1:][keys[order][1:] == keys[order][:-1]].min())
    first = int((keys == keys[again]).argmax())
    user, item = user_ids[users[again]], item_ids[items[again]]
    raise DataError(
        f"user {user!r} rated item {item!r} twice, in rows {first + 1} and {again + 1}: "
        "pass duplicates='last' to keep the last rating or duplicates='mean' to average them."
    )
