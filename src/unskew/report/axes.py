"""From values to places: linear and logarithmic axes whose ticks are round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Unit:
    """How the values of an axis are told: so many times themselves, and what follows them."""

    times: float = 1.0
    suffix: str = ""
    signed: bool = False
    whole: bool = False  # only whole numbers make sense

    def told(self, value: float, step: float) -> str:
        """With as many digits as a step needs."""
        step = step * self.times
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        digits += round(step * 10**digits, 6) % 1 > 0  # a step of 0.25 needs one more
        sign = "+" if self.signed and value > 0 else ""
        return f"{sign}{self.times * value:,.{digits}f}{self.suffix}".replace("-", "\N{MINUS SIGN}")


NUMBER, PERCENT, SIGNED, WHOLE = Unit(), Unit(100, "%"), Unit(signed=True), Unit(whole=True)


@dataclass(frozen=True)
class Axis:
    """Values between `low` and `high` on pixels from `start` to `end`; ticks with what stands beside them."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        share = (at - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def linear(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    wanted: int = 5,
    zero: bool = False,
    unit: Unit = NUMBER,
) -> Axis:
    """An axis that holds all values, with about as many ticks as wanted; `zero` keeps 0 in it."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if high - low < max(1e-9 * size, 1e-12):  # one value, and nothing to compare it with
        room = 0.1 * size if size > 1e-9 else 1.0
        low, high = low - room, high + room
    step = _step((high - low) / wanted)
    if unit.whole:
        step = max(1.0, float(math.ceil(step)))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    ticks = tuple((n * step, unit.told(n * step if n else 0.0, step)) for n in range(first, last + 1))
    return Axis(first * step, last * step, start, end, ticks)


def logarithmic(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis of positive values, with ticks at powers of ten, or at 1, 2 and 5 of each where these are few."""
    positive = [value for value in values if 0 < value < math.inf] or [0.1, 1.0]
    low, high = min(positive), max(positive)
    if high / low < 2:
        low, high = low / 1.5, high * 1.5
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    digits = (1,) if last - first > 3 else (1, 3) if last - first > 2 else (1, 2, 5)
    ticks = tuple(
        (digit * 10.0**power, short(digit * 10.0**power))
        for power in range(first, last + 1)
        for digit in digits
        if low <= digit * 10.0**power * (1 + 1e-9) and digit * 10.0**power <= high * (1 + 1e-9)
    )
    return Axis(low, high, start, end, ticks, logarithmic=True)


def short(value: float) -> str:
    """1,000,000 as 1M and 0.001 as it is."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.6g}" if value >= 1e-4 or value == 0 else f"{value:.0e}"


def _step(rough: float) -> float:
    """The smallest round number of at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in STEPS if step * power >= rough * (1 - 1e-9))
