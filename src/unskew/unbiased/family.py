"""The law of a rating whose mean is known: what liking's influence on seeing does to one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit

from unskew.errors import DataError

Values = NDArray[np.float64]

NEAREST = 1e-7  # to 0 and 1 that a mean may be
MOST_LEVELS = 12
LEAST_DISPERSION = 0.02
GRID = 1001  # points


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

    `dispersion` below 1 narrows every law to that share of its variance, as an exponential dispersion model does
    (Jorgensen, 1987): the base is how often levels are met in a whole log, and much of that spread is no chance, but
    what a model's means explain.
    """

    levels: Values
    log_base: Values
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        if self.levels.ndim != 1 or len(self.levels) < 2 or self.levels.shape != self.log_base.shape:
            raise DataError(f"A family needs as many levels as weights, not {self.levels.size}, {self.log_base.size}.")
        if self.levels.dtype.kind != "f" or self.log_base.dtype.kind != "f":
            raise DataError("The levels and weights of a family must be floating-point numbers.")
        rising = bool((np.diff(self.levels) > 0).all()) and self.levels[0] >= 0 and self.levels[-1] <= 1
        if not (rising and np.isfinite(self.log_base).all() and 0 < self.dispersion <= 1):
            raise DataError("The levels of a family must rise within [0, 1], and its weights be finite.")

    @classmethod
    def of(cls, ratings: ArrayLike, means: ArrayLike) -> Family:
        """The family of graded ratings held out, of which a model says these means.

        0 and 1 are always levels, so that every mean between has a law.
        """
        given, said = np.asarray(ratings, np.float64), np.asarray(means, np.float64)
        levels, counts = _levels(given)
        wide = cls(levels, np.log(counts / counts.sum()))
        share = np.mean((given - said) ** 2) / wide.variance(wide.natural(said)).mean()
        return cls(levels, wide.log_base, float(np.clip(share, LEAST_DISPERSION, 1)))

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
        return self.dispersion * np.maximum(chances @ self.levels**2 - (chances @ self.levels) ** 2, 0)

    def natural(self, means: ArrayLike) -> Values:
        """The eta at which a mean is what it is; means at the very ends are taken a little inside."""
        said = np.clip(np.asarray(means, np.float64), NEAREST, 1 - NEAREST)
        if self.binary:
            return np.asarray(logit(said) - self._start)
        gaps = np.diff(self.levels)
        far = np.abs(np.diff(self.log_base) / gaps).max() + 20 / gaps.min()  # from where all but an end level is rare
        grid = np.linspace(-far, far, GRID) / self.dispersion
        curve = self.mean(grid)
        rising = np.flatnonzero(np.diff(curve, prepend=-1) > 0)
        eta, most = np.interp(said, curve[rising], grid[rising]), grid[1] - grid[0]
        for _ in range(4):  # of Newton's steps from the grid
            eta = eta - np.clip((self.mean(eta) - said) / np.maximum(self.variance(eta), 1e-12), -most, most)
        return np.asarray(eta)

    def log_likelihood(self, natural: Values, ratings: Values) -> Values:
        """Of each rating, less what does not depend on eta; a rating between levels counts as a mixture of them."""
        if self.binary:
            logits = natural + self._start
            return np.asarray(ratings * log_expit(logits) + (1 - ratings) * log_expit(-logits))
        share, top = self._shares(natural)
        return np.asarray(ratings * natural - (np.log(share.sum(1)) + top) / self.dispersion)

    def chances(self, natural: Values) -> Values:
        """One row an eta, one column a level, with a dispersion of 1."""
        share, _ = self._shares(natural)
        return np.asarray(share / share.sum(1, keepdims=True))

    def _shares(self, natural: Values) -> tuple[Values, Values]:
        """base(level) exp(eta level), divided by the largest of its row, and the logarithm of that."""
        exponents = self.dispersion * natural[:, None] * self.levels + self.log_base
        top = exponents.max(1)
        return np.exp(exponents - top[:, None]), top


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
