"""How much unexplained liking counts, from random ratings: the one number that no log of chosen ratings can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unskew.utility.law import largest_slope

ENOUGH_GAIN = 2.0  # of log-likelihood over the assumed k, as for the slope itself
LARGEST = 3.0
_NODES = (0.0, 0.5, 1.0, 2.0, LARGEST)  # where the slope is maximised; it hardly changes with k in between


class Unexplained(NamedTuple):
    """The k that is used, the 95% interval of the estimate and its gain over the assumed k."""

    value: float
    estimate: float
    low: float
    high: float
    gain: float


def unexplained_from(
    log_likelihood: Callable[[float, float], float], slope_at: Callable[[float], float], *, assumed: float
) -> Unexplained:
    """Maximum likelihood of random ratings over k in [0, 3], the slope following k as the log demands.

    A few dozen ratings know k only roughly, so the assumed k is kept unless the gain over it reaches 2: then a
    slice that says little changes nothing.
    """
    slopes = [slope_at(k) for k in _NODES]
    candidates = np.unique(np.append(np.linspace(0, LARGEST, 121), assumed))
    value = np.array([log_likelihood(k, _slope(k, slopes)) for k in candidates])
    best = int(value.argmax())
    within = candidates[value >= value[best] - 1.92]
    gain = float(value[best] - value[candidates == assumed][0])
    estimate = float(candidates[best])
    return Unexplained(
        estimate if gain >= ENOUGH_GAIN else assumed, estimate, float(within.min()), float(within.max()), gain
    )


def _slope(k: float, slopes: list[float]) -> float:
    bound = largest_slope(k)
    return float(np.clip(np.interp(k, _NODES, slopes), -bound, bound))
