"""Batches for the loop, drawn from a split log and from the whole catalogue."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.data.company import Company
from unskew.data.rows import ROWS_AT_ONCE, Batch, Codes, Logged, Members, Pairs, Rows, Shuffled
from unskew.data.seen import SeenPairs
from unskew.data.split import Split
from unskew.errors import DataError

MIN_HOLDOUT_SAMPLE, MAX_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT = 10_000, 500_000, 2
PLASTIC = 1.324717957244746  # the real root of x^3 = x + 1
PAIRS_PER_USER = 4  # drawn together
MOST_SORTED = 1 << 28  # ratings: of a larger log, reading rows here and there would read the disk again and again


class HeldOut(NamedTuple):
    """Held-out rows of this worker, and how many there are on all."""

    rows: NDArray[np.int64]
    n_everywhere: int


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows in a new order beside pairs drawn from the catalogue, both cut into batches.

    The rows of a batch together stand for `cells` seen pairs, its pairs for `pairs` of all `n_pairs`.
    """

    rows: Shuffled
    sampled: Pairs
    cuts: Codes
    pair_cuts: Codes
    cells: float
    pairs: int
    n_pairs: float

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @property
    def whole(self) -> Batch:
        """All batches as one."""
        return self._between(0, len(self.rows), 0, len(self.sampled))

    def batches(self) -> Iterator[Batch]:
        for rows, pairs in zip(pairwise(self.cuts.tolist()), pairwise(self.pair_cuts.tolist()), strict=True):
            yield self._between(*rows, *pairs)

    def _between(self, first: int, last: int, first_pair: int, last_pair: int) -> Batch:
        return Batch(
            observed=Rows(self.rows, slice(first, last), self.cells / (last - first)),
            sampled=Rows(self.sampled, slice(first_pair, last_pair), self.pairs / max(last_pair - first_pair, 1)),
            n_pairs=self.n_pairs,
        )


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
        self._holdout_generator = np.random.default_rng(generator.integers(2**63))
        self._company = self._keeps_company(split)
        rows = self._company.sorted(split.log, split.train_rows) if self._company else split.train_rows
        self._train = Logged(split.log, rows, members)
        self._train_weight = self.facts.n_ratings / self.facts.n_train
        self._generator = generator if self.group.alone else generator.spawn(self.group.size)[self.group.rank]
        self._bounds = self._cut()
        whole = HeldOut(split.holdout_rows, self.facts.n_held_out)
        self._parts = self._deal(split) if calibrates else (whole, whole)

    def _keeps_company(self, split: Split) -> Company | None:
        """Who comes with whom, where an epoch has several stretches and reading rows here and there is no burden."""
        several = len(split.train_rows) * self._copies > ROWS_AT_ONCE
        if not several or len(self.log) > MOST_SORTED or not self.log.n_users:
            return None
        return Company(self.log.n_users, self._holdout_generator.spawn(1)[0])

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
        mine = first
        return HeldOut(split.holdout_rows[mine], n // 2), HeldOut(split.holdout_rows[~mine], n - n // 2)

    @cached_property
    def seen_pairs(self) -> SeenPairs:
        return SeenPairs(self.log)

    def _draw(self, start: int, stop: int, generator: np.random.Generator) -> Pairs:
        """Uniform pairs of this worker's users, or of those who come with the rows from `start` to `stop`.

        A few of each user in a row: a step costs as much as the rows it touches.
        """
        count, n_rows = math.ceil((stop - start) * self.pairs_per_row), len(self._train) / self._copies
        n_users = math.ceil(count / PAIRS_PER_USER)
        if self._company is None:
            users = generator.integers(self.log.n_users, size=n_users)
        else:
            users = self._company.some(start / n_rows, stop / n_rows, n_users, generator)
        items, copy = generator.integers(self.log.n_items, size=count), generator.integers(self._copies, size=count)
        return self._placed(np.repeat(users, PAIRS_PER_USER)[:count], items, copy)

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
        """All training rows once, in a new order; the last batch may be smaller and weighs its rows accordingly."""
        return (batch for stretch in self.stretches() for batch in stretch.batches())

    def stretches(self) -> Iterator[Stretch]:
        """The same rows in stretches of batches.

        A log of more than half a million rows is shuffled in stretches of about that many, and their order too. Rows
        and pairs of a stretch are those of users who come together, whose rows in the nets' tables then stay in the
        processor's cache; only a log that may not fit into memory is taken as it lies on disk. One of several workers
        draws its share of each batch from the rows and pairs of its own users, for whose cells these stand.
        """
        at_once = max(ROWS_AT_ONCE // self.batch_size, 1)
        for first in self._generator.permutation(np.arange(0, self.n_batches, at_once)):
            bounds = self._bounds[first : first + at_once + 1]
            start, count = bounds[0], int(bounds[-1] - bounds[0])
            rows = Shuffled(self._train, start + self._generator.permutation(count))
            pairs = self._draw(start, bounds[-1], self._generator)
            cuts = bounds - start
            pair_cuts = np.ceil(cuts * self.pairs_per_row).astype(np.int64)
            cells = len(self._train) * self._train_weight
            yield Stretch(rows, pairs, cuts, pair_cuts, cells, self._own_pairs, self.n_pairs)

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
