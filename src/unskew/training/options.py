"""How to run a fit and when to stop: what belongs to the run and not to the method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

from unskew.data.log import RatingLog
from unskew.data.split import HoldoutBy, Split, holdout_split
from unskew.gone import refuse_gone
from unskew.settings import check_settings, setting

SMALLEST_BATCH, LARGEST_BATCH = 64, 16_384


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of the loop.

    `batch_size=None` grows with the square root of the log: the power of two nearest to 4 sqrt(n), between 64 and
    16,384. Training stops when the validation risk has not fallen for `patience` epochs, and the best state is
    restored. `holdout` is the share of the log kept for validation and calibration, drawn over the whole log or, with
    `holdout_by="user"`, from each user; with "last" it is the last ratings of each user in the order of the log.
    `progress=None` shows a bar only on a terminal.
    """

    max_epochs: int = setting(200, least=1)
    patience: int = setting(6, least=1)
    batch_size: int | None = setting(None, least=1, most=2**31 - 1)
    holdout: float = setting(0.1, above=0, below=1)
    holdout_by: HoldoutBy = setting("global", choices=get_args(HoldoutBy))
    progress: bool | None = None

    def __new__(cls, **options: Any) -> Self:
        for name in options:
            refuse_gone("training", name)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def lasting(self) -> Training:
        """The same options but for those that change nothing of what is learned."""
        return replace(self, progress=None)

    def split(self, log: RatingLog, seed: int) -> Split:
        """Return which rows of the log are trained on and which are held out."""
        return holdout_split(log, self.holdout, by=self.holdout_by, seed=seed)

    def batch_size_for(self, n_rows: int) -> int:
        if self.batch_size is not None:
            return self.batch_size
        nearest = 1 << round(math.log2(4 * math.sqrt(max(n_rows, 1))))
        return min(max(nearest, SMALLEST_BATCH), LARGEST_BATCH)


class Patience:
    """Tells after every epoch whether its state is the best so far, and when to give up."""

    judged_on: str = "holdout"  # or "train"

    def __init__(self, patience: int) -> None:
        self.patience, self.best_risk, self.best_epoch, self.epoch = patience, math.inf, 0, 0

    def record(self, risk: float) -> bool:
        """Return whether the state of this epoch is to be kept."""
        self.epoch += 1
        if risk < self.best_risk:
            self.best_risk, self.best_epoch = risk, self.epoch
        return self.best_epoch == self.epoch

    @property
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def reason(self, epoch: int, most: int) -> str:
        """Return why the stage ended, in words."""
        if self.exhausted:
            return f"stopped: no better in {self.patience} epochs"
        return f"stopped after all {most} epochs" if epoch == most else ""
