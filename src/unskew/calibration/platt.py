"""Platt maps c(s) = sigmoid(a s + b), one for all or one a group, solved by Newton's method to convergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from unskew.calibration.mixing import LARGEST_LOGIT, mean_said

Values = NDArray[np.float64]

SMALLEST_SLOPE = 1e-3  # a map never turns a ranking round
MAX_STEPS = 100
EXAMPLES_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Examples:
    """What a calibrator learns from: raw logits, labels in [0, 1], weights, and who the users are.

    `vectors` holds one row a listed user and `users` says which row belongs to each example.
    """

    logits: Values
    labels: Values
    weights: Values
    users: NDArray[np.int64]
    vectors: NDArray[np.float32]
    user_codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def bounded_logits(self) -> Values:
        return np.clip(self.logits, -LARGEST_LOGIT, LARGEST_LOGIT)

    @property
    def target_mean(self) -> float:
        """What the calibrated probabilities should average to."""
        return float(np.average(self.labels, weights=self.weights))

    def said(self, mix: Values, slopes: Values, intercepts: Values) -> Values:
        """What a mixture of maps says of every example; each table has one row a listed user, or one for all."""
        out, s = np.empty(len(self)), self.bounded_logits
        for start in range(0, len(self), EXAMPLES_AT_ONCE):
            part = slice(start, start + EXAMPLES_AT_ONCE)
            w, a, b = (table[self.users[part]] if len(table) > 1 else table for table in (mix, slopes, intercepts))
            out[part] = (w * expit(a * s[part, None] + b)).sum(1)
        return out

    def shift(self, mix: Values, slopes: Values, intercepts: Values) -> float:
        """What to add to every intercept so that what the mixture of maps says has the target mean."""
        tables = (np.ascontiguousarray(table, np.float64) for table in (mix, slopes, intercepts))
        mean_at = partial(mean_said, self.bounded_logits, self.users, self.weights / self.weights.sum(), *tables)
        return level(mean_at, self.target_mean)

    def of_some_users(self, most: int, generator: np.random.Generator) -> Examples:
        """All examples of users drawn at random, about `most` of them; all users if there are no more than that."""
        if len(self) <= most:
            return self
        order = generator.permutation(len(self.user_codes))
        counts = np.bincount(self.users, minlength=len(order))
        chosen = np.sort(order[: max(2, np.searchsorted(np.cumsum(counts[order]), most))])
        place = np.full(len(order), -1)
        place[chosen] = np.arange(len(chosen))
        rows = place[self.users] >= 0
        columns = self.logits[rows], self.labels[rows], self.weights[rows], place[self.users[rows]]
        return Examples(*columns, self.vectors[chosen], self.user_codes[chosen])

    def take(self, rows: NDArray[np.integer]) -> Examples:
        return Examples(
            self.logits[rows], self.labels[rows], self.weights[rows], self.users[rows], self.vectors, self.user_codes
        )


def solve_platt(
    examples: Examples,
    group: NDArray[np.integer] | None = None,
    n_groups: int = 1,
    *,
    ridge: float = 0.0,
    centre: tuple[float, float] = (1.0, 0.0),
) -> tuple[Values, Values]:
    """(a_g, b_g) of every group g by weighted maximum likelihood (Platt 1999), with a_g > 0.

    Minimises sum w [softplus(a s + b) - y (a s + b)] + ridge/2 [(a - a_0)^2 + (b - b_0)^2], the weights scaled to
    mean 1 so that `ridge` counts in examples. All groups take their Newton steps together, each with its own
    step size; a group without examples keeps the centre.
    """
    problem = _Problem(examples, group, n_groups, ridge, centre)
    a, b = np.full(n_groups, float(centre[0])), np.full(n_groups, float(centre[1]))
    loss = problem.loss(a, b)
    for _ in range(MAX_STEPS):
        da, db, decrease = problem.newton_step(a, b)
        if decrease.max() < 1e-12:
            break
        size = np.ones(n_groups)
        for _ in range(40):
            new_a, new_b = np.maximum(a - size * da, SMALLEST_SLOPE), b - size * db
            new_loss = problem.loss(new_a, new_b)
            worse = new_loss > loss + 1e-12 * np.abs(loss)
            if not worse.any():
                break
            size[worse] /= 2
        better = ~worse
        a, b, loss = np.where(better, new_a, a), np.where(better, new_b, b), np.where(better, new_loss, loss)
    return a, b


def level(mean_at: Callable[[float], float], target: float) -> float:
    """The shift d of all intercepts with mean_at(d) = target, or the end nearest to it; mean_at must not fall."""
    low, high = -60.0, 60.0
    if mean_at(low) >= target:
        return low
    if mean_at(high) <= target:
        return high
    return float(brentq(lambda shift: mean_at(shift) - target, low, high, xtol=1e-13))


class _Problem:
    """The convex problem of all groups side by side."""

    def __init__(
        self,
        examples: Examples,
        group: NDArray[np.integer] | None,
        n_groups: int,
        ridge: float,
        centre: tuple[float, float],
    ) -> None:
        self.s = examples.bounded_logits
        self.y, self.w = examples.labels, examples.weights / examples.weights.mean()
        self.group = np.zeros(len(examples), np.int64) if group is None else group
        self.n_groups, self.ridge, self.centre = n_groups, ridge, centre

    def _sum(self, values: Values) -> Values:
        return np.bincount(self.group, weights=values, minlength=self.n_groups).astype(np.float64)

    def _map(self, a: Values, b: Values) -> Values:
        return a[self.group] * self.s + b[self.group]

    def loss(self, a: Values, b: Values) -> Values:
        z = self._map(a, b)
        penalty = self.ridge / 2 * ((a - self.centre[0]) ** 2 + (b - self.centre[1]) ** 2)
        return self._sum(self.w * (np.logaddexp(0, z) - self.y * z)) + penalty

    def newton_step(self, a: Values, b: Values) -> tuple[Values, Values, Values]:
        """The step and twice the decrease it promises; where the slope rests at its bound only b moves."""
        p = expit(self._map(a, b))
        residual, curvature = self.w * (p - self.y), self.w * p * (1 - p)
        ga = self._sum(residual * self.s) + self.ridge * (a - self.centre[0])
        gb = self._sum(residual) + self.ridge * (b - self.centre[1])
        haa = self._sum(curvature * self.s**2) + self.ridge + 1e-9
        hab = self._sum(curvature * self.s)
        hbb = self._sum(curvature) + self.ridge + 1e-9
        held = (a <= SMALLEST_SLOPE) & (ga > 0)
        ga, hab = np.where(held, 0.0, ga), np.where(held, 0.0, hab)
        determinant = haa * hbb - hab**2
        da, db = (hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant
        return da, db, ga * da + gb * db
