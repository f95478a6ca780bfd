"""Factor nets: matrix factorisation with and without biases, and the two nets the literature calls NCF."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unskew.nets.base import Catalogue, Linear, Net, NetRecipe, check_factors, normal
from unskew.nets.table import Table


@dataclass(frozen=True, kw_only=True)
class MF(NetRecipe):
    """Matrix factorisation: logit = v_u . w_i (+ b_u + b_i + c).

    Biases start at zero and the offset at the log's own rate; a bias takes only `bias_l2` of the L2 that a factor
    takes, because every rating informs it. Factors start `spread` wide: L2 then prunes interactions from a rich start
    instead of having to let them grow, which validates better. `MF(biases=False, spread=1.0)` is the net of the
    literature: no biases, and starting logits of spread sqrt(n_factors), saturated from the first step.

    """

    n_factors: int = 64
    biases: bool = True
    spread: float = 0.5
    bias_l2: float = 0.2

    def __post_init__(self) -> None:
        check_factors(self.n_factors, self.spread, least=0 if self.biases else 1)

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        users = self._start(catalogue.user_rows(self.n_factors, self.spread, generator))
        items = self._start(catalogue.item_rows(self.n_factors, self.spread, generator))
        tables = catalogue.tables(users, items, torch.tensor([1.0] * self.n_factors + [self.bias_l2] * self.biases))
        offset = Table(torch.full((1, 1), catalogue.base_logit)) if self.biases else None
        return _compiled(*tables, offset) if catalogue.engine == "compiled" else FactorNet(*tables, offset)

    def _start(self, factors: Tensor) -> Tensor:
        return torch.cat([factors, torch.zeros(len(factors), 1)], 1) if self.biases else factors


def _compiled(users: Table, items: Table, offset: Table | None) -> Net:
    """A net on kernels; numba takes a second to import."""
    from unskew.nets.compiled import CompiledFactorNet

    return CompiledFactorNet(users, items, offset)


class FactorNet(Net):
    """logit = v_u . w_i (+ b_u + b_i + c); with an offset c, the last column of both tables is the bias."""

    def __init__(self, users: Table, items: Table, offset: Table | None) -> None:
        super().__init__()
        self.users, self.items, self.offset = users, items, offset

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        user, item = self.users.rows(users), self.items.rows(items)
        if self.offset is None:
            return (user * item).sum(1)
        return (user[:, :-1] * item[:, :-1]).sum(1) + user[:, -1] + item[:, -1] + self.offset.every()[0, 0]

    def user_vectors(self, users: Tensor) -> Tensor:
        with torch.no_grad():
            return self.users.rows(users)

    def linear(self) -> Linear:
        users, items = self.users.whole, self.items.whole
        if self.offset is None:
            return Linear(users, items, items.new_zeros(len(items)))
        ones = items.new_ones(len(items), 1)
        return Linear(users, torch.cat([items[:, :-1], ones], 1), items[:, -1] + self.offset.value[0, 0])

    def know_users(self, rows: Tensor) -> None:
        self.users.take_last(rows)


@dataclass(frozen=True, kw_only=True)
class NCF(NetRecipe):
    """The literature's "neural" nets on concatenated vectors x = [v_u ; w_i].

    `hidden=False` is one linear layer, logit = a . x + c: additive in user and item, without any interaction
    (the propensity net of the released DCE code). `hidden=True` is linear(2d -> d), ReLU, linear(d -> 1), as in CVIB.
    """

    n_factors: int = 16
    hidden: bool = True
    spread: float = 0.1

    def __post_init__(self) -> None:
        check_factors(self.n_factors, self.spread)

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        d = self.n_factors
        users = Table(catalogue.user_rows(d, self.spread, generator), torch.ones(d), by_user=True)
        items = Table(catalogue.item_rows(d, self.spread, generator), torch.ones(d))
        inner = Table(normal(d, 2 * d, (2 * d) ** -0.5, generator)) if self.hidden else None
        width = d if self.hidden else 2 * d
        outer = Table(normal(1, width, width**-0.5, generator))
        return ConcatenationNet(users, items, inner, outer, catalogue.base_logit)


class ConcatenationNet(Net):
    """logit = outer . [relu(inner . ] [v_u ; w_i] [)] + c."""

    def __init__(self, users: Table, items: Table, inner: Table | None, outer: Table, base_logit: float) -> None:
        super().__init__()
        self.users, self.items, self.inner, self.outer = users, items, inner, outer
        self.offset = Table(torch.full((1, 1), base_logit))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        x = torch.cat([self.users.rows(users), self.items.rows(items)], 1)
        if self.inner is not None:
            x = torch.relu(x @ self.inner.every().T)
        return (x @ self.outer.every().T)[:, 0] + self.offset.every()[0, 0]

    def user_vectors(self, users: Tensor) -> Tensor:
        with torch.no_grad():
            return self.users.rows(users)

    def linear(self) -> Linear | None:
        """Without a hidden layer the net is additive, and all items see the same of a user."""
        if self.inner is not None:
            return None
        of_user, of_item = self.outer.value.chunk(2, dim=1)
        offsets = (self.items.value @ of_item.T)[:, 0] + self.offset.value[0, 0]
        return Linear(self.users.value, of_user.expand(len(offsets), -1), offsets)

    def know_users(self, rows: Tensor) -> None:
        self.users.value[-len(rows) :] = rows
