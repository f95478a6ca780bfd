"""Several nets on one pair of tables: a trunk of user and item vectors, and a small tower for each role."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unskew.errors import ParameterError
from unskew.nets.base import Catalogue, Linear, Net, NetRecipe, check_factors
from unskew.nets.table import Table


@dataclass(frozen=True, kw_only=True)
class Trunk(NetRecipe):
    """User and item vectors that towers share; by itself it scores a pair by v_u . w_i."""

    n_factors: int = 64
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_factors(self.n_factors, self.spread)

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        users = catalogue.user_rows(self.n_factors, self.spread, generator)
        items = catalogue.item_rows(self.n_factors, self.spread, generator)
        decay = torch.ones(self.n_factors)
        return SharedVectors(*catalogue.tables(users, items, decay))


class SharedVectors(Net):
    """The trunk; towers read its vectors, and its own step moves them by what all towers have asked of them."""

    def __init__(self, users: Table, items: Table) -> None:
        super().__init__()
        self.users, self.items = users, items
        self._asked: list[tuple[Tensor, Tensor, Tensor]] = []

    def products(self, users: Tensor, items: Tensor) -> Tensor:
        """v_u * w_i; all towers that learn from the same pairs read them once, until the next step."""
        if not torch.is_grad_enabled():
            return self.users.rows(users) * self.items.rows(items)
        for known_users, known_items, found in self._asked:
            if known_users is users and known_items is items:
                return found
        found = self.users.rows(users) * self.items.rows(items)
        self._asked.append((users, items, found))
        return found

    def step(self, learning_rate: float, l2: float) -> None:
        self._asked.clear()
        super().step(learning_rate, l2)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.products(users, items).sum(1)

    def user_vectors(self, users: Tensor) -> Tensor:
        with torch.no_grad():
            return self.users.rows(users)


@dataclass(frozen=True, kw_only=True)
class Tower(NetRecipe):
    """logit = m . (v_u * w_i) + b_u + b_i + c: the trunk's vectors, weighted and biased in a tower's own way."""

    bias_l2: float = 0.2

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        raise ParameterError("Tower() has no vectors of its own: give its role the trunk it stands on, Role(on=...).")

    def on(self, trunk: Net, catalogue: Catalogue) -> Net:
        if not isinstance(trunk, SharedVectors):
            raise ParameterError(f"A tower stands on a Trunk(), not on {type(trunk).__name__}.")
        return TowerNet(trunk, catalogue, self.bias_l2)


class TowerNet(Net):
    """A tower; its tables are its own, the trunk's belong to the trunk and are saved with it."""

    def __init__(self, trunk: SharedVectors, catalogue: Catalogue, bias_l2: float) -> None:
        super().__init__()
        self._trunk = [trunk]  # in a list, so that the trunk's tables are not taken for the tower's
        decay = torch.tensor([bias_l2])
        self.mix = Table(torch.ones(1, trunk.users.value.shape[1]))
        n_users, n_items = catalogue.n_rows
        starts = torch.zeros(n_users, 1), torch.zeros(n_items, 1)
        self.user_bias, self.item_bias = catalogue.tables(*starts, decay)
        self.offset = Table(torch.full((1, 1), catalogue.base_logit))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        biases = self.user_bias.rows(users)[:, 0] + self.item_bias.rows(items)[:, 0]
        return (self._trunk[0].products(users, items) @ self.mix.every().T)[:, 0] + biases + self.offset.every()[0, 0]

    def user_vectors(self, users: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([self._trunk[0].users.rows(users), self.user_bias.rows(users)], 1)

    def linear(self) -> Linear:
        trunk = self._trunk[0]
        items = trunk.items.whole * self.mix.value
        return Linear(
            torch.cat([trunk.users.whole, self.user_bias.whole], 1),
            torch.cat([items, items.new_ones(len(items), 1)], 1),
            self.item_bias.whole[:, 0] + self.offset.value[0, 0],
        )

    def know_users(self, rows: Tensor) -> None:
        """The vectors go to the trunk: all of its towers will see them."""
        self._trunk[0].users.take_last(rows[:, :-1])
        self.user_bias.take_last(rows[:, -1:])

    def stand_on(self, trunk: SharedVectors) -> None:
        self._trunk = [trunk]
