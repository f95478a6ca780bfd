"""How to run a fit, when to stop, and what happened: what belongs to the run and not to the method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from unskew.data.log import RatingLog
from unskew.data.split import HoldoutBy, Split, holdout_split
from unskew.errors import ParameterError
from unskew.gone import refuse_gone
from unskew.nets.base import Part
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
    holdout_by: HoldoutBy = "global"
    progress: bool | None = None

    def __new__(cls, **options: Any) -> Self:
        for name in options:
            refuse_gone("training", name)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def given(cls, options: Any) -> Training:
        """Return the options that were given, or the usual ones for None."""
        if not (options is None or isinstance(options, Training)):
            raise ParameterError(f"training must be a Training(...), not {options!r:.80}.")
        return options or cls()

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


@dataclass(frozen=True)
class Epoch:
    """One epoch of one stage: the mean loss of each update and, if the stage validates, the validation risk."""

    stage: str
    epoch: int
    losses: Mapping[str, float]
    validation: float | None
    seconds: float


@dataclass
class History:
    """All epochs in order, for each stage the epoch whose state was kept and why it stopped, and notes."""

    epochs: list[Epoch] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, stage: str) -> list[Epoch]:
        return [epoch for epoch in self.epochs if epoch.stage == stage]

    def take_in(self, prefix: str, part: Part) -> None:
        """Add the notes of a part that fitted itself and, if it trained, its own history."""
        self.notes.extend(part.notes)
        if isinstance(part.history, History):
            self.epochs.extend(replace(epoch, stage=f"{prefix} {epoch.stage}") for epoch in part.history.epochs)
            self.kept |= {f"{prefix} {stage}": epoch for stage, epoch in part.history.kept.items()}
            self.stopped |= {f"{prefix} {stage}": reason for stage, reason in part.history.stopped.items()}

    def __str__(self) -> str:
        lines = []
        for stage in dict.fromkeys(epoch.stage for epoch in self.epochs):
            epochs = self.of(stage)
            kept = self.kept.get(stage, epochs[-1].epoch)
            risk = next((e.validation for e in epochs if e.epoch == kept), None)
            ending = "" if risk is None else f", validation risk {risk:.4f}"
            ending += f"; {self.stopped[stage]}" if stage in self.stopped else ""
            seconds = sum(epoch.seconds for epoch in epochs)
            count = f"{len(epochs)} epoch{'s' if len(epochs) > 1 else ''}"
            words = " ".join(dict.fromkeys(stage.split()))  # a stage inside another repeats the name of the outer one
            lines.append(f"{words}: {count} in {seconds:.1f} s, kept epoch {kept}{ending}")
        return "\n".join([*lines, *self.notes])
