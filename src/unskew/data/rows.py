"""Pairs by their codes: blocks of them, and rows that know how many cells of the matrix they stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.data.log import RatingLog

Codes = NDArray[np.int64]
Index = NDArray[np.int64] | slice

ROWS_AT_ONCE = 1 << 19  # of a large log: shuffled, drawn beside or spoken about together


class Members(Protocol):
    """Several nets that learn side by side as one, with rows of its own for each; a pair teaches `copies` of them."""

    @property
    def n_members(self) -> int: ...

    @property
    def copies(self) -> int: ...

    def placed(self, users: Codes, items: Codes, copy: Codes) -> tuple[Codes, Codes]:
        """The codes, in the one net, of the pairs for each one's `copy`-th member."""


class Block(ABC):
    """Pairs that belong together; a column of what a role says of all of them serves every batch cut from them."""

    def __init__(self) -> None:
        self.columns: dict[str, Tensor] = {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def pairs(self, index: Index) -> tuple[Tensor, Tensor]:
        """The codes of some users and their items."""

    @abstractmethod
    def ratings(self, index: Index) -> Tensor | None: ...

    @abstractmethod
    def seen(self, index: Index) -> Tensor:
        """1 for pairs of the log, 0 for all others."""

    def column(self, name: str, make: Callable[[Rows], Tensor]) -> Tensor:
        if name not in self.columns:
            starts = range(0, len(self), ROWS_AT_ONCE)
            parts = [make(Rows(self, slice(start, start + ROWS_AT_ONCE), 1.0)) for start in starts]
            self.columns[name] = torch.cat(parts) if len(parts) != 1 else parts[0]
        return self.columns[name]


class Logged(Block):
    """Rows of the log, read where they are and never copied as a whole."""

    def __init__(self, log: RatingLog, rows: NDArray[np.integer[Any]], members: Members | None) -> None:
        super().__init__()
        self._log, self._rows, self._members = log, rows, members

    def __len__(self) -> int:
        return len(self._rows) * (self._members.copies if self._members else 1)

    def _places(self, index: Index) -> tuple[Any, Any]:
        """Rows of the log, and which copy of each is meant."""
        if self._members is None:
            return self._rows[index], None
        copy, row = np.divmod(np.arange(len(self))[index] if isinstance(index, slice) else index, len(self._rows))
        return self._rows[row], copy

    def pairs(self, index: Index) -> tuple[Tensor, Tensor]:
        rows, copy = self._places(index)
        users, items = self._log.users[rows].astype(np.int64), self._log.items[rows].astype(np.int64)
        if self._members:
            users, items = self._members.placed(users, items, copy)
        return torch.from_numpy(users), torch.from_numpy(items)

    def ratings(self, index: Index) -> Tensor:
        return torch.from_numpy(self._log.ratings[self._places(index)[0]])

    def seen(self, index: Index) -> Tensor:
        return torch.ones(len(self._places(index)[0]))


class Pairs(Block):
    """Pairs held by themselves, with or without ratings; `seen` is looked up when it is first asked for."""

    def __init__(
        self,
        users: Tensor,
        items: Tensor,
        ratings: Tensor | None = None,
        seen: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self._users, self._items, self._ratings, self._look_up = users, items, ratings, seen

    def __len__(self) -> int:
        return len(self._users)

    def pairs(self, index: Index) -> tuple[Tensor, Tensor]:
        return self._users[index], self._items[index]

    def ratings(self, index: Index) -> Tensor | None:
        return None if self._ratings is None else self._ratings[index]

    @cached_property
    def _seen(self) -> Tensor:
        return torch.ones(len(self)) if self._look_up is None else self._look_up(self._users, self._items)

    def seen(self, index: Index) -> Tensor:
        return self._seen[index]


class Shuffled(Pairs):
    """Rows of another block in a new order, copied once: every batch is then a slice of them."""

    def __init__(self, block: Block, order: Codes) -> None:
        super().__init__(*block.pairs(order), block.ratings(order))
        self._block, self._order = block, torch.from_numpy(order)

    def column(self, name: str, make: Callable[[Rows], Tensor]) -> Tensor:
        if name not in self.columns:
            self.columns[name] = self._block.column(name, make)[self._order]
        return self.columns[name]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some pairs of a block; `weight` is the number of cells each stands for."""

    block: Block
    index: Index
    weight: float

    @cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        return self.block.pairs(self.index)

    @property
    def users(self) -> Tensor:
        return self._pairs[0]

    @property
    def items(self) -> Tensor:
        return self._pairs[1]

    @cached_property
    def known_ratings(self) -> Tensor | None:
        return self.block.ratings(self.index)

    @property
    def ratings(self) -> Tensor:
        if self.known_ratings is None:
            raise LookupError("pairs drawn from the whole catalogue have no ratings")
        return self.known_ratings

    @cached_property
    def seen(self) -> Tensor:
        return self.block.seen(self.index)

    def column(self, name: str, make: Callable[[Rows], Tensor]) -> Tensor:
        index = self.index if isinstance(self.index, slice) else torch.from_numpy(self.index)
        return self.block.column(name, make)[index]


@dataclass(frozen=True, eq=False)
class Batch:
    """`observed` rows stand for all seen pairs, `sampled` rows for all pairs, seen or not."""

    observed: Rows
    sampled: Rows
    n_pairs: float
