"""How active a new user is: the one number that tells from how many ratings somebody has given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

Values = NDArray[np.float64]

SETTLED = 1e9  # stands for infinity
_WIDEST = 60.0  # logits: farther out a sigmoid is 0 or 1


def activity(counts: NDArray[np.integer[Any]], of_item: Values) -> Values:
    """The a of each count n with sum_i sigmoid(a + b_i) = n: maximum likelihood with the items' effects b held fixed.

    Nobody who has rated nothing is active, and who has rated everything is infinitely so.
    """
    distinct, place = np.unique(counts, return_inverse=True)
    return np.array([_activity(int(n), of_item) for n in distinct])[place]


def _activity(count: int, of_item: Values) -> float:
    def surplus(a: float) -> float:
        return float(expit(a + of_item).sum()) - count

    if count <= 0 or count >= len(of_item):
        return -SETTLED if count <= 0 else SETTLED
    if surplus(-_WIDEST) >= 0 or surplus(_WIDEST) <= 0:  # more items are settled than the count allows
        return -_WIDEST if surplus(-_WIDEST) >= 0 else _WIDEST
    return float(brentq(surplus, -_WIDEST, _WIDEST, xtol=1e-9))
