"""How far an estimate may be from the truth by chance: intervals, and how many ratings weights leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from unskew.errors import ParameterError
from unskew.metrics.checks import finite_vector

__all__ = ["Interval", "bootstrap_interval", "effective_sample_size", "normal_interval"]


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"

    def covers(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def normal_interval(value: float, standard_error: float, confidence: float = 0.95) -> Interval:
    """value -+ z standard errors, z the normal quantile of the confidence."""
    reach = float(ndtri((1 + _checked(confidence)) / 2)) * standard_error
    return Interval(value, value - reach, value + reach)


def bootstrap_interval(value: float, replicates: ArrayLike, confidence: float = 0.95) -> Interval:
    """The basic interval (2 value - upper quantile, 2 value - lower quantile) of bootstrap replicates.

    Replicates stand to the value as the value stands to the truth, so a statistic that chance pushes upwards, as it
    does every calibration error, is pushed once more in its replicates; mirroring takes both pushes back, where an
    interval of plain percentiles would double them (Davison & Hinkley, 1997).
    """
    tail = (1 - _checked(confidence)) / 2
    low, high = np.quantile(finite_vector(replicates, "replicates"), [tail, 1 - tail])
    return Interval(value, float(2 * value - high), float(2 * value - low))


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted rows say as much (Kish, 1965); 0 for no rows."""
    square = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / square if square > 0 else 0.0


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, both excluded, not {confidence!r}.")
    return confidence
