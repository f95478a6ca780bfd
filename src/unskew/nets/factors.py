"""Factor nets: matrix factorisation, the nets the literature calls NCF, and towers that share one pair of tables."""

from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from unskew.errors import ParameterError
from unskew.losses.columns import Array
from unskew.nets.base import (
    Linear,
    Net,
    NetContext,
    NetSpec,
    Part,
    State,
    Table,
    extended_rows,
    pair_products,
    rows_for,
)
from unskew.nets.kernels import dot, dot_learn, tower_dot, tower_learn
from unskew.settings import setting

MOST_FACTORS, MOST_STD = 100_000, 1e9


class TableNet(Net):
    """A net made of named tables and nothing else; `of_sides` names those with a row for each user, and each item."""

    of_sides: tuple[str, str] = ("users", "items")

    def __init__(self, **tables: Table) -> None:
        self.tables = tables

    def value(self, name: str) -> Array:
        return self.tables[name].value

    def step(self, rate: float, l2: float) -> None:
        for table in self.tables.values():
            table.step(rate, l2)

    def state(self) -> dict[str, Array]:
        return {name: table.value.copy() for name, table in self.tables.items()}

    def restore(self, state: State) -> None:
        for name, table in self.tables.items():
            table.value[:] = state[name]

    def sizes(self) -> tuple[int | None, int | None]:
        n_users, n_items = (len(self.value(side)) - 1 for side in self.of_sides)
        return n_users, n_items

    def take_over(self, other: Net) -> None:
        super().take_over(other)
        for name, table in self.tables.items():
            table.inherited |= cast(TableNet, other).tables[name].learned

    def rest(self) -> int:
        return sum(self.tables[side].rest() for side in self.of_sides)

    def user_vectors(self, users: Array) -> Array:
        return self.value(self.of_sides[0])[users]

    def extended_tables(self, counts: Array) -> dict[str, Table]:
        name, table = self.of_sides[0], self.tables[self.of_sides[0]]
        return self.tables | {name: Table(extended_rows(table.value, len(counts)), table.decay)}

    def extended(self, counts: Array, owner: Part | None = None) -> Self:
        return type(self)(**self.extended_tables(counts))

    def know_users(self, rows: Array) -> None:
        self.value(self.of_sides[0])[-1 - len(rows) : -1] = rows


class FactorNet(TableNet):
    """logit = v_u . w_i (+ b_u + b_i + c); with an offset c, the last column of both tables is the bias."""

    def __init__(self, users: Table, items: Table, offset: Table | None = None) -> None:
        super().__init__(users=users, items=items, **({} if offset is None else {"offset": offset}))
        given = users, items, offset or users  # which a kernel without biases never reads
        self._biased = int(offset is not None)
        self._values = [table.value for table in given]
        self._learned = [*(table.gradients for table in given), *(table.marks for table in given)]

    def logits(self, users: Array, items: Array) -> Array:
        out = np.empty(len(users), np.float32)
        dot(users, items, *self._values, self._biased, out)
        return out

    def answers(self, users: Array, items: Array) -> Array:
        rows, width = [self.value(side) for side in self.of_sides], self.value("users").shape[1] - self._biased
        found = pair_products(users, items, *(side[:, :width] for side in rows))
        if self._biased:
            found += rows[0][users, -1] + rows[1][items, -1] + self.value("offset")[0, 0]
        return found

    def learn(self, users: Array, items: Array, slopes: Array) -> None:
        dot_learn(users, items, slopes, *self._values[:2], *self._learned, self._biased)

    def linear(self) -> Linear:
        users, items = self.value("users"), self.value("items")
        if not self._biased:
            return Linear(users, items, np.zeros(len(items), np.float32))
        ones = np.ones((len(items), 1), np.float32)
        return Linear(users, np.hstack([items[:, :-1], ones]), items[:, -1] + self.value("offset")[0, 0])


