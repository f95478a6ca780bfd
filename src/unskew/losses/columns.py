"""Numbers that carry their slopes: every loss is written once with them and yields its value and its gradient.

A loss here is made of functions of a row's own logits, totals over rows, and arithmetic on totals. For that, carrying
slopes forward is exact. What is at rest is a plain array or a plain number: it has no slopes, so nothing moves it.
Below them are functions of single numbers: the sigmoid, a root, and the errors of predictions.
"""

import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LARGEST_LOGIT = 13.8  # of logits inside errors: doubly robust risks are unbounded below in the logit


class Column:
    """One number a row; `slopes[role][n]` is d value[n] / d logit[n] of each role that learns."""

    __slots__ = ("slopes", "value")
    __array_ufunc__ = None  # so that array * column asks the column

    def __init__(self, value: Any, slopes: dict[Any, Any] | None = None) -> None:
        self.value, self.slopes = value, slopes or {}

    def chain(self, value: Any, by: Any, other: Any = None, by_other: Any = None) -> Self:
        """Return a function of this and another: `by` and `by_other` are its derivatives by each, None for 1."""
        slopes: dict[Hashable, Any] = {key: s if by is None else by * s for key, s in self.slopes.items()}
        if isinstance(other, Column):
            if type(other) is not type(self):
                raise TypeError("a row's number and a total do not mix: total the column first, or take a value.")
            for key, slope in other.slopes.items():
                slope = slope if by_other is None else by_other * slope
                slopes[key] = slopes[key] + slope if key in slopes else slope
        return type(self)(value, slopes)

    def __add__(self, other: Any) -> Self:
        return self.chain(self.value + value_of(other), None, other)

    def __sub__(self, other: Any) -> Self:
        return self.chain(self.value - value_of(other), None, other, -1.0)

    def __rsub__(self, other: Any) -> Self:
        return self.chain(other - self.value, -1.0)

    def __mul__(self, other: Any) -> Self:
        return self.chain(self.value * value_of(other), value_of(other), other, self.value)

    def __truediv__(self, other: Any) -> Self:
        by = value_of(other)
        return self.chain(self.value / by, 1 / by, other, -self.value / (by * by))

    def __rtruediv__(self, other: Any) -> Self:
        return self.chain(other / self.value, -other / (self.value * self.value))

    def __neg__(self) -> Self:
        return self.chain(-self.value, -1.0)

    __radd__, __rmul__ = __add__, __mul__


class Total(Column):
    """A number; its slopes are keyed by (role, rows) and are one a row."""


def value_of(x: Any) -> Any:
    """Return the number or numbers without their slopes."""
    return x.value if isinstance(x, Column) else x


def _function(x: Any, value: Any, by: Any) -> Any:
    return x.chain(value, by) if isinstance(x, Column) else value


def log(x: Any) -> Any:
    return _function(x, np.log(value_of(x)), 1 / value_of(x))


def exp(x: Any) -> Any:
    found = np.exp(value_of(x))
    return _function(x, found, found)


def square(x: Any) -> Any:
    return _function(x, value_of(x) * value_of(x), 2 * value_of(x))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere."""
    yes = np.asarray(condition, np.asarray(value_of(x)).dtype)
    return yes * x + (1 - yes) * y


def clip(x: Any, low: float, high: float = np.inf) -> Any:
    """x held within bounds, at which it does not move."""
    value = value_of(x)
    held = np.minimum(np.maximum(value, low), high)
    return _function(x, held, 1.0 * (held == value))


def sigmoid(s: Any) -> Array:
    """1 / (1 + e^-s), in the precision of s and without overflow; SciPy's takes a quarter of a second to import."""
    e = np.exp(np.minimum(s, 80))
    return np.asarray(e / (1 + e))


def logit(p: Any, nearest: float = 0.0) -> Array:
    """log p - log(1 - p) within 87 of 0, p at least `nearest` away from 0 and 1; a sigmoid of 87 is 1 in float32."""
    held = np.clip(np.asarray(p, np.float64), nearest, 1 - nearest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(held) - np.log1p(-held), -87.0, 87.0))


def root(f: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Find where an increasing function crosses 0, or the nearest end of the interval; f gives value and slope.

    Newton's steps, halving where they leave what may hold the root; SciPy's solvers take long to import.
    """
    at = (low + high) / 2
    for _ in range(200):
        value, slope = f(at)
        low, high = (at, high) if value < 0 else (low, at)
        step = value / slope if slope > 0 else math.inf
        if abs(step) < 1e-13 or high - low < 1e-13:
            break
        at = at - step if low < at - step < high else (low + high) / 2
    return at


class Terms(NamedTuple):
    """What an error of logits is made of, whatever the label y in [0, 1]: e = zero + y effect.

    Linear in the label, so a soft label is an expectation. d e / d logit = scale (r - y), r = sigmoid(logit). Logits
    enter within 13.8 of 0, and beyond they do not move: there the scale is 0.
    """

    zero: Array
    effect: Array
    r: Array
    scale: Array


def log_error(s: Array) -> Terms:
    """Cross-entropy, softplus(s) - y s."""
    t = np.minimum(np.maximum(s, -LARGEST_LOGIT), LARGEST_LOGIT)
    e = np.exp(t)
    above = 1 + e
    return Terms(np.log(above), -t, e / above, (t == s).astype(s.dtype))


def squared_error(s: Array) -> Terms:
    """Squared error in its expected form, y (1 - r)^2 + (1 - y) r^2 = (r - y)^2 + y (1 - y).

    The plug-in (r - y)^2 leaves y (1 - y) out and makes doubly robust risks biased even under perfect imputation.
    """
    t = np.minimum(np.maximum(s, -LARGEST_LOGIT), LARGEST_LOGIT)
    r = sigmoid(t)
    return Terms(r * r, 1 - 2 * r, r, 2 * r * (1 - r) * (t == s))


ERRORS = {"log": log_error, "squared": squared_error}
