"""Is a difference between two methods more than chance? Paired tests over seeds, corrected for how many were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import ttest_rel, wilcoxon


class Paired(NamedTuple):
    """The mean difference over seeds, and two-sided p-values of the paired t-test and of Wilcoxon's signed ranks."""

    difference: float
    t: float
    wilcoxon: float


def paired(own: ArrayLike, other: ArrayLike) -> Paired | None:
    """Tests of two methods by their values for the same seeds; None if there are fewer than two.

    Where all differences are zero both p-values are 1; where they are all the same and not zero, that of t is 0.
    """
    a, b = np.asarray(own, np.float64), np.asarray(other, np.float64)
    difference = a - b
    if len(difference) < 2:
        return None
    if not difference.any():
        return Paired(0.0, 1.0, 1.0)
    constant = bool(np.ptp(difference) == 0)
    t = 0.0 if constant else float(ttest_rel(a, b).pvalue)
    return Paired(float(difference.mean()), t, float(wilcoxon(difference).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for multiple tests so that the chance of any false rejection is bounded (Holm, 1979).

    The k-th smallest of m, counted from 0, becomes the largest of (m - j) p_(j) over j <= k, at most 1.
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values, np.float64)[order]), 1.0)
    return [float(value) for value in corrected]
