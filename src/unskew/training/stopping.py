"""When a stage ends: at the lowest validation risk, `patience` epochs later."""

from __future__ import annotations

import math


class Patience:
    """Tells after every epoch whether its state is the best so far, and when to give up."""

    judged_on: str = "holdout"  # or "train"

    def __init__(self, patience: int) -> None:
        self.patience, self.best_risk, self.best_epoch, self.epoch = patience, math.inf, 0, 0

    def record(self, risk: float) -> bool:
        """Whether the state of this epoch is to be kept."""
        self.epoch += 1
        if risk < self.best_risk:
            self.best_risk, self.best_epoch = risk, self.epoch
        return self.best_epoch == self.epoch

    @property
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def reason(self, epoch: int, most: int) -> str:
        """Why the stage ended, in words."""
        if self.exhausted:
            return f"stopped: no better in {self.patience} epochs"
        return f"stopped after all {most} epochs" if epoch == most else ""
