"""The law of a rating whose mean is known: what liking's influence on seeing does to one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit, logsumexp

from unskew.errors import DataError

Values = NDArray[np.float64]

NEAREST = 1e-7  # to 0 and 1 that a mean may be
MOST_LEVELS = 32
SOME_MEANS = 200  # quantiles of predictions that the base is fitted to
SWEEPS = 50
_GRID = np.linspace(-80, 80, 3201)


class OfArrays:
    """Equal if all fields are, arrays among them; for dataclasses with eq=False."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        mine, theirs = vars(self), vars(other)
        return type(self) is type(other) and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@dataclass(frozen=True, eq=False)
class Family(OfArrays):
    """P(r = level) proportional to base(level) exp(eta level): one law for every mean, eta its natural parameter.

    If a rating of 1 is rho times as likely to be seen as a rating of 0, and one between by rho^r, then a law of seen
    ratings is the law of all ratings with eta raised by log rho: exponential tilting stays in the family. Binary
    ratings have levels 0 and 1, and their eta is the logit of the mean but for a constant.
    """

    levels: Values
    log_base: Values

    def __post_init__(self) -> None:
        if self.levels.ndim != 1 or len(self.levels) < 2 or self.levels.shape != self.log_base.shape:
            raise DataError(f"A family needs as many levels as weights, not {len(self.levels)}, {len(self.log_base)}.")

    @classmethod
    def of(cls, ratings: ArrayLike, means: ArrayLike) -> Family:
        """The family whose laws, averaged over seen pairs of these means, have the levels as often as `ratings` do.

        A base that repeated the ratings' own distribution would count as chance what the means explain. It is found by
        iterative scaling, from the ratings' distribution tilted to the mean of the means. 0 and 1 are always levels, so
        that every mean between has a law.
        """
        levels, counts = _levels(np.asarray(ratings, np.float64))
        said = np.quantile(np.asarray(means, np.float64), (np.arange(SOME_MEANS) + 0.5) / SOME_MEANS)
        family = cls(levels, np.log(counts / counts.sum()))
        wanted = family.chances(family.natural(said.mean(keepdims=True)))[0]
        for _ in range(SWEEPS):
            step = np.log(wanted) - np.log(family.chances(family.natural(said)).mean(0))
            family = cls(levels, family.log_base + step)
            if np.abs(step[counts >= 1]).max() < 1e-3:
                break
        return family

    @property
    def binary(self) -> bool:
        return len(self.levels) == 2 and bool((self.levels == [0, 1]).all())

    @property
    def _start(self) -> float:
        """The logit of the mean at eta 0, of binary ratings."""
        return float(self.log_base[1] - self.log_base[0])

    def mean(self, natural: ArrayLike) -> Values:
        eta = np.asarray(natural, np.float64)
        return np.asarray(expit(eta + self._start) if self.binary else self.chances(eta) @ self.levels)

    def variance(self, natural: ArrayLike) -> Values:
        """The slope of the mean in eta."""
        eta = np.asarray(natural, np.float64)
        if self.binary:
            return np.asarray(expit(eta + self._start) * expit(-eta - self._start))
        chances = self.chances(eta)
        return np.asarray(np.maximum(chances @ self.levels**2 - (chances @ self.levels) ** 2, 0))

    def natural(self, means: ArrayLike) -> Values:
        """The eta at which a mean is what it is; means at the very ends are taken a little inside."""
        said = np.clip(np.asarray(means, np.float64), NEAREST, 1 - NEAREST)
        if self.binary:
            return np.asarray(logit(said) - self._start)
        curve = self.mean(_GRID)
        rising = np.flatnonzero(np.diff(curve, prepend=-1) > 0)
        eta = np.interp(said, curve[rising], _GRID[rising])
        for _ in range(3):  # Newton's steps from the grid
            eta = eta - np.clip((self.mean(eta) - said) / np.maximum(self.variance(eta), 1e-12), -0.05, 0.05)
        return np.asarray(eta)

    def log_likelihood(self, natural: Values, ratings: Values) -> Values:
        """Of each rating, less what does not depend on eta; a rating between levels counts as a mixture of them."""
        if self.binary:
            logits = natural + self._start
            return np.asarray(ratings * log_expit(logits) + (1 - ratings) * log_expit(-logits))
        return np.asarray(ratings * natural - logsumexp(self._exponents(natural), axis=1))

    def chances(self, natural: Values) -> Values:
        """One row an eta, one column a level."""
        exponents = self._exponents(natural)
        return np.asarray(np.exp(exponents - logsumexp(exponents, axis=1, keepdims=True)))

    def _exponents(self, natural: Values) -> Values:
        return np.asarray(natural[:, None] * self.levels + self.log_base)


BINARY = Family(np.array([0.0, 1.0]), np.zeros(2))


def _levels(ratings: Values) -> tuple[Values, Values]:
    """The distinct ratings, or as many bins' means if they are too many, with 0 and 1; and how often each is met."""
    distinct, place = np.unique(ratings, return_inverse=True)
    if len(distinct) > MOST_LEVELS:
        _, place = np.unique(np.floor(ratings * MOST_LEVELS), return_inverse=True)
        distinct = np.bincount(place, weights=ratings) / np.bincount(place)
    ends = np.setdiff1d([0.0, 1.0], distinct)
    levels, counts = np.append(distinct, ends), np.append(np.bincount(place), np.full(len(ends), 0.5))
    order = np.argsort(levels)
    return levels[order], counts[order]
