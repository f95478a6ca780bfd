"""Estimate who sees what by a ridge in closed form: every item explained by all others, its own vote left out.

B = I - P / diag(P), P = (X'X + lambda)^-1, scores X B (the idea of EASE: Steck, WWW 2019). By the smaller side: where
users are fewer, P = (I - X'R) / lambda with R = (X X' + lambda)^-1 X. Only the square of the smaller side is held.
Columns of X are weighted before, and scores are divided by the weight after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from unskew.errors import ParameterError
from unskew.posterior.exposure import folds_by_user, seen_matrix
from unskew.propensity.conditional import (
    Calibration,
    FittedExposure,
    Float,
    Int,
    calibrate,
    with_rates,
)

POWER = 0.25
"""As a propensity, items are weighted by n^-.25: held-out pairs of logs are likelier than with n^0 and n^-.5."""
PENALTIES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
MOST_SIDE = 3000


@njit(cache=True, nogil=True)
def sum_neighbours(rows: Int, pointer: Int, members: Int, square: Float, place: Int) -> tuple[Float, Float]:
    """Return, for pairs, the sum of square[place, j] over the members j of a row, and whether place is one."""
    out, own = np.zeros(len(rows)), np.zeros(len(rows))
    for k in range(len(rows)):
        for h in range(pointer[rows[k]], pointer[rows[k] + 1]):
            out[k] += square[place[k], members[h]]
            if members[h] == place[k]:
                own[k] = 1.0
    return out, own


class Gram:
    """Hold the eigenvectors of X X' or X'X, whichever is smaller, from which any penalty is cheap."""

    def __init__(self, users: Int, items: Int, n_users: int, n_items: int, power: float = 0.0) -> None:
        self.by_users = n_users < n_items
        self.seen = seen_matrix(users, items, n_users, n_items)
        self.weights = np.maximum(np.asarray(self.seen.sum(axis=0)).ravel(), 1.0) ** -power
        weighted = (self.seen * self.weights[None, :]).tocsr()
        matrix = weighted if self.by_users else weighted.T.tocsr()
        if matrix.shape[0] > MOST_SIDE:
            raise ParameterError(
                f"a ridge on {n_users:,} users and {n_items:,} items holds a square of {matrix.shape[0]:,}; "
                f"above {MOST_SIDE:,} take Spectral()."
            )
        self.other = matrix.T.tocsr()  # members of the larger side's rows
        self.values, self.vectors = np.linalg.eigh((matrix @ matrix.T).toarray())
        self.n_items = n_items

    def scorer(self, penalty: float, share: float = 1.0) -> RidgeScorer:
        """Return the scores at a penalty; `share` of the log is what these pairs are, for folds."""
        inverse = np.ascontiguousarray((self.vectors / (np.maximum(self.values, 0) + penalty * share)) @ self.vectors.T)
        counts = np.asarray(self.seen.sum(axis=0)).ravel()
        if self.by_users:
            pointer, members = self.other.indptr.astype(np.int64), self.other.indices.astype(np.int64)
            rows = np.repeat(np.arange(self.n_items), np.diff(pointer))
            own = np.bincount(rows, sum_neighbours(rows, pointer, members, inverse, members)[0], self.n_items)
            diagonal = (1 - own * self.weights**2) / (penalty * share)
        else:
            csr = self.seen.tocsr()
            pointer, members = csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
            diagonal = np.diag(inverse).copy()
            inverse = np.ascontiguousarray(self.weights[None, :] * inverse / self.weights[:, None])
        return RidgeScorer(self.by_users, pointer, members, inverse, diagonal, counts / share, share)


@dataclass(frozen=True)
class RidgeScorer:
    """Hold the square of the smaller side; scores of pairs are sums over the seen pairs of a row."""

    by_users: bool
    pointer: Int
    members: Int
    square: Float
    diagonal: Float
    counts: Float
    share: float

    def scores(self, users: Int, items: Int) -> Float:
        """Return X B for pairs; a pair's own vote is left out."""
        rows, place = (items, users) if self.by_users else (users, items)
        total, own = sum_neighbours(rows, self.pointer, self.members, self.square, place)
        result: Float = (own - total / self.diagonal[items]) / self.share
        return result

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, root of the score, log of the score."""
        z = np.maximum(self.scores(users, items), 0)
        return np.stack([np.log(np.maximum(self.counts[items], 0.5)), np.sqrt(z), np.log(z + 0.01)], axis=1)


@dataclass(frozen=True)
class Ridge:
    """Specify the ridge exposure; the penalty by held-out likelihood unless it is given."""

    penalty: float | None = None
    folds: int = 5
    power: float = POWER

    @staticmethod
    def affordable(n_users: int, n_items: int) -> bool:
        """Return whether the smaller side is small enough for a square of it."""
        return min(n_users, n_items) <= MOST_SIDE

    def fit(
        self, users: Int, items: Int, n_users: int, n_items: int, rng: np.random.Generator, fold: Int | None = None
    ) -> FittedExposure:
        """Fit to the seen pairs of a log; `fold` numbers the folds of pairs, if others are to share them."""
        fold = folds_by_user(users, n_users, self.folds, rng) if fold is None else fold
        penalty, without, fitted = self.by_folds(users, items, n_users, n_items, fold)
        scorer = Gram(users, items, n_users, n_items, self.power).scorer(penalty)
        name = f"ridge, penalty {penalty:g}"
        return with_rates(scorer, fitted, users, n_users, n_items, rng, name, without, scorer.counts)

    def by_folds(
        self, users: Int, items: Int, n_users: int, n_items: int, fold: Int
    ) -> tuple[float, Callable[[int], RidgeScorer], Calibration]:
        """Find the penalty; return it with the scorers built without a fold and their calibration."""
        n_folds = int(fold.max()) + 1
        share = 1 - 1 / n_folds
        grams = [Gram(users[fold != k], items[fold != k], n_users, n_items, self.power) for k in range(n_folds)]

        def fitted(penalty: float, folds: int | None = None) -> Calibration:
            draws = np.random.default_rng(7)  # penalties are compared on the same pairs
            make = partial(scorer_of, penalty)
            return calibrate(users, items, n_users, n_items, fold, make, draws, folds=folds)

        def scorer_of(penalty: float, k: int) -> RidgeScorer:
            return grams[k].scorer(penalty, share)

        penalty = self.penalty or best_of(PENALTIES, lambda p: fitted(p, min(2, n_folds)).log_likelihood)
        return penalty, partial(scorer_of, penalty), fitted(penalty)


def best_of(values: tuple[float, ...], score: Callable[[float], float]) -> float:
    """Return the value of the highest score, climbing from the middle: scores have one peak."""
    place = len(values) // 2
    found = {place: score(values[place])}
    while True:
        for k in (place - 1, place + 1):
            if 0 <= k < len(values) and k not in found:
                found[k] = score(values[k])
        best = max(found, key=lambda k: found[k])
        if best == place:
            return values[place]
        place = best
