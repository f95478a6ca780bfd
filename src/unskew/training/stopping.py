"""Early stopping: remembers the best state and says when to give up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unskew.nets.base import Net


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
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def restore(self, players: dict[str, Any]) -> None:
        for role, kept in self.best.items():
            if isinstance(players[role], Net):
                players[role].restore(kept)
            else:
                players[role] = kept


def _copy(player: Any) -> Any:
    """Nets learn in place and must be copied; roles that fit themselves are replaced whole and need no copy."""
    return player.snapshot() if isinstance(player, Net) else player
