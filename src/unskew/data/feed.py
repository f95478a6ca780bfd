"""Rows for the loop: each knows how many cells of the users x items matrix it stands for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.seen import SeenPairs
from unskew.data.split import Split
from unskew.errors import DataError

Codes = NDArray[np.int64]
Index = NDArray[np.int64] | slice

MIN_HOLDOUT_SAMPLE, MAX_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT = 10_000, 500_000, 2
PLASTIC = 1.324717957244746  # the real root of x^3 = x + 1
PAIRS_PER_USER = 4  # drawn together
ROWS_AT_ONCE = 1 << 20  # of a large log: shuffled, drawn beside or spoken about together


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


class Feed:
    """Draws batches of a split's training rows, each beside pairs drawn uniformly from the catalogue.

    A training row stands for |O| / |O_train| seen pairs, because the hold-out was taken out of the same log:
    sums over training rows, over hold-out rows and over sampled pairs then all estimate the same totals.
    With `members`, rows and pairs are those of all members together.

    A plan that calibrates fits its calibrators to held-out rows and must not be judged on the same ones: then the
    hold-out is dealt in two, `holdout` for validation and `calibration` for calibrators; otherwise both are all of it.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        pairs_per_row: float,
        generator: np.random.Generator,
        members: Members | None = None,
        calibrates: bool = False,
    ) -> None:
        self.log, self.members = split.log, members
        self._copies = members.copies if members else 1
        self.n_pairs = split.log.n_pairs * self._copies
        self.batch_size, self.pairs_per_row = batch_size * self._copies, pairs_per_row
        self._generator = generator
        self._train = Logged(split.log, split.train_rows, members)
        self._train_weight = len(split.log) / len(split.train_rows)
        self._holdout_generator = np.random.default_rng(generator.integers(2**63))
        self._parts = self._deal(split.holdout_rows) if calibrates else (split.holdout_rows, split.holdout_rows)

    def _deal(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if len(rows) < 2:
            raise DataError(
                f"A method that calibrates needs at least 2 held-out ratings, not {len(rows)}; hold out a larger share."
            )
        order = self._holdout_generator.permutation(rows)
        return np.sort(order[: len(rows) // 2]), np.sort(order[len(rows) // 2 :])

    @cached_property
    def seen_pairs(self) -> SeenPairs:
        return SeenPairs(self.log)

    def _draw(self, count: int, generator: np.random.Generator) -> Pairs:
        """Uniform pairs, a few of each user in a row: a step costs as much as the rows it touches."""
        users = generator.integers(self.log.n_users, size=math.ceil(count / PAIRS_PER_USER))
        items, copy = generator.integers(self.log.n_items, size=count), generator.integers(self._copies, size=count)
        return self._placed(np.repeat(users, PAIRS_PER_USER)[:count], items, copy)

    def _draw_evenly(self, count: int, generator: np.random.Generator) -> Pairs:
        """Pairs that are uniform one by one and together give every user and every item a like share.

        The additive sequence of the plastic number in two dimensions, shifted at random: totals of what depends
        mostly on the user or on the item vary far less than over independent draws.
        """
        users, items = (
            ((generator.random() + np.arange(count) * PLASTIC**-power) % 1 * size).astype(np.int64)
            for power, size in ((1, self.log.n_users), (2, self.log.n_items))
        )
        return self._placed(users, items, generator.integers(self._copies, size=count))

    def _placed(self, users: Codes, items: Codes, copy: Codes) -> Pairs:
        if self.members:
            users, items = self.members.placed(users, items, copy)
        return Pairs(torch.from_numpy(users), torch.from_numpy(items), seen=self._was_seen)

    def _was_seen(self, users: Tensor, items: Tensor) -> Tensor:
        u, i = users.numpy(), items.numpy()
        if self.members:
            u, i = u % self.log.n_users, i % self.log.n_items
        return torch.from_numpy(self.seen_pairs(u, i).astype(np.float32))

    def epoch(self) -> Iterator[Batch]:
        """All training rows once, in a new order; the last batch may be smaller and weighs its rows accordingly.

        A log of more than a million rows is shuffled in stretches of about a million, and their order too: then
        a log that lies on disk is read stretch by stretch and not here and there.
        """
        n, stretch = len(self._train), max(ROWS_AT_ONCE // self.batch_size, 1) * self.batch_size
        for start in self._generator.permutation(np.arange(0, n, stretch)):
            yield from self._stretch(start, min(start + stretch, n))

    def _stretch(self, start: int, stop: int) -> Iterator[Batch]:
        count, size = stop - start, self.batch_size
        order = start + self._generator.permutation(count)
        sampled = self._draw(math.ceil(count * self.pairs_per_row), self._generator)
        total = len(self._train) * self._train_weight
        for first in range(0, count, size):
            last = min(first + size, count)
            pairs = slice(math.ceil(first * self.pairs_per_row), math.ceil(last * self.pairs_per_row))
            yield Batch(
                observed=Rows(self._train, order[first:last], total / (last - first)),
                sampled=Rows(sampled, pairs, self.n_pairs / max(pairs.stop - pairs.start, 1)),
                n_pairs=self.n_pairs,
            )

    @property
    def n_batches(self) -> int:
        return math.ceil(len(self._train) / self.batch_size)

    @cached_property
    def train(self) -> Batch:
        """All training rows at once, beside the hold-out's sample of pairs."""
        rows = Rows(self._train, slice(0, len(self._train)), self._train_weight)
        return Batch(rows, self.holdout.sampled, self.n_pairs)

    @cached_property
    def holdout(self) -> Batch:
        """The held-out rows that judge, beside one sample of pairs that stays the same."""
        return self._held_out(self._parts[0])

    @cached_property
    def calibration(self) -> Batch:
        """The held-out rows that calibrators are fitted to, beside a sample of pairs of their own."""
        return self.holdout if self._parts[0] is self._parts[1] else self._held_out(self._parts[1])

    def _held_out(self, rows: NDArray[np.int64]) -> Batch:
        observed = Logged(self.log, rows, self.members)
        n = len(observed)
        count = min(max(MIN_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT * n), MAX_HOLDOUT_SAMPLE)
        sampled = self._draw_evenly(count, self._holdout_generator)
        return Batch(
            observed=Rows(observed, slice(0, n), len(self.log) / len(rows)),
            sampled=Rows(sampled, slice(0, count), self.n_pairs / count),
            n_pairs=self.n_pairs,
        )

    def forget_columns(self) -> None:
        """Drop cached columns: roles are about to change."""
        for batch in (self.train, self.holdout, self.calibration):
            for rows in (batch.observed, batch.sampled):
                rows.block.columns.clear()
