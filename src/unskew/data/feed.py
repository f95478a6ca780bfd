"""Rows for the loop: each knows how many cells of the users x items matrix it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.data.seen import SeenPairs
from unskew.data.split import Split
from unskew.errors import DataError

Codes = NDArray[np.int64]
MIN_HOLDOUT_SAMPLE, MAX_HOLDOUT_SAMPLE = 20_000, 2_000_000


@dataclass(frozen=True, eq=False)
class Block:
    """Pairs drawn together; a column computed for all of them at once serves every batch cut from them."""

    users: Tensor
    items: Tensor
    ratings: Tensor | None
    seen_pairs: SeenPairs | None = None
    columns: dict[str, Tensor] = field(default_factory=dict)

    @property
    def known_ratings(self) -> Tensor | None:
        return self.ratings

    def column(self, name: str, make: Callable[[Block], Tensor]) -> Tensor:
        if name not in self.columns:
            self.columns[name] = make(self)
        return self.columns[name]

    @property
    def seen(self) -> Tensor:
        """1 for pairs of the log, 0 for all others."""
        return self.column("seen", _look_up)


def _look_up(block: Block) -> Tensor:
    if block.seen_pairs is None:
        return torch.ones(len(block.users))
    seen = block.seen_pairs(block.users.numpy(), block.items.numpy())
    return torch.from_numpy(seen.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Rows:
    """Some pairs of a block; `weight` is the number of cells each stands for."""

    block: Block
    index: Tensor | slice
    weight: float

    @cached_property
    def users(self) -> Tensor:
        return self.block.users[self.index]

    @cached_property
    def items(self) -> Tensor:
        return self.block.items[self.index]

    @property
    def known_ratings(self) -> Tensor | None:
        return None if self.block.ratings is None else self.ratings

    @cached_property
    def ratings(self) -> Tensor:
        if self.block.ratings is None:
            raise LookupError("pairs drawn from the whole catalogue have no ratings")
        return self.block.ratings[self.index]

    @property
    def seen(self) -> Tensor:
        return self.block.seen[self.index]

    def column(self, name: str, make: Callable[[Block], Tensor]) -> Tensor:
        return self.block.column(name, make)[self.index]


@dataclass(frozen=True, eq=False)
class Batch:
    """`observed` rows stand for all seen pairs, `sampled` rows for all pairs, seen or not."""

    observed: Rows
    sampled: Rows
    n_pairs: float


class Region(Protocol):
    """A part of the catalogue's pairs, known by rule and not by list."""

    @property
    def share(self) -> float: ...

    def __call__(self, users: Codes, items: Codes) -> NDArray[np.bool_]: ...


class Feed:
    """Draws batches of a split's training rows, each beside pairs drawn uniformly from the catalogue.

    A training row stands for |O| / |O_train| seen pairs, because the hold-out was taken out of the same log:
    sums over training rows, over hold-out rows and over sampled pairs then all estimate the same totals.
    With a `region` all of this holds for the pairs inside it.

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
        region: Region | None = None,
        calibrates: bool = False,
    ) -> None:
        self.log, self.region = split.log, region
        self.n_pairs = split.log.n_pairs * (region.share if region else 1.0)
        self.batch_size, self.pairs_per_row = batch_size, pairs_per_row
        self._generator = generator
        self._train = self._block(split.train_rows)
        if not len(self._train.users):
            raise DataError("A fold of pairs leaves no training ratings outside it; use fewer folds.")
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

    def _block(self, rows: NDArray[np.int64]) -> Block:
        users, items = self.log.users[rows].astype(np.int64), self.log.items[rows].astype(np.int64)
        ratings = self.log.ratings[rows]
        if self.region:
            inside = self.region(users, items)
            users, items, ratings = users[inside], items[inside], ratings[inside]
        return Block(torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy(ratings))

    def _draw(self, count: int, generator: np.random.Generator) -> Block:
        """Uniform pairs by index arithmetic; those outside the region are drawn again."""
        users, items = self._draw_pairs(count, generator)
        while self.region and not (inside := self.region(users, items)).all():
            users[~inside], items[~inside] = self._draw_pairs(int((~inside).sum()), generator)
        return Block(torch.from_numpy(users), torch.from_numpy(items), None, self.seen_pairs)

    def _draw_pairs(self, count: int, generator: np.random.Generator) -> tuple[Codes, Codes]:
        return np.divmod(generator.integers(self.log.n_pairs, size=count), self.log.n_items)

    def epoch(self) -> Iterator[Batch]:
        """All training rows once, in a new order; the last batch may be smaller and weighs its rows accordingly."""
        n, size = len(self._train.users), self.batch_size
        order = torch.from_numpy(self._generator.permutation(n))
        sampled = self._draw(math.ceil(n * self.pairs_per_row), self._generator)
        for start in range(0, n, size):
            rows = order[start : start + size]
            pairs = slice(*(math.ceil(edge * self.pairs_per_row) for edge in (start, min(start + size, n))))
            yield Batch(
                observed=Rows(self._train, rows, n * self._train_weight / len(rows)),
                sampled=Rows(sampled, pairs, self.n_pairs / max(pairs.stop - pairs.start, 1)),
                n_pairs=self.n_pairs,
            )

    @property
    def n_batches(self) -> int:
        return math.ceil(len(self._train.users) / self.batch_size)

    @cached_property
    def train(self) -> Batch:
        """All training rows at once, beside the hold-out's sample of pairs."""
        n = len(self._train.users)
        return Batch(Rows(self._train, slice(0, n), self._train_weight), self.holdout.sampled, self.n_pairs)

    @cached_property
    def holdout(self) -> Batch:
        """The held-out rows that judge, beside one sample of pairs that stays the same."""
        return self._held_out(self._parts[0])

    @cached_property
    def calibration(self) -> Batch:
        """The held-out rows that calibrators are fitted to, beside a sample of pairs of their own."""
        return self.holdout if self._parts[0] is self._parts[1] else self._held_out(self._parts[1])

    def _held_out(self, rows: NDArray[np.int64]) -> Batch:
        observed = self._block(rows)
        n = len(observed.users)
        count = min(max(MIN_HOLDOUT_SAMPLE, 10 * n), MAX_HOLDOUT_SAMPLE)
        sampled = self._draw(count, self._holdout_generator)
        return Batch(
            observed=Rows(observed, slice(0, n), len(self.log) / len(rows)),
            sampled=Rows(sampled, slice(0, count), self.n_pairs / count),
            n_pairs=self.n_pairs,
        )

    def forget_columns(self) -> None:
        """Drop cached columns of roles; what was looked up in the log stays true."""
        held_out = (self.holdout, self.calibration)
        blocks = {rows.block for batch in held_out for rows in (batch.observed, batch.sampled)}
        for block in {self._train, *blocks}:
            for name in [name for name in block.columns if name != "seen"]:
                del block.columns[name]
