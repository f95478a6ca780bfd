"""Rows for the loop: each knows how many cells of the users x items matrix it stands for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

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

MIN_HOLDOUT_SAMPLE, MAX_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT = 10_000, 500_000, 4
PLASTIC = 1.324717957244746  # the real root of x^3 = x + 1
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


class HeldOut(NamedTuple):
    """Held-out rows of this worker, and how many there are on all."""

    rows: NDArray[np.int64]
    n_everywhere: int


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
        self.log, self.facts, self.group, self.members = split.log, split.facts, split.group, members
        self._copies = members.copies if members else 1
        self.n_pairs = self.facts.n_pairs * self._copies
        self.batch_size, self.pairs_per_row = batch_size * self._copies, pairs_per_row
        self._train = Logged(split.log, split.train_rows, members)
        self._train_weight = self.facts.n_ratings / self.facts.n_train
        self._holdout_generator = np.random.default_rng(generator.integers(2**63))
        self._generator = generator if self.group.alone else generator.spawn(self.group.size)[self.group.rank]
        self._bounds = self._cut()
        whole = HeldOut(split.holdout_rows, self.facts.n_held_out)
        self._parts = self._deal(split) if calibrates else (whole, whole)

    def _cut(self) -> Codes:
        """Where the batches of the training rows begin and end, as many batches on every worker."""
        n = len(self._train)
        if self.group.alone:
            return np.minimum(np.arange(self.n_batches + 1) * self.batch_size, n)
        fewest = -int(self.group.largest(-n))
        if fewest < self.n_batches:
            raise DataError(
                f"One of {self.group.size} workers has {fewest} training ratings for {self.n_batches} batches: "
                "start fewer workers or give a larger batch."
            )
        return np.arange(self.n_batches + 1) * n // self.n_batches

    def _deal(self, split: Split) -> tuple[HeldOut, HeldOut]:
        """The hold-out in two; on every worker the same two, seen from there."""
        n = self.facts.n_held_out
        if n < 2:
            raise DataError(
                f"A method that calibrates needs at least 2 held-out ratings, not {n}; hold out a larger share."
            )
        first = np.zeros(n, np.bool_)
        first[self._holdout_generator.permutation(n)[: n // 2]] = True
        mine = first[split.holdout_places]
        return HeldOut(split.holdout_rows[mine], n // 2), HeldOut(split.holdout_rows[~mine], n - n // 2)

    @cached_property
    def seen_pairs(self) -> SeenPairs:
        return SeenPairs(self.log)

    def _draw(self, count: int, generator: np.random.Generator) -> Pairs:
        """Uniform pairs of this worker's users by index arithmetic."""
        copy, pairs = np.divmod(generator.integers(self._own_pairs, size=count), self.log.n_pairs)
        return self._placed(*np.divmod(pairs, self.log.n_items), copy)

    def _draw_evenly(self, count: int, generator: np.random.Generator) -> Pairs:
        """Pairs that are uniform one by one and together give every user and every item a like share.

        The additive sequence of the plastic number in two dimensions, shifted at random: totals of what depends
        mostly on the user or on the item vary far less than over independent draws. Of several workers all draw the
        same ones, and each keeps those of its users.
        """
        users, items = (
            ((generator.random() + np.arange(count) * PLASTIC**-power) % 1 * size).astype(np.int64)
            for power, size in ((1, self.facts.n_users), (2, self.facts.n_items))
        )
        copy = generator.integers(self._copies, size=count)
        if not self.group.alone:
            mine = self.group.mine(users)
            users, items, copy = self.group.rows(users[mine]), items[mine], copy[mine]
        return self._placed(users, items, copy)

    @property
    def _own_pairs(self) -> int:
        return self.log.n_pairs * self._copies

    def _placed(self, users: Codes, items: Codes, copy: Codes) -> Pairs:
        if self.members:
            users, items = self.members.placed(users, items, copy)
        return Pairs(torch.from_numpy(users), torch.from_numpy(items), seen=self._was_seen)

    def _was_seen(self, users: Tensor, items: Tensor) -> Tensor:
        u, i = users.numpy(), items.numpy()
        if self.members:
            u, i = u % self.log.n_users, i % self.log.n_items
        return torch.from_numpy(self.seen_pairs(u, i).astype(np.float32))

    @property
    def state(self) -> Any:
        """The generator of batches as it is now; given back, it draws the same epoch again."""
        return self._generator.bit_generator.state

    @state.setter
    def state(self, state: Any) -> None:
        self._generator.bit_generator.state = state

    def epoch(self) -> Iterator[Batch]:
        """All training rows once, in a new order; the last batch may be smaller and weighs its rows accordingly.

        A log of more than a million rows is shuffled in stretches of about a million, and their order too: then
        a log that lies on disk is read stretch by stretch and not here and there. One of several workers draws its
        share of each batch from the rows and pairs of its own users, for whose cells these stand.
        """
        at_once = max(ROWS_AT_ONCE // self.batch_size, 1)
        for first in self._generator.permutation(np.arange(0, self.n_batches, at_once)):
            yield from self._stretch(self._bounds[first : first + at_once + 1])

    def _stretch(self, bounds: Codes) -> Iterator[Batch]:
        start, count = bounds[0], int(bounds[-1] - bounds[0])
        order = start + self._generator.permutation(count)
        sampled = self._draw(math.ceil(count * self.pairs_per_row), self._generator)
        total = len(self._train) * self._train_weight
        places = (bounds - start).tolist()
        for first, last in pairwise(places):
            pairs = slice(math.ceil(first * self.pairs_per_row), math.ceil(last * self.pairs_per_row))
            yield Batch(
                observed=Rows(self._train, order[first:last], total / (last - first)),
                sampled=Rows(sampled, pairs, self._own_pairs / max(pairs.stop - pairs.start, 1)),
                n_pairs=self.n_pairs,
            )

    @property
    def n_batches(self) -> int:
        return math.ceil(self.facts.n_train * self._copies / self.batch_size)

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

    def _held_out(self, part: HeldOut) -> Batch:
        observed = Logged(self.log, part.rows, self.members)
        n = part.n_everywhere * self._copies
        count = min(max(MIN_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT * n), MAX_HOLDOUT_SAMPLE)
        sampled = self._draw_evenly(count, self._holdout_generator)
        return Batch(
            observed=Rows(observed, slice(0, len(observed)), self.facts.n_ratings / part.n_everywhere),
            sampled=Rows(sampled, slice(0, len(sampled)), self.n_pairs / count),
            n_pairs=self.n_pairs,
        )

    def forget_columns(self) -> None:
        """Drop cached columns: roles are about to change."""
        for batch in (self.train, self.holdout, self.calibration):
            for rows in (batch.observed, batch.sampled):
                rows.block.columns.clear()
