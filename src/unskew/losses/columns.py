"""Numbers that carry their slopes: every loss is written once with them and yields its value and its gradient.

A loss here is made of functions of a row's own logits, totals over rows, and arithmetic on totals. For that, carrying
slopes forward is exact. What is at rest is a plain array or a plain number: it has no slopes, so nothing moves it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
