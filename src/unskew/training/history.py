"""What happened in training, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from unskew.nets.base import Part


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

    def risk(self, stage: str) -> float:
        """The validation risk of the state that was kept, infinite for a stage that did not validate."""
        kept = self.kept.get(stage)
        found = (e.validation for e in self.of(stage) if e.epoch == kept and e.validation is not None)
        return next(found, float("inf"))

    def take_in(self, prefix: str, part: Part) -> None:
        """Add the notes of a part that fitted itself and, if it trained, its own history."""
        self.notes.extend(part.notes)
        if isinstance(part.history, History):
            inner = part.history
            self.epochs.extend(replace(epoch, stage=f"{prefix} {epoch.stage}") for epoch in inner.epochs)
            self.kept.update({f"{prefix} {stage}": epoch for stage, epoch in inner.kept.items()})
            self.stopped.update({f"{prefix} {stage}": reason for stage, reason in inner.stopped.items()})

    def __str__(self) -> str:
        lines = []
        for stage in dict.fromkeys(epoch.stage for epoch in self.epochs):
            epochs = self.of(stage)
            kept = self.kept.get(stage, epochs[-1].epoch)
            risk = next((e.validation for e in epochs if e.epoch == kept), None)
            ending = "" if risk is None else f", validation risk {risk:.4f}"
            ending += f"; {self.stopped[stage]}" if stage in self.stopped else ""
            seconds = sum(epoch.seconds for epoch in epochs)
            lines.append(f"{words_of(stage)}: {len(epochs)} epochs in {seconds:.1f} s, kept epoch {kept}{ending}")
        return "\n".join([*lines, *self.notes])


def words_of(stage: str) -> str:
    """A stage in words: one inside another repeats the name of the outer one."""
    return " ".join(dict.fromkeys(stage.split()))
