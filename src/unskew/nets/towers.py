"""Several nets on one pair of tables: vectors of users and items, by `MF(biases=False)`, and a tower for each role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unskew.errors import ParameterError
from unskew.losses.columns import Array
from unskew.nets.base import Linear, NetContext, NetSpec, Part, State, Table
from unskew.nets.factors import FactorNet, TableNet
from unskew.nets.kernels import tower_dot, tower_learn


class TowerNet(TableNet):
    """logit = m . (v_u * w_i) + b_u + b_i + c, with the vectors of the net that owns them.

    What a tower asks of the vectors waits in their tables for the owner's step.
    """

    of_sides = ("user_bias", "item_bias")

    def __init__(self, owner: FactorNet, **tables: Table) -> None:
        super().__init__(**tables)
        self.owner = owner
        used = owner.tables["users"], owner.tables["items"], *tables.values()
        self._values, self._learned = [t.value for t in used], [*(t.gradients for t in used), *(t.marks for t in used)]

    def logits(self, users: Array, items: Array) -> Array:
        out = np.empty(len(users), np.float32)
        tower_dot(users, items, *self._values, out)
        return out

    def learn(self, users: Array, items: Array, slopes: Array) -> None:
        tower_learn(users, items, slopes, *self._values[:3], *self._learned)

    def user_vectors(self, users: Array) -> Array:
        return np.hstack([self.owner.user_vectors(users), self.value("user_bias")[users]])

    def linear(self) -> Linear:
        items = self.owner.value("items") * self.value("mix")
        return Linear(
            np.hstack([self.owner.value("users"), self.value("user_bias")]),
            np.hstack([items, np.ones((len(items), 1), np.float32)]),
            self.value("item_bias")[:, 0] + self.value("offset")[0, 0],
        )

    def know_users(self, rows: Array) -> None:
        """Take the rows; the vectors go to their owner, so all of its towers see them."""
        self.owner.know_users(rows[:, :-1])
        super().know_users(rows[:, -1:])

    def extended(self, counts: Array, owner: Part | None = None) -> Self:
        return type(self)(_shared(owner), **self.extended_tables(counts))


@dataclass(frozen=True, kw_only=True)
class Tower(NetSpec):
    """logit = m . (v_u * w_i) + b_u + b_i + c: shared vectors, weighted and biased in a tower's own way."""

    bias_l2: float = 0.2

    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> TowerNet:
        width = _shared(owner).value("users").shape[1]
        sizes = {"user_bias": context.n_users, "item_bias": context.n_items}
        biases = {side: np.zeros((n + 1, 1), np.float32) for side, n in sizes.items()}
        state: State = {"mix": np.ones((1, width)), **biases, "offset": np.full((1, 1), context.base_logit)}
        return self.from_state(state, owner)

    def from_state(self, state: State, owner: Part | None = None) -> TowerNet:
        decays = {"user_bias": self.bias_l2, "item_bias": self.bias_l2}
        names = ("mix", "user_bias", "item_bias", "offset")
        tables = {name: Table(state[name], np.full(state[name].shape[1], decays.get(name, 0.0))) for name in names}
        return TowerNet(_shared(owner), **tables)


def _shared(owner: Part | None) -> FactorNet:
    if not isinstance(owner, FactorNet) or "offset" in owner.tables:
        raise ParameterError("Towers need the vectors of an MF(biases=False), by net= or Role(shares_with=...).")
    return owner
