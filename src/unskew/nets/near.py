"""What lists are ranked by, of some users (rows) and all items at once: fast, and off by no more than a known error.

Whatever lies further below the k best than both errors is not among them, so that pairs are asked about few items.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.special import log_expit, log_ndtr, ndtr, ndtri_exp

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
EPS = float(np.finfo(np.float32).eps)
POINTS = 1 << 12
PROBIT_SLOPE = 1.59  # the logit of Phi(z) rises by at least this, where z is 0


class Near(NamedTuple):
    """Numbers of users and items in single precision; of a user none is off by more than `error` or above `size`."""

    values: Float32
    error: Float
    size: Float

    def line(self, start: Any, slope: Any) -> Near:
        """Return start + slope x; both are numbers of users, `start` may be of items."""
        values, size = self.values, np.abs(slope) * self.size + np.abs(start).max(initial=0.0)
        if np.ndim(slope) or slope != 1:
            values *= np.asarray(slope, np.float32)[..., None]
        if np.ndim(start) or start != 0:
            values += np.asarray(start, np.float32)
        return Near(values, np.abs(slope) * self.error + 2 * EPS * size, size)

    def plus(self, other: Near) -> Near:
        """Return the sum of two."""
        values, size = self.values, self.size + other.size
        values += other.values
        return Near(values, self.error + other.error + EPS * size, size)


class Ranking(NamedTuple):
    """What grows with the places of lists; of two values further apart than `slack` of the larger it is sure which."""

    values: Float32
    slack: Callable[[Float], Float]


Ranked = Callable[[NDArray[Any]], Ranking]


def by_logits(near: Near, logits: Callable[[Float], Float] = lambda x: x, slope: float = 1.0) -> Ranking:
    """Rank by the logistic function, in single precision, of what these are the logits of, rising by `slope` at least.

    A probability differs from p if it is below (1 - 16 EPS) p; -log p rises by 1 - p with the logit, or faster below.
    """

    def slack(least: Float) -> Float:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            at = logits(least)
            return np.asarray(2 * near.error + EPS * (16 * (1 + np.exp(at)) + 4 * np.abs(at)) / slope)

    return Ranking(near.values, slack)


def by_scores(near: Near) -> Ranking:
    """Rank by what these are in double precision."""
    return Ranking(near.values, lambda _: 2 * near.error)


class Products:
    """Inner products with the rows of all items, in whatever order they are summed up.

    A sum of d products, rounded d times by half of EPS at most, is compared with another such sum.
    """

    def __init__(self, items: NDArray[Any]) -> None:
        self.items = np.ascontiguousarray(items, np.float32)
        self.longest = float(np.sqrt(np.square(items, dtype=float).sum(axis=1).max(initial=0.0)))

    def __call__(self, users: NDArray[Any]) -> Near:
        size = np.sqrt(np.square(users, dtype=float).sum(axis=1)) * self.longest
        return Near(users.astype(np.float32) @ self.items.T, EPS * (self.items.shape[1] + 8) * size, size)


class Curve:
    """A function of one number by straight lines over even steps; beyond its ends it rises at most twice as fast."""

    def __init__(self, function: Callable[[Float], Float], low: float, high: float) -> None:
        self.function, self.low, self.high, self.step = function, low, high, (high - low) / POINTS

    @cached_property
    def lines(self) -> tuple[Float32, Float32, float, float, float]:
        """Return starts and rises of the lines, how far they are off, the steepest slope, the largest value."""
        found = self.function(np.linspace(self.low, self.high, 2 * POINTS + 1))
        y, between = found[::2], found[1::2]
        off = 1.1 * np.abs((y[1:] + y[:-1]) / 2 - between).max()
        steepest, largest = 1.01 * np.abs(np.diff(y)).max() / self.step, np.abs(y).max()
        far = max(abs(self.low), abs(self.high))
        off += 4 * EPS * (steepest * far + largest)
        return y[:-1].astype(np.float32), np.diff(y).astype(np.float32), float(off), float(steepest), float(largest)

    def __call__(self, near: Near) -> Near:
        starts, rises, off, steepest, largest = self.lines
        x, beyond = near.values, 0.0 * near.size
        if near.size.max(initial=0.0) > min(-self.low, self.high):
            beyond += np.maximum(0, np.maximum(self.low - x.min(axis=1), x.max(axis=1) - self.high))
        x -= np.float32(self.low)
        x *= np.float32(1 / self.step)
        np.clip(x, 0, np.float32(POINTS - 0.001), out=x)
        place = x.astype(np.int32)
        x -= place
        x *= rises.take(place)
        x += starts.take(place)
        error = steepest * (near.error + 2 * beyond) + off
        return Near(x, error, largest + 0 * near.size)


LOGIT = Curve(lambda z: log_ndtr(z) - log_ndtr(-z), -12.0, 12.0)
"""The logit of Phi(z)."""
QUANTILE = Curve(lambda x: np.where(x < 0, ndtri_exp(log_expit(x)), -ndtri_exp(log_expit(-x))), -60.0, 60.0)
"""z of a logit, its inverse."""
LOG_CHANCE = Curve(log_expit, -40.0, 20.0)
"""log p of a logit."""
LOG_LIKED = Curve(lambda z: np.log(np.maximum(ndtr(z), 1e-12)), -7.034483825301131, 8.0)
"""log Phi(z), as lists by choice take it: never below log 1e-12, which it is where this begins."""
