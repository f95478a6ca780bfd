"""The best items of many users in bounded memory: in chunks of users, by partial sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs

CELLS_AT_ONCE = 1 << 21
_SEEN: WeakKeyDictionary[RatingLog, SeenPairs] = WeakKeyDictionary()


def seen_pairs(log: RatingLog) -> SeenPairs:
    """Return what was seen, sorted once for as long as the log lives."""
    if log not in _SEEN:
        _SEEN[log] = SeenPairs(log)
    return _SEEN[log]


class TopItems(NamedTuple):
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
    """Return the k best of the sorted candidates for each user; equal scores go by the order of the catalogue."""
    seen = seen_pairs(log) if exclude_seen else None
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
        parts = [_ranked(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), k)]
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
    """Return the k best of the pairs that are listed, each by the position of its user among `users` and its item."""
    pairs = np.unique(np.stack([position, items]), axis=1)
    if exclude_seen:
        pairs = pairs[:, ~seen_pairs(log)(users[pairs[0]], pairs[1])]
    return _ranked(pairs[0], pairs[1], predict(users[pairs[0]], pairs[1]), k)


def _leave_out_seen(
    scores: NDArray[np.float64], seen: SeenPairs, users: NDArray[Any], candidates: NDArray[Any]
) -> None:
    for row, user in enumerate(users):
        if user >= 0:
            items = seen.of_user(int(user))
            place = np.minimum(np.searchsorted(candidates, items), len(candidates) - 1)
            scores[row, place[candidates[place] == items]] = -np.inf


def _best(scores: NDArray[np.float64], candidates: NDArray[Any], k: int, offset: int) -> TopItems:
    threshold = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    # Among items tied at the threshold the first of the catalogue win: sort all that reach it, keep k.
    rows, columns = np.nonzero((scores >= threshold) & (scores > -np.inf))
    return _ranked(rows + offset, candidates[columns], scores[rows, columns], k)


def _ranked(rows: NDArray[Any], items: NDArray[Any], scores: NDArray[np.float64], k: int) -> TopItems:
    """Return the k best of each row, equal scores in the order of the catalogue."""
    order = np.lexsort((items, -scores, rows))
    rows, items, scores = rows[order], items[order], scores[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    kept = rank <= k
    return TopItems(rows[kept], items[kept].astype(np.int64), scores[kept], rank[kept])
