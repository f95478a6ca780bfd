"""Estimate who sees what by a ridge in closed form: every item explained by all others, its own vote left out.

B = I - P / diag(P), P = (X'X + lambda)^-1, scores X B (the idea of EASE: Steck, WWW 2019). By the smaller side: where
users are fewer, P = (I - X'R) / lambda with R = (X X' + lambda)^-1 X. Only the square of the smaller side is held.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np

from unskew.errors import ParameterError
from unskew.posterior.draws import Int
from unskew.posterior.exposure import Pairs
from unskew.propensity.conditional import UNSEEN, Folded, calibrate
from unskew.propensity.scorers import RidgeScorer, sum_neighbours

PENALTIES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
MOST_SIDE = 3000


class Gram:
    """Hold the eigenvectors of X X' or X'X, whichever is smaller, from which any penalty is cheap."""

    def __init__(self, log: Pairs, share: float = 1.0) -> None:
        """Decompose; `share` of the log is what these pairs are, for folds."""
        self.by_users, self.share = log.n_users < log.n_items, share
        self.seen = log.seen()
        matrix = self.seen if self.by_users else self.seen.T.tocsr()
        if matrix.shape[0] > MOST_SIDE:
            raise ParameterError(
                f"a ridge on {log.n_users:,} users and {log.n_items:,} items holds a square of {matrix.shape[0]:,}; "
                f"above {MOST_SIDE:,} take Spectral()."
            )
        self.values, self.vectors = np.linalg.eigh((matrix @ matrix.T).toarray())

    def scorer(self, penalty: float) -> RidgeScorer:
        """Return the scores at a penalty."""
        penalty = penalty * self.share
        inverse = np.ascontiguousarray((self.vectors / (np.maximum(self.values, 0) + penalty)) @ self.vectors.T)
        rows = self.seen.T.tocsr() if self.by_users else self.seen  # each of the larger side, with its members
        pointer, members = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        diagonal = np.diag(inverse).copy()
        if self.by_users:
            item = np.repeat(np.arange(rows.shape[0]), np.diff(pointer))
            own = sum_neighbours(item, pointer, members, inverse, members)[0]
            diagonal = (1 - np.bincount(item, own, rows.shape[0])) / penalty
        counts = np.asarray(self.seen.sum(axis=0)).ravel() / self.share
        return RidgeScorer(self.by_users, pointer, members, inverse, diagonal, counts, self.share)


def affordable(log: Pairs) -> bool:
    """Return whether the smaller side is small enough for a square of it."""
    return min(log.n_users, log.n_items) <= MOST_SIDE


def ridge_scorers(log: Pairs, fold: Int, penalty: float | None = None) -> tuple[float, Callable[[int], RidgeScorer]]:
    """Find the penalty by the held-out likelihood of two folds; return it with the scorers built without a fold."""
    n_folds = int(fold.max()) + 1

    @cache
    def gram(k: int) -> Gram:
        return Gram(log.rows(fold != k), 1 - 1 / n_folds)

    @lru_cache(n_folds)
    def scorer(k: int, penalty: float) -> RidgeScorer:
        return gram(k).scorer(penalty)

    def likelihood(penalty: float) -> float:
        draws = np.random.default_rng(7)  # penalties are compared on the same pairs
        make = partial(scorer, penalty=penalty)
        return calibrate(log, fold, make, draws, n_folds=min(2, n_folds), unseen=UNSEEN // 2).log_likelihood

    found = penalty or best_of(PENALTIES, likelihood)
    return found, partial(scorer, penalty=found)


def ridge_by_folds(log: Pairs, fold: Int, rng: np.random.Generator, penalty: float | None = None) -> Folded:
    """Find the penalty and calibrate the scorers that are built without a fold."""
    found, without = ridge_scorers(log, fold, penalty)
    calibration = calibrate(log, fold, without, rng)
    return Folded(f"ridge, penalty {found:g}", Gram(log).scorer(found), without, calibration)


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
