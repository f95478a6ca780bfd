"""Everything worth knowing about the calibration of one set of probabilities, each figure with a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError, checked_seed
from unskew.metrics.calibration import bins_of, counted_columns, debiased_error
from unskew.metrics.checks import Columns, require_count
from unskew.metrics.intervals import Interval, bootstrap_interval

__all__ = ["CalibrationSummary", "calibration_summary"]

Values = NDArray[np.float64]
CELLS_AT_ONCE = 1 << 23  # of replicates times rows


@dataclass(frozen=True)
class CalibrationSummary:
    """Calibration of probabilities: errors over bins, the Brier score, and the mean against the base rate.

    `expected_error` (ECE) and `maximum_error` (MCE) are over bins of equal width, `equal_mass_error` over bins of equal
    weight, `debiased_error` the l2 error over the latter without what chance adds.
    """

    n_rows: int
    expected_error: Interval
    maximum_error: Interval
    equal_mass_error: Interval
    debiased_error: Interval
    brier: Interval
    mean: Interval
    base_rate: Interval

    def __str__(self) -> str:
        return (
            f"ECE {self.expected_error}, MCE {self.maximum_error}, equal-mass ECE {self.equal_mass_error}, "
            f"debiased {self.debiased_error}, Brier {self.brier}, mean {self.mean} against {self.base_rate}"
        )


class _Figures(NamedTuple):
    """The figures of one or, along the first axis, many sets of counts of the rows."""

    expected_error: Values
    maximum_error: Values
    equal_mass_error: Values
    debiased_error: Values
    brier: Values
    mean: Values
    base_rate: Values


def calibration_summary(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    min_count: int = 50,
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
    n_replicates: int = 200,
    seed: int = 0,
) -> CalibrationSummary:
    """All figures of `CalibrationSummary`, with basic bootstrap intervals over rows.

    Intervals of errors stop at 0 and are widened to hold the value itself, which chance has pushed upwards.

    Each replicate counts every row a Poisson(1) number of times (Hanley & MacGibbon, 2006), in the bins of the sample.
    """
    for setting, count in (("n_bins", n_bins), ("min_count", min_count), ("n_replicates", n_replicates)):
        require_count(count, setting)
    columns = counted_columns(y_true, y_prob, sample_weight)
    if len(columns.labels) < 2:
        raise DataError("a calibration summary needs at least two rows of positive weight.")
    order = np.argsort(columns.predictions, kind="stable")
    sums = _Sums(Columns(*(column[order] for column in columns)), n_bins, min_count)
    found = sums.figures(np.ones((1, len(order))))
    generator, at_once = np.random.default_rng([checked_seed(seed), 83]), max(1, CELLS_AT_ONCE // len(order))
    replicates = [
        sums.figures(generator.poisson(1.0, (min(at_once, n_replicates - start), len(order))).astype(np.float64))
        for start in range(0, n_replicates, at_once)
    ]
    intervals = {}
    for name in _Figures._fields:
        drawn = np.concatenate([getattr(part, name) for part in replicates])
        value, low, high = bootstrap_interval(float(getattr(found, name)[0]), drawn[np.isfinite(drawn)], confidence)
        if name.endswith("error"):
            low, high = max(min(low, value), 0.0), max(high, value)
        intervals[name] = Interval(value, low, high)
    return CalibrationSummary(len(order), **intervals)


class _Sums:
    """Sums by bin as matrix products of counts and rows; rows are sorted by score, so a bin is a slice of them."""

    def __init__(self, columns: Columns, n_bins: int, min_count: int) -> None:
        y, s, w = columns
        d = y - s
        self.rows = np.column_stack([w, w * d, w**2, w**2 * d, (w * d) ** 2, np.ones(len(w))])
        self.level = np.column_stack([w, w * d**2, w * s, w * y])
        self.uniform = _slices(bins_of(columns, n_bins, "uniform"))
        self.equal_mass = _slices(bins_of(columns, n_bins, "quantile"))
        counts = np.array([part.stop - part.start for part in self.uniform])
        self.trusted = counts >= min_count if (counts >= min_count).any() else np.ones(len(counts), bool)

    def figures(self, counts: Values) -> _Figures:
        uniform, equal_mass = (
            np.stack([counts[:, part] @ self.rows[part] for part in parts], axis=1)
            for parts in (self.uniform, self.equal_mass)
        )
        total, squares, scores, labels = (counts @ self.level).T
        with np.errstate(invalid="ignore", divide="ignore"):
            return _Figures(
                expected_error=np.abs(uniform[..., 1]).sum(1) / total,
                maximum_error=np.nanmax(np.abs(uniform[:, self.trusted, 1] / uniform[:, self.trusted, 0]), axis=1),
                equal_mass_error=np.abs(equal_mass[..., 1]).sum(1) / total,
                debiased_error=debiased_error(*np.moveaxis(equal_mass, -1, 0)),
                brier=squares / total,
                mean=scores / total,
                base_rate=labels / total,
            )


def _slices(bin_of: NDArray[np.int64]) -> list[slice]:
    starts = np.flatnonzero(np.diff(bin_of, prepend=-1))
    return [slice(start, stop) for start, stop in zip(starts, np.append(starts[1:], len(bin_of)), strict=True)]
