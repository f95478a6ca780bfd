"""Describe who saw what in a few columns: they stand in for what drives both seeing and liking.

The columns are log(1 + number of ratings) and the leading singular vectors of (S - E) / sqrt(E), S the seen matrix and
E = n_u n_i / n what counts alone explain; those above the edge of noise are kept. The idea is that of the deconfounded
recommender (Wang, Liang, Charlin, Blei, RecSys 2020). Nothing of size |users| x |items| is formed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unskew.data.log import RatingLog
from unskew.posterior import defaults
from unskew.posterior.kernels import Float, Int

SOME = 16  # columns whose spread is found at once


class Pairs(NamedTuple):
    """Hold a log as arrays: user and item numbers, how many there are of each, and ratings where they are needed.

    `context` numbers where and how what was rated had been shown, if that is known.
    """

    users: Any
    items: Any
    n_users: int
    n_items: int
    ratings: Any = None
    context: Any = None

    @staticmethod
    def of(log: RatingLog, ratings: Any = None) -> Pairs:
        """Return a log in the types that kernels read."""
        users, items = log.users.astype(np.int64), log.items.astype(np.int64)
        return Pairs(users, items, log.n_users, log.n_items, None if ratings is None else np.asarray(ratings, float))

    def rows(self, chosen: Any) -> Pairs:
        """Return the log of some of its ratings."""
        ratings, context = (None if each is None else each[chosen] for each in (self.ratings, self.context))
        return self._replace(users=self.users[chosen], items=self.items[chosen], ratings=ratings, context=context)

    def counts(self) -> tuple[Int, Int]:
        """Return the number of ratings of every user and of every item."""
        return np.bincount(self.users, minlength=self.n_users), np.bincount(self.items, minlength=self.n_items)

    def seen(self) -> Any:
        """Return the matrix of seen pairs, each counted once, as a `csr_array`."""
        from scipy.sparse import csr_array  # slow to import, and answers need none

        seen = csr_array((np.ones(len(self.users)), (self.users, self.items)), shape=(self.n_users, self.n_items))
        seen.data[:] = 1.0  # a pair rated twice is seen once
        return seen

    def folds(self, n_folds: int, rng: np.random.Generator) -> Int:
        """Return a fold for every pair, an equal share of each user's pairs in every fold."""
        order = np.lexsort((rng.random(len(self.users)), self.users))
        counts = self.counts()[0]
        within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = rng.integers(n_folds, size=self.n_users)
        fold = np.empty(len(order), np.int64)
        fold[order] = (within + start[self.users[order]]) % n_folds
        return fold


class Columns(NamedTuple):
    """Hold what is known of the rows of one side beforehand: an intercept, features, who saw what.

    Columns of one group share one precision; `notes` say in sentences what could not be used.
    """

    values: Float
    groups: Int
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(n: int, *blocks: tuple[str, Float | None, bool]) -> Columns:
        """Join blocks (name, values, one shared precision?) behind an intercept, standardised.

        Of n rows a block may leave out the last ones: they have the average of the others, which is 0.
        """
        used = [(name, given, shared) for name, given, shared in blocks if given is not None and given.shape[1]]
        out, groups, notes = np.zeros((n, 1 + sum(given.shape[1] for _, given, _ in used))), [0], []
        out[:, 0], at = 1.0, 1
        for name, given, shared in used:
            width, start = given.shape[1], groups[-1] + 1
            values = out[: len(given), at : at + width]  # in place: a copy of many columns of many rows is large
            size = np.maximum(given.max(axis=0), -given.min(axis=0))
            np.divide(given, size, out=values, where=size > 0)  # squares of 1e300 stay finite
            spread = np.concatenate([values[:, k : k + SOME].std(axis=0) for k in range(0, width, SOME)])
            flat = spread <= 1e-12
            if flat.any():
                notes.append(f"{int(flat.sum())} of {len(flat)} columns of {name} are constant: they teach nothing.")
            values -= values.mean(axis=0)
            values /= np.where(flat, np.inf, spread)
            groups += [start] * width if shared else range(start, start + width)
            at += width
        return Columns(out, np.array(groups), tuple(notes))


class Directions(NamedTuple):
    """Hold the directions of who-saw-what above the edge of noise, scaled to unit variance a row."""

    users: Float
    items: Float
    strengths: Float


def directions(log: Pairs, *, most: int = defaults.MOST_DIRECTIONS, least: int = 0) -> Directions:
    """Find the leading singular vectors of (S - E) / sqrt(E); `least` of them are kept whatever their strength."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import LinearOperator, svds

    seen, n_users, n_items = log.seen(), log.n_users, log.n_items
    a, b = np.asarray(seen.sum(axis=1)).ravel(), np.asarray(seen.sum(axis=0)).ravel()
    edge = defaults.EDGE * (math.sqrt((a > 0).sum()) + math.sqrt((b > 0).sum()))
    k = min(max(most, least), min(n_users, n_items) - 1)
    if k < 1:
        return Directions(np.zeros((n_users, 0)), np.zeros((n_items, 0)), np.zeros(0))
    left, right, n = np.sqrt(a), np.sqrt(b), a.sum()
    inverse = [diags_array(1 / np.maximum(root, 1)) for root in (left, right)]
    scaled, right = math.sqrt(n) * (inverse[0] @ seen @ inverse[1]).tocsr(), right / math.sqrt(n)
    turned, rng = scaled.T.tocsr(), np.random.default_rng(0)
    unexplained = LinearOperator(
        seen.shape, dtype=float, matvec=lambda x: scaled @ x.ravel() - left * (right @ x.ravel()),
        rmatvec=lambda x: turned @ x.ravel() - right * (left @ x.ravel()),
    )  # fmt: skip
    start = rng.standard_normal(min(n_users, n_items))
    if not np.abs(unexplained @ rng.standard_normal(n_items)).max() > 1e-9:
        k = min(least, k)  # everybody saw everything, or as counts alone have it
        return Directions(np.zeros((n_users, k)), np.zeros((n_items, k)), np.zeros(k))
    u, strengths, vt = svds(unexplained, k=k, v0=start, tol=1e-4)
    kept = np.argsort(-strengths)[: max(int((strengths > edge).sum()), min(least, k))]
    signs = np.sign(u[np.abs(u).argmax(axis=0), np.arange(k)])
    u, v = u * signs * math.sqrt(n_users), vt.T * signs * math.sqrt(n_items)
    return Directions(u[:, kept], v[:, kept], strengths[kept])


def history(log: Pairs, seed: int) -> tuple[Float, Float]:
    """Return random projections of what each user saw and of who saw each item, over the root of their number."""
    seen, rng = log.seen(), np.random.default_rng([seed, 11])

    def projected(matrix: Any) -> Float:
        found = np.asarray(matrix @ rng.standard_normal((matrix.shape[1], defaults.HISTORY_COLUMNS)))
        found /= np.sqrt(np.maximum(np.asarray(matrix.sum(axis=1)), 1.0))[:, None]
        return found

    return projected(seen), projected(seen.T.tocsr())
