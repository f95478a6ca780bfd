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
            words = " ".join(dict.fromkeys(stage.split()))  # a stage inside another repeats the name of the outer one
            lines.append(f"{words}: {len(epochs)} epochs in {seconds:.1f} s, kept epoch {kept}{ending}")
        return "\n".join([*lines, *self.notes])
