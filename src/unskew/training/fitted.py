"""Roles that fit themselves: what the loop asks of a propensity or a calibrator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.split import Split

if TYPE_CHECKING:
    from unskew.training.options import Training
    from unskew.training.view import View


@dataclass(frozen=True, eq=False)
class Occasion:
    """All a role may look at when it fits itself.

    `view` shows every role as it is now on the held-out rows that calibrators fit, `train` on the training rows;
    `planned` is the share of the planned epochs that is behind us.
    """

    split: Split
    training: Training
    generator: np.random.Generator
    random_ratings: RatingLog | None
    view: View
    train: View
    planned: float


class Fits(Protocol):
    """The recipe of a role that fits itself."""

    def fit_on(self, occasion: Occasion, previous: Any) -> Any:
        """The fitted role; `previous` is what this role was before, or None."""
