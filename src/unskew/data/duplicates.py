"""What becomes of pairs that were rated more than once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unskew.data.columns import Codes, first_row, passes
from unskew.data.pairs import pair_keys
from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError

Duplicates = Literal["error", "last", "mean"]


def merge_duplicates(
    users: Codes,
    items: Codes,
    ratings: NDArray[np.float64],
    lost: NDArray[np.bool_],
    n_users: int,
    n_items: int,
    how: Duplicates,
) -> None:
    """Mark every row of a pair but the last as `lost`; with how="mean" the last gets the mean rating of them all."""
    for rows in passes(users, n_users):
        keys = pair_keys(users[rows], items[rows], n_items)
        order = keys.argsort(kind="stable")
        keys, rows = keys[order], rows[order]
        last = np.append(keys[1:] != keys[:-1], True)
        lost[rows[~last]] = True
        if how == "mean":
            starts = np.flatnonzero(np.append(True, last[:-1]))
            counts = np.diff(np.append(starts, len(rows)))
            means = np.add.reduceat(ratings[rows], starts) / counts
            ratings[rows[last][counts > 1]] = means[counts > 1]


def refuse_duplicates(
    users: NDArray[np.int32], items: NDArray[np.int32], user_ids: Vocabulary, item_ids: Vocabulary
) -> None:
    """Raise a DataError that names the first row whose pair an earlier row already holds."""
    found = [_first_again(users, items, rows, len(item_ids)) for rows in passes(users, len(user_ids))]
    repeats = [row for row in found if row is not None]
    if not repeats:
        return
    again = min(repeats)
    first = first_row((users, users[again]), (items, items[again]))
    user, item = user_ids[users[again]], item_ids[items[again]]
    raise DataError(
        f"user {user!r} rated item {item!r} twice, in rows {first + 1} and {again + 1}: "
        "pass duplicates='last' to keep the last rating or duplicates='mean' to average them."
    )


def _first_again(users: Codes, items: Codes, rows: NDArray[np.int64], n_items: int) -> int | None:
    """The first of some rows whose pair an earlier one of them already holds."""
    keys = pair_keys(users[rows], items[rows], n_items)
    in_order = np.sort(keys)
    if not (in_order[1:] == in_order[:-1]).any():  # a plain sort is faster than one that remembers places
        return None
    order = keys.argsort(kind="stable")
    return int(rows[order[1:][keys[order][1:] == keys[order][:-1]]].min())
