"""The best items of many users in bounded memory, by partial sort; what is alike, and which ratings count."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.losses.columns import sigmoid
from unskew.nets.base import Linear
from unskew.nets.near import EPS, Ranked

Values = NDArray[np.float64]
CELLS_AT_ONCE, CELLS_IN_CACHE = 1 << 21, 1 << 19
ROWS_AT_ONCE = 1 << 9
FEWEST_LISTS, SAME = 20, 0.8  # lists from which on they are compared, and the share of them that one item may be in
BLOCKS = 8  # of the catalogue for each place of a list, whose maxima bound the last place
LARGEST = float(np.finfo(np.float32).max)
_SEEN: WeakKeyDictionary[RatingLog, SeenPairs] = WeakKeyDictionary()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # once: finding the libraries takes longer than a list


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

    def sameness(self, log: RatingLog) -> str:
        """Return a sentence about lists that nearly all hold one item; nothing if they do not, or hold half of all."""
        n_lists, counts = len(np.unique(self.position)), np.bincount(self.items, minlength=log.n_items)
        most = int(counts.argmax())
        whole = 2 * self.rank.max(initial=0) > log.n_items
        if n_lists < FEWEST_LISTS or counts[most] < SAME * n_lists or whole:
            return ""
        name = log.item_ids[most] if log.titles is None else log.titles[most].as_py()
        return (
            f"{name!r} is in {counts[most]:,} of {n_lists:,} lists, and all lists together hold {(counts > 0).sum():,} "
            f"of {log.n_items:,} items: the model tells users hardly apart; more ratings or another method may do so, "
            "or a lower l2 where it has one."
        )


class Candidates:
    """What each of some users may get: items of the catalogue in its order, all or those that are listed for him.

    `items` limits what anybody may get, `without` leaves some out, `exclude_seen` what the user has rated; nobody may
    get more than `most`.
    """

    def __init__(
        self,
        log: RatingLog,
        users: NDArray[Any],
        *,
        listed: list[NDArray[Any]] | None = None,
        items: NDArray[Any] | None = None,
        without: NDArray[Any] | None = None,
        exclude_seen: bool = True,
    ) -> None:
        self.users, self._listed = users, listed
        self.by_catalogue = listed is None  # everybody may get whatever of it he has not seen
        self.most = log.n_items if listed is None else max(map(len, listed), default=0)
        self._seen = seen_pairs(log) if exclude_seen else None
        self._free = np.full(log.n_items, items is None)
        for codes, may in ((items, True), (without, False)):
            if codes is not None:
                self._free[codes[codes >= 0]] = may

    def shortlists(
        self, ranked: Ranked, start: int, end: int, k: int, chances: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Values]:
        """Return what may be among the k best of each user from `start` to `end`, and what all others add up to.

        The first two are rows, counted from `start`, and items. The k-th largest of the maxima of blocks is at most the
        k-th best: whatever is surely below it is not among the k. Where `chances` are asked for, others add up to the
        logarithm of their sum of exponentials.
        """
        n, found = len(self._free), list[Any]()
        hidden, width, rest = np.flatnonzero(~self._free), n // (BLOCKS * k), np.full(end - start, -np.inf)
        at_once = max(1, CELLS_IN_CACHE // max(n, 1))
        for first in range(start, end, at_once):
            users = self.users[first : min(first + at_once, end)]
            values, slack = ranked(users)
            values[:, hidden] = -np.inf
            if self._seen is not None:
                for row, user in enumerate(users):
                    if user >= 0:
                        values[row, self._seen.of_user(int(user))] = -np.inf
            bound = np.full(len(users), -LARGEST, np.float32)
            if width > 1:
                tops = values[:, : n // width * width].reshape(len(users), -1, width).max(axis=2)
                least = np.partition(tops, -k, axis=1)[:, -k].astype(float)
                least -= slack(least) + EPS * np.abs(least)
                bound = np.where(least > -LARGEST, least, -LARGEST).astype(np.float32)
            good = np.flatnonzero(values >= bound[:, None])
            rows, items = np.divmod(good, n)
            found.append((rows + (first - start), items))
            if chances:
                values.flat[good] = -np.inf
                rest[first - start : first - start + len(users)] = log_sums(values)
        rows, items = (np.concatenate(column) for column in zip(*found, strict=True))
        return rows, items, rest

    def __call__(self, place: int) -> NDArray[np.int64]:
        """Return what the user at this place among the users may get."""
        user, free = int(self.users[place]), self._free.copy()
        if self._seen is not None and user >= 0:
            free[self._seen.of_user(user)] = False
        if self._listed is None:
            return np.flatnonzero(free)
        items = np.unique(self._listed[place]).astype(np.int64)
        return np.asarray(items[free[items]])


def top_items(
    score: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]],
    candidates: Candidates,
    k: int,
    *,
    chances: bool = False,
    ranked: Ranked | None = None,
) -> TopItems:
    """Return the k best candidates of each user; equal scores go by the order of the catalogue.

    With `chances` scores become log-chances: those of all that a user may get add up to 1. By what they are `ranked`,
    scores are computed for the best alone.
    """
    users, at_once = candidates.users, max(1, CELLS_AT_ONCE // max(candidates.most, 1))
    nothing = np.empty(0, np.int64)
    parts = [TopItems(nothing, nothing, np.empty(0), nothing)]
    for start in range(0, len(users), at_once):
        end = min(start + at_once, len(users))
        rest: Any = -np.inf
        if ranked is not None and candidates.by_catalogue:
            # sums of others, and so chances, depend on how many threads share them out
            with _blas().limit(limits=1, user_api="blas"):
                row, items, rest = candidates.shortlists(ranked, start, end, k, chances)
        else:
            lists = [candidates(place) for place in range(start, end)]
            row, items = np.repeat(np.arange(end - start), list(map(len, lists))), np.concatenate(lists)
        if not len(items):
            continue
        counts = np.bincount(row, minlength=end - start)
        column = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((end - start, counts.max()), -np.inf)
        table[row, column] = score(users[start + row], items)
        table = log_chances(table, np.reshape(rest, (-1, 1))) if chances else table
        last = min(k, counts.max()) - 1
        # Among items tied at the threshold the first of the catalogue win: sort all that reach it, keep k.
        scores = table[row, column]
        good = scores >= -np.partition(-table, last, axis=1)[row, last]
        parts.append(_ranked(start + row[good], items[good], scores[good], k))
    return TopItems(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def log_sums(values: NDArray[np.float32]) -> Values:
    """Return the logarithm of the sum of exponentials of every row, which are lost."""
    top = np.maximum(values.max(axis=1), -LARGEST)
    values -= top[:, None]
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(values, out=values).sum(axis=1, dtype=float)))


def log_chances(scores: Values, rest: Any = -np.inf) -> Values:
    """Return log-weights of rows less the log of their sum, with the `rest`; a row of nothing but -inf stays one."""
    total = np.logaddexp(np.logaddexp.reduce(scores, axis=-1, keepdims=True), rest)
    return np.asarray(scores - np.where(np.isneginf(total), 0, total))


def _ranked(rows: NDArray[Any], items: NDArray[Any], scores: NDArray[np.float64], k: int) -> TopItems:
    """Return the k best of each row, equal scores in the order of the catalogue."""
    order = np.lexsort((items, -scores, rows))
    rows, items, scores = rows[order], items[order], scores[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    kept = rank <= k
    return TopItems(rows[kept], items[kept], scores[kept], rank[kept])


def mean_and_root(rows: NDArray[Any]) -> tuple[Values, Values]:
    """Return the mean of some rows, and the symmetric square root of their covariance, which may be singular."""
    mean = rows.mean(0, dtype=np.float64)
    away = rows - mean
    spread, axes = np.linalg.eigh(away.T @ away / len(rows))
    return mean, (axes * np.sqrt(np.maximum(spread, 0))) @ axes.T


def alike(rows: Values, others: Values, asked: NDArray[Any], k: int) -> tuple[NDArray[np.int64], Values]:
    """Return the k rows most like each asked one, and how alike: places and correlations, of shape (asked, k).

    Two rows are alike if what they answer goes up and down together over all `others`: corr(a, b) = a'Cb / |a||b| with
    C their covariance. Rotations of factors do not change it, and columns in which others do not differ have no part.
    """
    seen = rows @ mean_and_root(others)[1]
    length = np.sqrt(np.square(seen).sum(1, keepdims=True))
    seen = seen / np.where(length > 0, length, 1)
    k = min(k, len(rows) - 1)
    places, found = np.empty((len(asked), k), np.int64), np.empty((len(asked), k))
    for start in range(0, len(asked), ROWS_AT_ONCE):
        part = asked[start : start + ROWS_AT_ONCE]
        scores = seen[part] @ seen.T
        scores[np.arange(len(part)), part] = -np.inf  # nobody is his own neighbour
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        held = np.take_along_axis(scores, best, axis=1)
        order = np.lexsort((best, -held), axis=1)  # equal ones in the order of the catalogue
        places[start : start + len(part)] = np.take_along_axis(best, order, axis=1)
        found[start : start + len(part)] = np.take_along_axis(held, order, axis=1)
    return places, found


def contributions(form: Linear, rated: NDArray[Any], ratings: Values, item: int) -> Values:
    """Return how much each rating of a user moves the logit of an item away from the average user's.

    With users normal around their mean with covariance C, the user's row given the ratings is, to first order,
    mean + S sum_j x_j (r_j - p_j) with S = (C^-1 + sum_j p_j (1 - p_j) x_j x_j')^-1 and p_j what the average user would
    rate: a rating contributes x_i' S x_j (r_j - p_j). Solved in the root of C, which may be singular.
    """
    mean, root = mean_and_root(form.users)
    x, p = form.items[rated] @ root, sigmoid(form.items[rated] @ mean + form.offsets[rated])
    precision = np.eye(len(mean)) + (x * (p * (1 - p))[:, None]).T @ x
    direction = np.linalg.solve(precision, form.items[item] @ root)
    return np.asarray((x @ direction) * (ratings - p))
