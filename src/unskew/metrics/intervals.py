"""How far an estimate may be from the truth by chance: intervals, errors of sums, and effective samples."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.findings import Interval
from unskew.special import expit, logit, ndtri

Values = NDArray[np.float64]


def normal_interval(value: float, standard_error: float, form: str = ".4f") -> Interval:
    """Return value -+ 1.96 standard errors, which holds the truth in 95 of 100 cases."""
    reach = float(ndtri(0.975)) * standard_error
    return Interval(value, value - reach, value + reach, form)


def interval_in(bounds: tuple[float, float], value: float, standard_error: float) -> Interval:
    """Return an interval that ends inside a metric's range: -+ 1.96 errors of its log or, of a share, its logit."""
    low, high = bounds
    reach, above = float(ndtri(0.975)) * standard_error, value - low
    if not reach > 0 or not low < value < high:  # nothing varies, or the error is unknown
        return normal_interval(value, standard_error)
    if not math.isfinite(high):
        return Interval(value, low + above * math.exp(-reach / above), low + above * math.exp(reach / above), ".4f")
    size = high - low
    middle, reach = float(logit(above / size)), reach * size / (above * (high - value))
    return Interval(value, low + size * float(expit(middle - reach)), low + size * float(expit(middle + reach)), ".4f")


def two_way_error(users: NDArray[Any], items: NDArray[Any], by_user: Values, by_item: Values | None = None) -> float:
    """Return the standard error of a sum whose terms share users and items (Cameron, Gelbach & Miller, 2011).

    Terms are given by row; `by_item` where what an item adds to the sum is not what the row does, as in sums over
    pairs of a user's items.
    """
    of_item = by_user if by_item is None else by_item
    n_users, n_items = (int(np.count_nonzero(np.bincount(codes))) for codes in (users, items))
    over_users = float((np.bincount(users, by_user) ** 2).sum()) * n_users / max(n_users - 1, 1)
    over_items = float((np.bincount(items, of_item) ** 2).sum()) * n_items / max(n_items - 1, 1)
    return math.sqrt(max(over_users + over_items - float((of_item**2).sum()), over_users, over_items))


def effective_sample_size(weights: Values) -> float:
    """Return (sum w)^2 / sum w^2: how many equally weighted rows say as much (Kish, 1965); 0 for no rows."""
    square = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / square if square > 0 else 0.0
