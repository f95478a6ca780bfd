"""Whether a probability means what it says: among pairs scored 0.3, are three in ten positive?

Labels may be 0/1, soft, or true probabilities; the last take the sampling noise out of the answer.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError, checked_seed, chosen, whole
from unskew.findings import Interval
from unskew.metrics.checks import Columns, Values, checked_columns, ratio

Bins = Literal["width", "mass"]
Norm = Literal["mean", "max"]
REPLICATES, CELLS_AT_ONCE = 200, 1 << 23  # of the bootstrap; of replicates times rows


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Scores in bins; one entry per bin, ascending, the two means NaN where a bin is empty."""

    weight: Values  # share of the total weight; adds up to one
    count: NDArray[np.int64]  # rows of positive weight
    mean_label: Values
    mean_score: Values

    @property
    def gap(self) -> Values:
        """|mean label - mean score|, NaN where a bin is empty."""
        return np.abs(self.mean_label - self.mean_score)


class Binning(TypedDict, total=False):
    """How rows are grouped by score, and what they weigh: see `reliability_curve`."""

    bins: Bins
    n_bins: int
    sample_weight: ArrayLike | None


def reliability_curve(
    y_true: ArrayLike, y_prob: ArrayLike, *,
    bins: Bins = "width", n_bins: int = 15, sample_weight: ArrayLike | None = None,
) -> ReliabilityCurve:  # fmt: skip
    """Group rows by score; rows of weight zero stand for no pair and enter no bin.

    width: `n_bins` bins of equal width on [0, 1], each holding its lower edge, the last its upper edge too;
    empty bins are kept. mass: at most `n_bins` bins of nearly equal weight; rows of equal score stay together, in the
    bin where the middle of their joint weight falls.
    """
    columns = _counted(y_true, y_prob, sample_weight)
    bin_of = _bins_of(columns, n_bins, bins)
    size = n_bins if bins == "width" else int(bin_of.max()) + 1
    mass = np.bincount(bin_of, columns.weights, size)
    means = [ratio(np.bincount(bin_of, columns.weights * v, size), mass) for v in (columns.labels, columns.predictions)]
    return ReliabilityCurve(mass / mass.sum(), np.bincount(bin_of, minlength=size), *means)


def calibration_error(
    y_true: ArrayLike, y_prob: ArrayLike, *, norm: Norm = "mean", **binning: Unpack[Binning]
) -> float:
    """ECE_M = sum_m w_m |mean label - mean score| over M bins, or MCE_M, the largest gap of any filled bin.

    w_m is the bin's share of the weight (Naeini, Cooper & Hauskrecht, AAAI 2015). When positives are rare nearly all
    scores share the first bin of equal width and ECE shrinks to the distance between mean score and base rate: report
    bins="mass" too. Even a perfectly calibrated score has gaps by chance, so neither reaches zero.
    """
    chosen(norm, "norm", get_args(Norm))
    curve = reliability_curve(y_true, y_prob, **binning)
    filled = curve.count > 0
    return float(curve.gap[filled].max() if norm == "max" else curve.weight[filled] @ curve.gap[filled])


def calibration_interval(
    y_true: ArrayLike, y_prob: ArrayLike, *, norm: Norm = "mean", seed: int = 0, **binning: Unpack[Binning]
) -> Interval:
    """Return `calibration_error` with a 95% basic bootstrap interval over rows, widened to hold the value, not below 0.

    Each replicate counts every row a Poisson(1) number of times (Hanley & MacGibbon, 2006), in the bins of the sample.
    Chance pushes a calibration error upwards, and its replicates once more: the basic interval (2 value - upper
    quantile, 2 value - lower quantile) takes both back, where plain percentiles double them (Davison & Hinkley, 1997).
    """
    columns = _counted(y_true, y_prob, binning.get("sample_weight"))
    if len(columns.labels) < 2:
        raise DataError("an interval of a calibration error needs at least two rows of positive weight.")
    value = calibration_error(y_true, y_prob, norm=norm, **binning)
    order = np.argsort(columns.predictions, kind="stable")
    bin_of = _bins_of(columns, binning.get("n_bins", 15), binning.get("bins", "width"))[order]
    starts = np.flatnonzero(np.diff(bin_of, prepend=-1))
    w, gap = columns.weights[order], (columns.weights * (columns.labels - columns.predictions))[order]
    rng, at_once = np.random.default_rng([checked_seed(seed), 83]), max(1, CELLS_AT_ONCE // len(w))
    drawn = []
    for start in range(0, REPLICATES, at_once):
        counts = rng.poisson(1.0, (min(at_once, REPLICATES - start), len(w)))
        gaps = np.abs(np.add.reduceat(counts * gap, starts, axis=1))
        mass = np.add.reduceat(counts * w, starts, axis=1)
        mean = gaps.sum(1) / np.maximum(mass.sum(1), 1e-300)
        drawn.append(mean if norm == "mean" else ratio(gaps, mass).max(1, initial=0, where=mass > 0))
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    return Interval(value, max(min(2 * value - high, value), 0.0), max(2 * value - low, value), ".4f")


def _counted(y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None) -> Columns:
    """Return the rows that stand for something."""
    columns = checked_columns(y_true, y_prob, sample_weight, unit=True)
    return Columns(*(column[columns.weights > 0] for column in columns))


def _bins_of(columns: Columns, n_bins: int, bins: Bins) -> NDArray[np.int64]:
    """Return the bin of each row; bins ascend with the score."""
    chosen(bins, "bins", get_args(Bins))
    whole(n_bins, "n_bins", 1)
    if bins == "width":
        return np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], columns.predictions, side="right")
    distinct, level = np.unique(columns.predictions, return_inverse=True)
    mass = np.bincount(level, columns.weights, minlength=distinct.size)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    slot = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    filled_slots_only = np.unique(slot, return_inverse=True)[1]
    return filled_slots_only[level].astype(np.int64, copy=False)
