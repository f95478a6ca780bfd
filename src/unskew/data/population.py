"""The population over which answers are wanted.

All users with all items, by arithmetic and without an array; or the rows of a file, seen or not, such as everything
that was shown where only what was clicked can have been bought.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unskew.data.pairs import pair_fold

Codes = NDArray[np.int32]
PLASTIC = 1.324717957244746  # the real root of x^3 = x + 1
PAIRS_PER_USER = 4  # drawn together: a step costs by the rows it touches


class Drawn(NamedTuple):
    """Rows of a population; of listed ones it is known whether they were seen and how many pairs each stands for."""

    users: Codes
    items: Codes
    seen: NDArray[np.bool_] | None = None
    cells: NDArray[np.float32] | None = None


class AllPairs(NamedTuple):
    """Every user with every item."""

    n_users: int
    n_items: int

    @property
    def n_pairs(self) -> int:
        return self.n_users * self.n_items

    @property
    def n_rows(self) -> int:
        return self.n_pairs

    def divided(self, held_out: Any) -> tuple[Self, Self]:
        """Return what is trained on and what is held out: unseen pairs are too many to be met twice."""
        return self, self

    def halves(self, rng: np.random.Generator) -> tuple[Self, Self]:
        return self, self

    def draw(self, n_batches: int, size: int, rng: np.random.Generator) -> Drawn:
        """Uniform pairs for batches of this size; within a batch four of each user, in the order of users."""
        per_batch = -(-size // PAIRS_PER_USER)
        users = np.sort(rng.integers(self.n_users, size=(n_batches, per_batch), dtype=np.int32), axis=1)
        users = np.repeat(users, PAIRS_PER_USER, axis=1)[:, :size].ravel()
        return Drawn(users, rng.integers(self.n_items, size=len(users), dtype=np.int32))

    def draw_evenly(self, count: int, rng: np.random.Generator) -> Drawn:
        """Return pairs that are uniform one by one and together give every user and every item a like share.

        The additive sequence of the plastic number in two dimensions, shifted at random: totals of what depends mostly
        on the user or on the item vary far less than over independent draws.
        """
        steps = np.arange(count)
        users, items = (
            ((rng.random() + steps * PLASTIC**-power) % 1 * size).astype(np.int32)
            for power, size in ((1, self.n_users), (2, self.n_items))
        )
        return Drawn(users, items)


@dataclass(frozen=True, eq=False)
class ListedRows:
    """The rows of a file, each seen or not; `cells` are how many rows each stands for, None for one each.

    `columns` are what else is known of the rows: "time", "request", "position", "pscore", "is_random".
    """

    users: Codes
    items: Codes
    seen: NDArray[np.bool_]
    cells: NDArray[np.float32] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seen)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all columns by name."""
        known = {"users": self.users, "items": self.items, "seen": self.seen, **self.columns}
        return known if self.cells is None else known | {"cells": self.cells}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the rows of these columns."""
        own = {name: arrays[name] for name in ("users", "items", "seen", "cells") if name in arrays}
        return cls(**own, columns={name: column for name, column in arrays.items() if name not in own})

    @property
    def n_rows(self) -> int:
        return len(self.seen)

    @cached_property
    def n_pairs(self) -> float:
        """How many rows there are, each counted by what it stands for."""
        return len(self) if self.cells is None else float(self.cells.sum(dtype=np.float64))

    @property
    def times(self) -> NDArray[np.float64] | None:
        return self.columns.get("time")

    def take(self, rows: NDArray[Any]) -> Self:
        """Return some of the rows, by position or by a mask."""
        cells = None if self.cells is None else self.cells[rows]
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, users=self.users[rows], items=self.items[rows], seen=self.seen[rows], cells=cells,
                       columns=columns)  # fmt: skip

    def with_seen(self, kept: NDArray[np.bool_]) -> Self:
        """Return the population of some of the seen rows: each of the others stands for as much less."""
        weight = np.ones(len(self), np.float32) if self.cells is None else self.cells
        weight = np.where(self.seen, weight, weight * np.float32(kept.mean()))
        stays = ~self.seen
        stays[self.seen] = kept
        return replace(self, cells=weight).take(stays)

    def divided(self, held_out: Any) -> tuple[Self, Self]:
        """Return what is trained on, in the order of users, and what is held out."""
        order = np.argsort(self.users, kind="stable")
        return self.take(order[~held_out[order]]), self.take(held_out)

    def halves(self, rng: np.random.Generator) -> tuple[Self, Self]:
        first = rng.permutation(np.arange(len(self)) % 2 == 0)
        return self.take(first), self.take(~first)

    def draw(self, n_batches: int, size: int, rng: np.random.Generator) -> Drawn:
        """Uniform rows for batches of this size, each batch in the order of the rows."""
        return self._drawn(np.sort(rng.integers(len(self), size=(n_batches, size)), axis=1).ravel())

    def draw_evenly(self, count: int, rng: np.random.Generator) -> Drawn:
        """Return different rows as long as there are enough, each as likely as another."""
        times, rest = divmod(count, len(self))
        whole = np.tile(np.arange(len(self)), times)
        return self._drawn(np.append(whole, np.sort(rng.choice(len(self), rest, replace=False))))

    def _drawn(self, rows: NDArray[Any]) -> Drawn:
        cells = None if self.cells is None else self.cells[rows]
        return Drawn(self.users[rows], self.items[rows], self.seen[rows], cells)


Population = AllPairs | ListedRows


def draw_unseen(
    seen: Any, users: NDArray[Any], draws: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Unseen pairs of these users, from `draws` draws of items for each, and how many unseen pairs each stands for.

    `seen` is the sparse matrix of seen pairs. As many draws as there are items give all of them.
    """
    n_users, n_items = seen.shape
    whole, draws = draws >= n_items, min(draws, n_items)
    users = np.repeat(users, draws)
    items = np.tile(np.arange(n_items), len(users) // n_items) if whole else rng.integers(n_items, size=len(users))
    free = np.asarray(seen[users, items]).ravel() == 0
    users, items = users[free], items[free]
    left = n_items - np.diff(seen.indptr)
    return users, items, left[users] / np.bincount(users, minlength=n_users)[users]


class Folds(NamedTuple):
    """Nets of all folds side by side in one: a pair, seen or not, teaches all but the net of its own fold.

    Folds are a hash of the pair. Net f has the users f |U| to (f + 1) |U| - 1, and items alike.
    """

    n: int
    seed: int
    population: AllPairs

    @property
    def copies(self) -> int:
        return self.n - 1

    def placed(self, users: NDArray[Any], items: NDArray[Any], copy: Any) -> tuple[Codes, Codes]:
        """Give codes, in the one net, of pairs for the `copy`-th of the nets that may learn from each; -1 for its own.

        The net of a pair's own fold has not learned from it.
        """
        net = (pair_fold(self.seed, users, items, self.n) + 1 + copy) % self.n
        return shifted(users, net * self.population.n_users), shifted(items, net * self.population.n_items)


def shifted(codes: NDArray[Any], by: Any) -> Codes:
    """Return codes moved up; -1, which stands for somebody or something unknown, stays."""
    return np.where(codes < 0, -1, codes + by).astype(np.int32)
