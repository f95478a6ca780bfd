"""Whether a probability means what it says: among pairs scored 0.3, are three in ten positive?

Labels may be 0/1, soft, or true probabilities; the last take the sampling noise out of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.metrics.checks import Columns, probability_columns, ratio, require_choice, require_count

__all__ = [
    "Norm",
    "ReliabilityBins",
    "Strategy",
    "debiased_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
    "reliability_bins",
]

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """Scores in bins; one entry per bin, ascending, the two means NaN where a bin is empty."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    weight: NDArray[np.float64]  # share of the total weight; adds up to one
    count: NDArray[np.int64]  # rows of positive weight
    mean_label: NDArray[np.float64]
    mean_score: NDArray[np.float64]

    @property
    def gap(self) -> NDArray[np.float64]:
        """|mean label - mean score|, NaN where a bin is empty."""
        return np.abs(self.mean_label - self.mean_score)


def reliability_bins(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> ReliabilityBins:
    """Group rows by score; rows of weight zero stand for no pair and enter no bin.

    uniform: `n_bins` bins of equal width on [0, 1], each holding its lower edge, the last its upper edge too;
    empty bins are kept.
    quantile: at most `n_bins` bins of nearly equal weight. Rows of equal score stay together, in the bin
    where the middle of their joint weight falls, so heavy ties give fewer bins. `lower` and `upper` are the
    least and the greatest score in the bin.
    """
    columns = counted_columns(y_true, y_prob, sample_weight)
    bin_of = bins_of(columns, n_bins, strategy)
    if strategy == "uniform":
        edges = np.linspace(0, 1, n_bins + 1)
        return _summary(columns, bin_of, edges[:-1], edges[1:])
    lower, upper = np.full(bin_of.max() + 1, np.inf), np.full(bin_of.max() + 1, -np.inf)
    np.minimum.at(lower, bin_of, columns.predictions)
    np.maximum.at(upper, bin_of, columns.predictions)
    return _summary(columns, bin_of, lower, upper)


def counted_columns(y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None) -> Columns:
    """The rows that stand for something."""
    columns = probability_columns(y_true, y_prob, sample_weight)
    counted = columns.weights > 0
    return Columns(*(column[counted] for column in columns))


def bins_of(columns: Columns, n_bins: int, strategy: Strategy) -> NDArray[np.int64]:
    """The bin of each row, as `reliability_bins` describes them; bins ascend with the score."""
    require_choice(strategy, "strategy", get_args(Strategy))
    require_count(n_bins, "n_bins")
    if strategy == "uniform":
        return np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], columns.predictions, side="right")
    return _equal_weight_bins(columns.predictions, columns.weights, n_bins)


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    """ECE = sum_m w_m |mean label - mean score| over bins m, w_m the bin's share of the weight.

    norm="l2" gives sqrt(sum_m w_m gap_m^2), norm="max" the largest gap of any non-empty bin, however few its
    rows. (Naeini, Cooper & Hauskrecht, AAAI 2015; for the norms Kumar, Liang & Ma, NeurIPS 2019.) When
    positives are rare nearly all scores share the first uniform bin and ECE shrinks to the distance between
    mean score and base rate: report strategy="quantile" beside it.
    """
    require_choice(norm, "norm", get_args(Norm))
    bins = reliability_bins(y_true, y_prob, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    filled = bins.count > 0
    gap, weight = bins.gap[filled], bins.weight[filled]
    if norm == "max":
        return float(gap.max())
    return float(weight @ gap) if norm == "l1" else float(np.sqrt(weight @ gap**2))


def maximum_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    min_count: int = 50,
    sample_weight: ArrayLike | None = None,
) -> float:
    """MCE = the largest |mean label - mean score| over bins of at least `min_count` rows.

    The maximum is only as trustworthy as the smallest bin it looks at. When no bin has `min_count` rows, all
    non-empty bins are looked at, and the answer equals `expected_calibration_error(norm="max")`.
    """
    require_count(min_count, "min_count")
    bins = reliability_bins(y_true, y_prob, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    trusted = bins.count >= min_count
    return float(bins.gap[trusted if trusted.any() else bins.count > 0].max())


def debiased_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "quantile",
    sample_weight: ArrayLike | None = None,
) -> float:
    """sqrt(max(0, sum_m w_m [gap_m^2 - variance of gap_m])): the l2 error without what chance alone adds to it.

    Even a perfectly calibrated score has gaps in small bins, so ECE never reaches zero; the square of a gap is too
    large by the variance of the bin's mean of label - score, which the rows of the bin tell (Kumar, Liang & Ma,
    NeurIPS 2019). Bins of one row have no variance and are left out. Compare with
    `expected_calibration_error(norm="l2")`.
    """
    columns = counted_columns(y_true, y_prob, sample_weight)
    bin_of = bins_of(columns, n_bins, strategy)
    w, d = columns.weights, columns.labels - columns.predictions
    sums = [np.bincount(bin_of, values) for values in (w, w * d, w**2, w**2 * d, (w * d) ** 2, np.ones(len(d)))]
    return float(debiased_error(*(np.asarray(column, np.float64) for column in sums)))


def debiased_error(
    w: NDArray[np.float64],
    wd: NDArray[np.float64],
    ww: NDArray[np.float64],
    wwd: NDArray[np.float64],
    wwdd: NDArray[np.float64],
    count: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The same from sums by bin (along the last axis) of w, w d, w^2, w^2 d, w^2 d^2 and 1, d = label - score."""
    used = (count > 1) & (w > 0)
    share, n = np.where(used, w, 0.0), np.where(used, count, 2.0)
    total, below = share.sum(-1), np.where(used, w, 1.0)
    gap = np.where(used, wd / below, 0.0)
    variance = np.where(used, (wwdd - 2 * gap * wwd + gap**2 * ww) / below**2 * n / (n - 1), 0.0)
    square = (share * (gap**2 - variance)).sum(-1) / np.where(total > 0, total, 1.0)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def _equal_weight_bins(scores: NDArray[np.float64], weights: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    distinct, level = np.unique(scores, return_inverse=True)
    mass = np.bincount(level, weights, minlength=distinct.size)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    slot = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    filled_slots_only = np.unique(slot, return_inverse=True)[1]
    return filled_slots_only[level].astype(np.int64, copy=False)


def _summary(
    columns: Columns, bin_of: NDArray[np.int64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> ReliabilityBins:
    mass = np.bincount(bin_of, columns.weights, minlength=lower.size)

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.bincount(bin_of, columns.weights * values, minlength=lower.size)
        return ratio(total, mass)

    return ReliabilityBins(
        lower=lower,
        upper=upper,
        weight=mass / mass.sum(),
        count=np.bincount(bin_of, minlength=lower.size),
        mean_label=mean(columns.labels),
        mean_score=mean(columns.predictions),
    )
