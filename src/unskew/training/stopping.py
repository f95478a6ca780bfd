"""Early stopping: remembers the best state and says when to give up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unskew.nets.base import Net

FLAT_EPOCHS = 7


class Patience:
    """Keeps the moving roles' state at the lowest validation risk; exhausted `patience` epochs after the last low."""

    def __init__(self, patience: int, moving: Iterable[str]) -> None:
        self.patience, self.moving = patience, tuple(moving)
        self.best_risk = float("inf")
        self.best_epoch = 0
        self.epoch = 0
        self.best: dict[str, Any] = {}  # what was copied of each role

    def record(self, risk: float, players: dict[str, Any]) -> None:
        self.epoch += 1
        if risk < self.best_risk:
            self.best_risk, self.best_epoch = risk, self.epoch
            self.best.clear()  # so that there are never two copies of large nets
            self.best.update((role, _copy(players[role])) for role in self.moving)

    @property
    def kept_epoch(self) -> int:
        """The epoch whose state `restore` gives back, 0 if no risk was ever recorded."""
        return self.best_epoch

    @property
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def restore(self, players: dict[str, Any]) -> None:
        for role, kept in self.best.items():
            if isinstance(players[role], Net):
                players[role].restore(kept)
            else:
                players[role] = kept


class Flatline(Patience):
    """The rule of public code: exhausted at the seventh epoch whose risk fell by less than a share of itself.

    The seven need not follow each other. The last state is kept. `best_risk` is the risk of the last epoch and
    `best_epoch` the number of epochs that fell enough.
    """

    def __init__(self, tolerance: float, moving: Iterable[str]) -> None:
        super().__init__(FLAT_EPOCHS, moving)
        self.tolerance = tolerance

    def record(self, risk: float, players: dict[str, Any]) -> None:
        self.epoch += 1
        self.best_epoch += self.epoch == 1 or self.best_risk - risk >= self.tolerance * abs(self.best_risk)
        self.best_risk = risk

    @property
    def kept_epoch(self) -> int:
        return self.epoch


def _copy(player: Any) -> Any:
    """Nets learn in place and must be copied; roles that fit themselves are replaced whole and need no copy."""
    return player.snapshot() if isinstance(player, Net) else player