@dataclass(frozen=True, kw_only=True)
class MF(NetSpec):
    """Matrix factorisation: logit = v_u . w_i (+ b_u + b_i + c).

    Biases start at zero and the offset at the log's own rate; a bias takes only `bias_l2` of the L2 that a factor
    takes, because every rating informs it. Factors start normal with standard deviation `init_std`.
    `MF(biases=False, init_std=1.0)` is the net of the literature, whose logits are saturated from the first step.
    """

    n_factors: int = setting(64, least=1, most=MOST_FACTORS)
    biases: bool = True
    init_std: float = setting(0.2, least=0, most=MOST_STD)
    bias_l2: float = setting(0.2, least=0)

    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> FactorNet:
        users, items = (rows_for(n, self.n_factors, self.init_std, rng) for n in (context.n_users, context.n_items))
        if not self.biases:
            return self.from_state({"users": users, "items": items})
        users, items = (np.pad(rows, ((0, 0), (0, 1))) for rows in (users, items))
        return self.from_state({"users": users, "items": items, "offset": np.full((1, 1), context.base_logit)})

    def from_state(self, state: State, owner: Part | None = None) -> FactorNet:
        decay = [1.0] * self.n_factors + [self.bias_l2] * self.biases
        offset = Table(state["offset"], [0.0]) if self.biases else None
        return FactorNet(Table(state["users"], decay), Table(state["items"], decay), offset)


class ConcatenationNet(TableNet):
    """logit = outer . [relu(inner . ] [v_u ; w_i] [)] + c, by einsum: bits of BLAS depend on the number of threads."""

    def _layers(self, users: Array, items: Array) -> tuple[Array, Array]:
        """Return the vectors x = [v_u ; w_i], and what the last layer reads."""
        x = np.hstack([self.value("users")[users], self.value("items")[items]])
        return x, np.maximum(np.einsum("nc,dc->nd", x, self.value("inner")), 0) if "inner" in self.tables else x

    def logits(self, users: Array, items: Array) -> Array:
        last = self._layers(users, items)[1]
        return np.asarray(np.einsum("nd,d->n", last, self.value("outer")[0]) + self.value("offset")[0, 0])

    def learn(self, users: Array, items: Array, slopes: Array) -> None:
        x, last = self._layers(users, items)
        of_last, found = slopes[:, None] * self.value("outer"), {}
        if "inner" in self.tables:
            of_last = of_last * (last > 0)
            found["inner"] = np.einsum("nd,nc->dc", of_last, x)
            of_last = np.einsum("nd,dc->nc", of_last, self.value("inner"))
        found |= {"outer": np.einsum("n,nd->d", slopes, last)[None], "offset": slopes.sum(keepdims=True)[None]}
        found["users"], found["items"] = np.split(of_last, 2, axis=1)
        for name, gradient in found.items():
            self.tables[name].learn({"users": users, "items": items}.get(name, np.arange(len(gradient))), gradient)


@dataclass(frozen=True, kw_only=True)
class NCF(NetSpec):
    """The literature's "neural" nets on concatenated vectors x = [v_u ; w_i].

    `hidden=False` is one linear layer, logit = a . x + c: additive in user and item, without any interaction
    (the propensity net of the released DCE code). `hidden=True` is linear(2d -> d), ReLU, linear(d -> 1), as in CVIB.
    """

    n_factors: int = setting(16, least=1, most=MOST_FACTORS)
    hidden: bool = True
    init_std: float = setting(0.1, least=0, most=MOST_STD)

    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> ConcatenationNet:
        d = self.n_factors
        users, items = (rows_for(n, d, self.init_std, rng) for n in (context.n_users, context.n_items))
        state = {"users": users, "items": items}
        if self.hidden:
            state["inner"] = rng.standard_normal((d, 2 * d)) * (2 * d) ** -0.5
        width = d if self.hidden else 2 * d
        state["outer"] = rng.standard_normal((1, width)) * width**-0.5
        return self.from_state(state | {"offset": np.full((1, 1), context.base_logit)})

    def from_state(self, state: State, owner: Part | None = None) -> ConcatenationNet:
        d = self.n_factors
        decays = {"users": np.ones(d), "items": np.ones(d), "inner": np.zeros(2 * d), "offset": np.zeros(1)}
        decays["outer"] = np.zeros(d if self.hidden else 2 * d)
        return ConcatenationNet(**{name: Table(value, decays[name]) for name, value in state.items()})


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

    bias_l2: float = setting(0.2, least=0)

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
