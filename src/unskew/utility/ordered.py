"""Ordered logit: what is said out of fold, calibrated to the ratings that were left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from unskew.errors import DataError

Values = NDArray[np.float64]

MOST_LEVELS = 10
RIDGE = 1e-3  # keeps the numbers finite where a few ratings are separated perfectly
MAX_STEPS = 100
SURE = 3.0  # standard errors by which a slope exceeds 0 beyond doubt


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct ratings of a log, lowest first, and where one ends and the next begins.

    A log with more than ten distinct ratings is cut into ten levels of about equal size, each standing for its mean.
    """

    ratings: Values
    cuts: Values

    @classmethod
    def of(cls, ratings: ArrayLike) -> Levels:
        values = np.asarray(ratings, np.float64)
        distinct = np.unique(values)
        if len(distinct) < 2:
            raise DataError("Selection on utility needs at least two different ratings, and all are the same.")
        if len(distinct) <= MOST_LEVELS:
            return cls(distinct, (distinct[1:] + distinct[:-1]) / 2)
        cuts = np.unique(np.quantile(values, np.linspace(0, 1, MOST_LEVELS + 1)[1:-1], method="higher"))
        cuts = cuts[cuts > distinct[0]]
        level = np.searchsorted(cuts, values, side="right")
        return cls(np.bincount(level, weights=values) / np.bincount(level), cuts)

    def __len__(self) -> int:
        return len(self.ratings)

    def level(self, ratings: ArrayLike) -> NDArray[np.int64]:
        return np.searchsorted(self.cuts, np.asarray(ratings, np.float64), side="right")

    @property
    def gaps(self) -> Values:
        """How much higher each level is than the one below: the mean rating is the lowest + gaps . P(r >= level)."""
        return np.diff(self.ratings)


@dataclass(frozen=True, eq=False)
class OrderedLogit:
    """P(r >= level c | seen) = sigma(score - threshold_c), score = slopes . x; binary ratings have one threshold.

    `errors` are the standard errors of the slopes.
    """

    slopes: Values
    errors: Values
    thresholds: Values

    @property
    def middle_level(self) -> int:
        """The level at which liking begins: that of the only threshold of a binary log."""
        return len(self.thresholds) // 2 + 1

    @property
    def middle(self) -> float:
        """Its threshold: the score at which utility is 0."""
        return float(self.thresholds[self.middle_level - 1])

    def sure(self, column: int) -> bool:
        """Whether this slope is above 0 beyond doubt."""
        return bool(self.slopes[column] > SURE * self.errors[column])

    def counted_once(self, times: float) -> OrderedLogit:
        """The same fit where every rating was there several times, with the errors of counting it once."""
        return replace(self, errors=self.errors * np.sqrt(times))

    def score(self, x: Values) -> Values:
        return np.asarray(x @ self.slopes)


def fit_ordered(x: Values, level: NDArray[np.integer], n_levels: int) -> OrderedLogit:
    """Maximum likelihood by Fisher scoring with step halving."""
    d = x.shape[1]
    above = np.array([(level >= c).mean() for c in range(1, n_levels)])
    start = np.concatenate([np.zeros(d), -logit(np.clip(above, 1e-4, 1 - 1e-4))])
    problem = _Problem(x, level, n_levels)
    theta, loss = start, problem.loss(start)
    for _ in range(MAX_STEPS):
        gradient, information = problem.derivatives(theta)
        step = np.linalg.solve(information, gradient)
        size = 1.0
        while (candidate := problem.loss(theta - size * step)) > loss and size > 1e-8:
            size /= 2
        if candidate <= loss:
            theta, loss = theta - size * step, candidate
        if gradient @ step < 1e-10 or size <= 1e-8:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(problem.derivatives(theta)[1])))
    return OrderedLogit(theta[:d], errors[:d], theta[d:])


class _Problem:
    """The negative log-likelihood of slopes and thresholds, with a touch of ridge on the slopes."""

    def __init__(self, x: Values, level: NDArray[np.integer], n_levels: int) -> None:
        self.x, self.level, self.n_levels = x, level, n_levels
        self.ridge = np.concatenate([np.full(x.shape[1], RIDGE), np.full(n_levels - 1, 1e-9)])

    def _upper(self, theta: Values) -> Values:
        """P(r >= c) for c = 0 to n_levels, one row a rating."""
        d = self.x.shape[1]
        inner = expit((self.x @ theta[:d])[:, None] - theta[d:])
        edge = np.ones((len(inner), 1))
        return np.hstack([edge, inner, 0 * edge])

    def loss(self, theta: Values) -> float:
        if (np.diff(theta[self.x.shape[1] :]) <= 0).any():
            return np.inf
        upper, rows = self._upper(theta), np.arange(len(self.x))
        p = upper[rows, self.level] - upper[rows, self.level + 1]
        return float(-np.log(np.maximum(p, 1e-300)).sum() + 0.5 * self.ridge @ theta**2)

    def derivatives(self, theta: Values) -> tuple[Values, Values]:
        """The gradient and the expected information, sum over ratings and levels of dp dp' / p."""
        k, upper = self.n_levels, self._upper(theta)
        density = upper * (1 - upper)
        p = np.maximum(upper[:, :-1] - upper[:, 1:], 1e-12)
        by_score = density[:, :-1] - density[:, 1:]  # d p_c / d score
        gradient, information = self.ridge * theta, np.diag(self.ridge)
        for c in range(k):
            of_threshold = np.zeros((len(p), k - 1))
            if c > 0:
                of_threshold[:, c - 1] = -density[:, c]
            if c < k - 1:
                of_threshold[:, c] = density[:, c + 1]
            full = np.hstack([by_score[:, c : c + 1] * self.x, of_threshold])
            information = information + (full / p[:, c : c + 1]).T @ full
            chosen = self.level == c
            gradient = gradient - (full[chosen] / p[chosen, c : c + 1]).sum(0)
        return gradient, information
