"""How far an estimate may be from the truth by chance: intervals, errors of sums, and effective samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from unskew.errors import ParameterError
from unskew.findings import Interval
from unskew.metrics.checks import finite_vector

__all__ = ["Interval", "bootstrap_interval", "effective_sample_size", "normal_interval", "two_way_error"]

Values = NDArray[np.float64]


def normal_interval(value: float, standard_error: float, confidence: float = 0.95, form: str = ".4f") -> Interval:
    """value -+ z standard errors, z the normal quantile of the confidence."""
    reach = float(ndtri((1 + _checked(confidence)) / 2)) * standard_error
    return Interval(value, value - reach, value + reach, form)


def bootstrap_interval(value: float, replicates: ArrayLike, confidence: float = 0.95) -> Interval:
    """The basic interval (2 value - upper quantile, 2 value - lower quantile) of bootstrap replicates.

    Replicates stand to the value as the value stands to the truth, so a statistic that chance pushes upwards, as it
    does every calibration error, is pushed once more in its replicates; mirroring takes both pushes back, where an
    interval of plain percentiles would double them (Davison & Hinkley, 1997).
    """
    tail = (1 - _checked(confidence)) / 2
    low, high = np.quantile(finite_vector(replicates, "replicates"), [tail, 1 - tail])
    return Interval(value, float(2 * value - high), float(2 * value - low), ".4f")


def two_way_error(users: NDArray[Any], items: NDArray[Any], by_user: Values, by_item: Values | None = None) -> float:
    """The standard error of a sum whose terms share users and items (Cameron, Gelbach & Miller, 2011).

    Terms are given by row; `by_item` where what an item adds to the sum is not what the row does, as in sums over
    pairs of a user's items.
    """
    of_item = by_user if by_item is None else by_item
    n_users, n_items = (int(np.count_nonzero(np.bincount(codes))) for codes in (users, items))
    over_users = float((np.bincount(users, by_user) ** 2).sum()) * n_users / max(n_users - 1, 1)
    over_items = float((np.bincount(items, of_item) ** 2).sum()) * n_items / max(n_items - 1, 1)
    return math.sqrt(max(over_users + over_items - float((of_item**2).sum()), over_users, over_items))


def effective_sample_size(weights: Values) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted rows say as much (Kish, 1965); 0 for no rows."""
    square = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / square if square > 0 else 0.0


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, both excluded, not {confidence!r}.")
    return confidence
