"""Lines eta' = a eta + b, one for all users or one for each kind of users, fitted to random ratings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import DataError
from unskew.unbiased.family import Family, OfArrays, Values

Codes = NDArray[np.integer[Any]]

SLOPE, SHIFT = 0.3, 0.35  # standard deviations of a around 1 and of b around 0, times that of a rating around its mean
OF_EXPERTS = 0.5  # an expert's, around those of all, are so much smaller
SMALLEST_SLOPE = 1e-3  # a line never turns a ranking round
MAX_STEPS = 50


@dataclass(frozen=True, eq=False)
class Lines(OfArrays):
    """a and b of every expert, and who has which; without experts one line serves all, as it serves newcomers."""

    slopes: Values  # the first is everybody's who has no expert
    intercepts: Values
    expert: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of each user, from 1

    def __post_init__(self) -> None:
        n = len(self.slopes)
        if self.intercepts.shape != (n,) or not n or (len(self.expert) and not 0 <= self.expert.min() <= self.most < n):
            raise DataError(f"There are {n} slopes for {len(self.intercepts)} intercepts and expert {self.most}.")

    @property
    def most(self) -> int:
        return int(self.expert.max(initial=0))

    @property
    def changes_nothing(self) -> bool:
        return bool((self.slopes == 1).all() and not self.intercepts.any())

    def __call__(self, natural: Values, users: Codes) -> Values:
        """eta' of pairs of these users."""
        if not len(self.expert):
            return np.asarray(self.slopes[0] * natural + self.intercepts[0])
        known = (users >= 0) & (users < len(self.expert))
        own = np.where(known, self.expert[np.where(known, users, 0)], 0)
        return np.asarray(self.slopes[own] * natural + self.intercepts[own])

    def joined_by(self, count: int) -> Lines:
        """The same beside new users, who have no expert."""
        return replace(self, expert=np.append(self.expert, np.zeros(count, np.int64))) if len(self.expert) else self

    def __str__(self) -> str:
        pairs = zip(self.slopes, self.intercepts, strict=True)
        each = [f"{b:+.2f}" if a == 1 else f"{a:.2f} x {b:+.2f}" for a, b in pairs]
        return ", ".join(each[1:] or each)

    @classmethod
    def everybody(cls, slope: float = 1.0, intercept: float = 0.0) -> Lines:
        return cls(np.array([slope]), np.array([intercept]))

    @classmethod
    def mixed(cls, lines: list[Lines], weights: Values) -> Lines:
        """sum_k weights_k eta'_k, which is a line again; at most one of them has experts."""
        expert = next((each.expert for each in lines if len(each.expert)), np.empty(0, np.int64))
        n = max(len(each.slopes) for each in lines)
        full = [(np.broadcast_to(each.slopes, n), np.broadcast_to(each.intercepts, n)) for each in lines]
        slopes, intercepts = np.tensordot(weights, np.array(full), 1)
        return cls(slopes, intercepts, expert)


def fit_line(
    family: Family,
    natural: Values,
    ratings: Values,
    *,
    slope: bool,
    centre: tuple[float, float] = (1.0, 0.0),
    narrower: float = 1.0,
) -> tuple[float, float]:
    """(a, b) of highest posterior density, normal priors around `centre`; without `slope`, a stays where it is.

    Binary ratings that are liked by half have a prior of standard deviation 0.7 for b: odds within a factor of 4 either
    way. The log-likelihood sum r eta' - A(eta') is concave, so Newton's method with halved steps finds the top.
    """
    if not len(ratings):
        return centre
    spread = np.sqrt(max(float(family.variance(natural).mean()), 1e-6))
    start, precision = np.array(centre), (narrower * np.array([SLOPE, SHIFT / spread])) ** -2.0
    free = np.array([slope, True])

    def loss(at: Values) -> float:
        gone = at - start
        return float(-family.log_likelihood(at[0] * natural + at[1], ratings).sum() + precision @ gone**2 / 2)

    at, value = start.copy(), loss(start)
    x = np.column_stack([natural, np.ones_like(natural)])
    for _ in range(MAX_STEPS):
        eta = x @ at
        gradient = precision * (at - start) - x.T @ (ratings - family.mean(eta))
        curvature = (x * family.variance(eta)[:, None]).T @ x + np.diag(precision)
        step = np.zeros(2)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        size = 1.0
        while (new := loss(_within(at - size * step))) > value and size > 1e-8:
            size /= 2
        if size <= 1e-8:
            break
        at, value = _within(at - size * step), new
        if gradient[free] @ step[free] < 1e-8:
            break
    return float(at[0]), float(at[1])


def _within(at: Values) -> Values:
    return np.array([max(at[0], SMALLEST_SLOPE), at[1]])
