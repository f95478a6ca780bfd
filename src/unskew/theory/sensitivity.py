"""What an unseen cause of being seen could change: weights that are wrong by a bounded factor in the odds.

If hidden confounders make the odds of each propensity wrong by at most the factor Gamma, the true weight of a seen
pair lies in [1 + (w - 1)/Gamma, 1 + (w - 1) Gamma] where w = 1/p_hat (Rosenbaum, 2002; Ding et al., KDD 2022, for
recommenders).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from unskew.errors import ParameterError
from unskew.metrics.checks import refuse_rows
from unskew.theory.checks import Values, columns

LARGEST_FACTOR = 1e6


def weighted_range(values: ArrayLike, weights: ArrayLike, gamma: float) -> tuple[float, float]:
    """The least and the largest sum of v * value over all weights v that confounders of strength `gamma` allow.

    A sum is linear in v and each v is free, so both are reached at ends of the intervals.
    """
    if not gamma >= 1:
        raise ParameterError(f"gamma must be at least 1, the factor of no hidden confounding, not {gamma}.")
    x, w = _checked(values, weights)
    low, high = 1 + (w - 1) / gamma, 1 + (w - 1) * gamma
    return float(np.where(x > 0, low, high) @ x), float(np.where(x > 0, high, low) @ x)


def overturning_factor(values: ArrayLike, weights: ArrayLike, offset: float = 0.0) -> float:
    """The smallest gamma at which offset + sum w * value could be zero or of the other sign; infinite if none is.

    With value = (e_A - e_B)/|D| it is how strong a hidden confounder must be to overturn that A and B differ as the
    weighted log says; a doubly robust difference has residuals as values and the difference of imputed errors as its
    offset.
    """
    x, w = _checked(values, weights)
    sign = math.copysign(1.0, offset + float(w @ x))

    def left(log_gamma: float) -> float:
        least, _ = weighted_range(sign * x, w, math.exp(log_gamma))
        return sign * offset + least

    most = math.log(LARGEST_FACTOR)
    if left(0.0) <= 0:
        return 1.0
    return math.inf if left(most) > 0 else math.exp(brentq(left, 0.0, most))


def _checked(values: ArrayLike, weights: ArrayLike) -> tuple[Values, Values]:
    x, w = columns(values=values, weights=weights)
    refuse_rows(w < 1, w, "weights", "is below 1, the weight of a pair that is always seen")
    return x, w
