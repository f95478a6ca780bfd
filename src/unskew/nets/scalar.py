"""A net that knows one number and says it of every pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unskew.nets.base import Catalogue, Net, NetRecipe
from unskew.nets.table import Table


@dataclass(frozen=True, kw_only=True)
class Scalar(NetRecipe):
    """One number, learned by gradient like any other; `setting` names what it takes over from a role that is no net."""

    start: float = 0.0
    setting: str = "value"

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        return ScalarNet(Table(torch.full((1, 1), float(self.start))), self.setting)


class ScalarNet(Net):
    """The number, as the logit of every pair."""

    def __init__(self, table: Table, setting: str) -> None:
        super().__init__()
        self.table, self.setting = table, setting

    @property
    def value(self) -> float:
        return float(self.table.value[0, 0])

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.table.every()[0, 0].expand(len(users))

    def user_vectors(self, users: Tensor) -> Tensor:
        return torch.zeros(len(users), 1)

    def take_over(self, other: Any) -> None:
        """Begin from another net like this one, or from what a fitted role calls by this net's setting."""
        if isinstance(other, Net):
            super().take_over(other)
        else:
            self.table.value.fill_(float(getattr(other, self.setting)))
