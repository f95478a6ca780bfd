"""One estimate with the influence of every unit on it, so that estimates can be subtracted and told from chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.estimation.scores import Values
from unskew.metrics.intervals import Interval, normal_interval


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value and where its error comes from.

    `influence` has one entry a unit (a seen pair or a user): what the chance of having seen it added to the value;
    the sum of squares is the variance. `drawn` has one entry a pair sampled from the catalogue, whose mean is part of
    the value; None if the catalogue was gone through whole.
    """

    value: float
    influence: Values
    effective_sample_size: float
    drawn: Values | None = None

    @property
    def standard_error(self) -> float:
        sampling = 0.0 if self.drawn is None else self.drawn.var(ddof=1) / len(self.drawn)
        return float(np.sqrt(np.square(self.influence).sum() + sampling))

    def interval(self, confidence: float) -> Interval:
        return normal_interval(self.value, self.standard_error, confidence)

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two estimates from the same units: what both share cancels."""
        drawn = None if self.drawn is None or other.drawn is None else self.drawn - other.drawn
        return Estimate(
            self.value - other.value,
            self.influence - other.influence,
            min(self.effective_sample_size, other.effective_sample_size),
            drawn,
        )
