"""What a net is: logits for pairs, a vector for each user, and rows that learn."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unskew.errors import ParameterError
from unskew.group import ALONE, Group
from unskew.nets.table import Table

Engine = Literal["compiled", "torch"]
ROWS_AT_ONCE = 1 << 20
MOST_FACTORS, WIDEST = 100_000, 1e9


@dataclass(frozen=True)
class Catalogue:
    """What a net has to know: how many users and items, the rate it starts from, and what computes it.

    The engines "compiled" (kernels for the CPU) and "torch" (plain PyTorch) give the same numbers to float tolerance.
    One of several workers holds some of the `n_users`: those of its `group`. With `copies`, users and items come so
    many times over, one after the other.
    """

    n_users: int
    n_items: int
    base_rate: float = 0.5
    engine: Engine = "compiled"
    group: Group = ALONE
    copies: int = 1

    @property
    def base_logit(self) -> float:
        rate = min(max(self.base_rate, 1e-6), 1 - 1e-6)
        return math.log(rate / (1 - rate))

    @property
    def n_rows(self) -> tuple[int, int]:
        """How many rows of users are here, and of items."""
        own = len(range(self.group.rank, self.n_users, self.group.size))
        return own * self.copies, self.n_items * self.copies

    def user_rows(self, columns: int, spread: float, generator: torch.Generator) -> Tensor:
        """Normal starting values of the users here: those they have wherever they are."""
        everybody = self.n_users * self.copies
        if self.group.alone:
            return normal(everybody, columns, spread, generator)
        return normal(everybody, columns, spread, generator, self._are_here)

    def _are_here(self, rows: Tensor) -> Tensor:
        return rows % self.n_users % self.group.size == self.group.rank

    def item_rows(self, columns: int, spread: float, generator: torch.Generator) -> Tensor:
        return normal(self.n_items * self.copies, columns, spread, generator)

    def tables(self, users: Tensor, items: Tensor, decay: Tensor) -> tuple[Table, Table]:
        """Tables of users and items that start with these rows."""
        return Table(users, decay, by_user=True), Table(items, decay.clone())


class Linear(NamedTuple):
    """logit = users[u] . items[i] + offsets[i]: a net that is linear in what it knows of a user, a row each."""

    users: Tensor
    items: Tensor
    offsets: Tensor


class Net(nn.Module, ABC):
    """Scores pairs by logits; learns through the `Table`s it is made of and nothing else."""

    engine: ClassVar[Engine] = "torch"  # what computes it

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of the pairs (users[n], items[n])."""

    @abstractmethod
    def user_vectors(self, users: Tensor) -> Tensor:
        """One row a user: what an assignment network reads to tell users apart."""

    def step(self, learning_rate: float, l2: float) -> None:
        for table in self.tables():
            table.step(learning_rate, l2)

    def tables(self) -> list[Table]:
        return [module for module in self.modules() if isinstance(module, Table)]

    def join(self, group: Group) -> None:
        """Learn together with the others of the group."""
        for table in self.tables():
            table.group = group

    def gather(self, group: Group) -> None:
        """Let the first worker's net know the users of all."""
        for table in self.tables():
            table.gather(group)

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of all that has been learned, for `restore`."""
        return {name: value.clone() for name, value in self.state_dict().items()}

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        self.load_state_dict(snapshot)

    def take_over(self, other: Net) -> None:
        """Know what the other net knows; the two must be of one architecture."""
        self.restore(other.snapshot())
        for mine, theirs in zip(self.tables(), other.tables(), strict=True):
            mine.inherited = mine.inherited | theirs.learned

    def settle(self) -> int:
        """Let users and items without any reading answer as the average one; says how many there were."""
        return sum(table.settle() for table in self.tables() if table.decay is not None)

    def rest(self) -> None:
        """Let go of what only learning needs."""
        for table in self.tables():
            table.rest()

    def linear(self) -> Linear | None:
        """The net as inner products of users and items; None if it has no such form."""
        return None

    def joined_by(self, counts: NDArray[np.int64]) -> Self:
        """The same net beside new users, whom it takes for the average one whatever their number of ratings."""
        net = copy(self)
        net._modules = {
            name: part.joined_by(len(counts)) if isinstance(part, Table) and part.by_user else part
            for name, part in self._modules.items()
        }
        return net

    def know_users(self, rows: Tensor) -> None:
        """Take these as the last users' rows of the `linear` form."""
        raise NotImplementedError(f"{type(self).__name__} has no linear form.")

    def is_finite(self) -> bool:
        return all(_is_finite(value) for value in self.state_dict().values())


def _is_finite(value: Tensor) -> bool:
    """A finite sum has finite terms, and needs no second array; a sum that is not may have overflowed."""
    return bool(torch.isfinite(value.sum())) or bool(torch.isfinite(value).all())


def nets_of(player: Any) -> list[Net]:
    """The net that plays a role, or the nets whose average does."""
    nets = [player] if isinstance(player, Net) else getattr(player, "nets", None)
    if not nets:
        raise ParameterError(f"{type(player).__name__} is not made of nets.")
    return list(nets)


class NetRecipe(ABC):
    """The architecture of a net, before it knows the data."""

    @abstractmethod
    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        """A net with seeded starting values for this catalogue."""

    def on(self, trunk: Net, catalogue: Catalogue) -> Net:
        """A net that stands on the tables of another; only towers can."""
        raise ParameterError(
            f"{type(self).__name__} has tables of its own and cannot stand on another net's; use Tower()."
        )


def normal(
    rows: int,
    columns: int,
    spread: float,
    generator: torch.Generator,
    keep: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Random rows, or those of them that `keep` tells by their numbers; no more than a million are held in vain."""
    parts = []
    for start in range(0, max(rows, 1), ROWS_AT_ONCE):
        drawn = torch.randn(min(rows - start, ROWS_AT_ONCE), columns, generator=generator) * spread
        parts.append(drawn if keep is None else drawn[keep(torch.arange(start, start + len(drawn)))])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def check_factors(n_factors: int, spread: float, least: int = 1) -> None:
    if not least <= n_factors <= MOST_FACTORS:
        raise ParameterError(f"n_factors must be at least {least} and at most {MOST_FACTORS:,}, not {n_factors}.")
    if not 0 <= spread <= WIDEST:
        raise ParameterError(f"spread must be a number of at least 0 and at most {WIDEST:g}, not {spread}.")
