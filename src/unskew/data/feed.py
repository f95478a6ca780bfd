"""Batches for the loop: training rows, and pairs drawn from the population with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unskew.data.pairs import SeenPairs
from unskew.data.population import Drawn, Folds, Population
from unskew.data.split import Split
from unskew.errors import DataError

Array = NDArray[Any]
MIN_HOLDOUT_SAMPLE, MAX_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT = 10_000, 500_000, 2
ROWS_AT_ONCE = 1 << 19


class Block:
    """Pairs that belong together; batches are some of them, and what nothing moves is found once for all of them.

    `columns` are what is known of the pairs, or functions that find it when it is asked for.
    """

    def __init__(self, users: Array, items: Array, **columns: Array | Callable[[], Array]) -> None:
        self.users, self.items, self.columns, self._answers = users, items, columns, dict[str, Array]()
        self._taken_from: tuple[Block, Array] | None = None

    def __len__(self) -> int:
        return len(self.users)

    def known(self, name: str) -> Any:
        """Return a column; None for what is not known of these pairs."""
        if callable(found := self.columns.get(name)):
            found = self.columns[name] = found()
        return found

    def answers(self, role: str, ask: Callable[[str, Array, Array], Array]) -> Array:
        """Return what a role answers for these pairs, asked when it is needed first."""
        if role not in self._answers:
            whole, rows = self._taken_from or (self, slice(None))
            if role not in whole._answers:
                whole._answers[role] = ask(role, whole.users, whole.items)
            self._answers[role] = whole._answers[role][rows]
        return self._answers[role]

    def taken(self, rows: Array) -> Block:
        """Return these rows as a block, whose answers are those of this one."""
        found = Block(self.users[rows], self.items[rows], **{name: self.known(name)[rows] for name in self.columns})
        found._taken_from = self, rows
        return found

    def forget(self) -> None:
        """Drop what roles have answered: they are about to change."""
        self._answers.clear()


class Chunk(NamedTuple):
    """Some rows of a block, each of which stands for `cells` pairs of the population, times its own "cells"."""

    block: Block
    where: slice | Array
    cells: float


class Batch(NamedTuple):
    """`observed` rows stand for all seen pairs, `sampled` rows for all pairs, seen or not."""

    observed: Chunk
    sampled: Chunk


class Feed:
    """Draws batches of a split's training rows, each with pairs drawn uniformly from the population.

    A training row stands for |O| / |O_train| seen pairs, because the hold-out was taken out of the same log: sums over
    training rows, over hold-out rows and over sampled pairs then all estimate the same totals. With `folds`, rows and
    pairs are those of all nets together.

    A plan that calibrates fits its calibrators to held-out rows and must not be judged on the same ones: then the
    hold-out is divided in two, `holdout` for validation and `calibration` for calibrators; else both are all of it.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        pairs_per_row: float,
        rng: np.random.Generator,
        folds: Folds | None = None,
        calibrates: bool = False,
    ) -> None:
        self.log, self.split, self.folds, self.pairs_per_row = split.log, split, folds, pairs_per_row
        self.population = self.log.population
        self._drawn_from, held = cast(tuple[Population, Population], self.population.divided(split.held_out))
        self._copies = folds.copies if folds else 1
        self.n_pairs = float(self.population.n_pairs * self._copies)
        self._n_rows = float(self.population.n_rows * self._copies)
        self._rng = rng
        rows = split.train_rows[np.argsort(self.log.users[split.train_rows], kind="stable")]
        self._train = self._logged(rows)
        self.batch_size = min(batch_size * self._copies, len(self._train))
        self._n_cells = float(len(self.log) * self._copies)
        self._holdout_rng = np.random.default_rng(rng.integers(2**63))
        held_out = split.holdout_rows
        if calibrates:
            if len(held_out) < 2:
                raise DataError(
                    f"A method that calibrates needs at least 2 held-out ratings, not {len(held_out)}; "
                    "hold out a larger share."
                )
            shuffled = self._holdout_rng.permutation(held_out)
            first, second = (np.sort(part) for part in np.split(shuffled, [len(held_out) // 2]))
            here, there = held.halves(self._holdout_rng)
            self.holdout, self.calibration = self._held_out(first, here), self._held_out(second, there)
        else:
            self.holdout = self.calibration = self._held_out(held_out, held)

    @property
    def n_batches(self) -> int:
        return math.ceil(len(self._train) / self.batch_size)

    @cached_property
    def _seen_pairs(self) -> SeenPairs:
        return SeenPairs(self.log)

    def _logged(self, rows: Array) -> Block:
        """Return rows of the log, once for each net that learns from them."""
        copy = np.repeat(np.arange(self._copies), len(rows))
        users, items, ratings = (
            np.tile(column[rows], self._copies) for column in (self.log.users, self.log.items, self.log.ratings)
        )
        known: dict[str, Any] = {} if self.log.cells is None else {"cells": np.tile(self.log.cells[rows], self._copies)}
        placed = self.folds.placed(users, items, copy) if self.folds else (users, items)
        return Block(*placed, ratings=ratings, **known)

    def _drawn(self, drawn: Drawn, rng: np.random.Generator) -> Block:
        """Return rows of the population, each for one of the nets that may learn from it."""
        users, items, _, cells = drawn
        known: dict[str, Any] = {} if cells is None else {"cells": cells}

        def seen() -> Array:  # which few losses ask for
            return (self._seen_pairs(*drawn[:2]) if drawn.seen is None else drawn.seen).astype(np.float32)

        if self.folds:
            users, items = self.folds.placed(users, items, rng.integers(self._copies, size=len(users)))
        return Block(users, items, seen=seen, **known)

    def epoch(self) -> Iterator[Batch]:
        """Yield all training rows once, in random batches; the last one may be smaller and weighs accordingly.

        The rows of a batch are in the order of users, whose vectors are then read and moved in order too.
        """
        n, size = len(self._train), self.batch_size
        batch_of = np.repeat(np.arange(self.n_batches, dtype=np.min_scalar_type(self.n_batches)), size)[:n]
        self._rng.shuffle(batch_of)
        rows = np.argsort(batch_of, kind="stable")
        per_batch = math.ceil(size * self.pairs_per_row)
        at_once = max(ROWS_AT_ONCE // size, 1)
        for first in range(0, self.n_batches, at_once):
            batches = range(first, min(first + at_once, self.n_batches))
            pairs = self._drawn(self._drawn_from.draw(len(batches), per_batch, self._rng), self._rng)
            # Rows are gathered for many batches at once: one by one they would wait three times as long for memory.
            rated = self._train.taken(rows[first * size : (first + at_once) * size])
            for place in range(len(batches)):
                here = slice(place * size, min((place + 1) * size, len(rated)))
                n_here = here.stop - here.start
                n_there = max(math.ceil(n_here * self.pairs_per_row), 1)
                if n_there < per_batch:  # the first of pairs in the order of users would be those of the first users
                    pairs, place = self._drawn(self._drawn_from.draw(1, n_there, self._rng), self._rng), 0
                there = slice(place * per_batch, place * per_batch + n_there)
                yield Batch(Chunk(rated, here, self._n_cells / n_here), Chunk(pairs, there, self._n_rows / n_there))

    @property
    def train(self) -> Batch:
        """All training rows at once, with the hold-out's sample of pairs."""
        n = len(self._train)
        return Batch(Chunk(self._train, slice(0, n), self._n_cells / n), self.holdout.sampled)

    @property
    def interactions(self) -> tuple[Array, Array]:
        """Users and items of the training rows, as a net meets them."""
        return self._train.users, self._train.items

    def _held_out(self, rows: Array, population: Population) -> Batch:
        """Return held-out rows with one sample of pairs that stays the same."""
        observed = self._logged(rows)
        count = min(max(MIN_HOLDOUT_SAMPLE, SAMPLED_PER_HELD_OUT * len(observed)), MAX_HOLDOUT_SAMPLE)
        sampled = self._drawn(population.draw_evenly(count, self._holdout_rng), self._holdout_rng)
        return Batch(
            Chunk(observed, slice(0, len(observed)), self._n_cells / len(observed)),
            Chunk(sampled, slice(0, count), self._n_rows / count),
        )

    def forget(self) -> None:
        """Drop what roles have answered: they are about to change."""
        for batch in (self.train, self.holdout, self.calibration):
            for chunk in batch:
                chunk.block.forget()
