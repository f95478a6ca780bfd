"""The best items of many users in bounded memory: in chunks of users, by partial sort."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs

CELLS_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class TopItems:
    """Rows sorted by user and rank; `position` says which of the asked users a row belongs to."""

    position: NDArray[np.int64]
    items: NDArray[np.int64]
    scores: NDArray[np.float64]
    rank: NDArray[np.int64]


def top_items(
    predict: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]],
    log: RatingLog,
    users: NDArray[Any],
    candidates: NDArray[Any],
    k: int,
    exclude_seen: bool,
) -> TopItems:
    """The k best of the sorted candidates for each user; equal scores go by the order of the catalogue."""
    seen = SeenPairs(log) if exclude_seen else None
    at_once = max(1, CELLS_AT_ONCE // max(len(candidates), 1))
    parts = []
    for start in range(0, len(users) if len(candidates) else 0, at_once):
        chunk = users[start : start + at_once]
        flat = predict(np.repeat(chunk, len(candidates)), np.tile(candidates, len(chunk)))
        scores = flat.reshape(len(chunk), len(candidates))
        if seen is not None:
            _leave_out_seen(scores, seen, chunk, candidates)
        parts.append(_best(scores, candidates, min(k, len(candidates)), start))
    if not parts:
        empty = np.empty(0, np.int64)
        return TopItems(empty, empty, np.empty(0), empty)
    return TopItems(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def top_listed(
    predict: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]],
    log: RatingLog,
    users: NDArray[Any],
    position: NDArray[Any],
    items: NDArray[Any],
    k: int,
    exclude_seen: bool,
) -> TopItems:
    """The k best of the pairs that are listed, each by the position of its user among `users` and its item."""
    pairs = np.unique(np.stack([position, items]), axis=1)
    if exclude_seen:
        pairs = pairs[:, ~SeenPairs(log)(users[pairs[0]], pairs[1])]
    scores = predict(users[pairs[0]], pairs[1])
    order = np.lexsort((pairs[1], -scores, pairs[0]))
    (rows, listed), scores = pairs[:, order], scores[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    kept = rank <= k
    return TopItems(rows[kept], listed[kept].astype(np.int64), scores[kept], rank[kept])


def _leave_out_seen(
    scores: NDArray[np.float64], seen: SeenPairs, users: NDArray[Any], candidates: NDArray[Any]
) -> None:
    for row, user in enumerate(users):
        if user >= 0:
            items = seen.of_user(int(user))
            place = np.minimum(np.searchsorted(candidates, items), len(candidates) - 1)
            scores[row, place[candidates[place] == items]] = -np.inf


def _best(
    scores: NDArray[np.float64], candidates: NDArray[Any], k: int, offset: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    threshold = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    # Among items tied at the threshold the first of the catalogue win: sort all that reach it, keep k.
    rows, columns = np.nonzero((scores >= threshold) & (scores > -np.inf))
    values = scores[rows, columns]
    order = np.lexsort((columns, -values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    kept = rank <= k
    return rows[kept] + offset, candidates[columns[kept]].astype(np.int64), values[kept], rank[kept]
