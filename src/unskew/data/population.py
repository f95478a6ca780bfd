"""The pairs over which answers are wanted: all users with all items, by arithmetic and without an array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.pairs import pair_fold

Codes = NDArray[np.int32]
PLASTIC = 1.324717957244746  # the real root of x^3 = x + 1
PAIRS_PER_USER = 4  # drawn together: a step costs by the rows it touches


class AllPairs(NamedTuple):
    """Every user with every item."""

    n_users: int
    n_items: int

    @property
    def n_pairs(self) -> int:
        return self.n_users * self.n_items

    def draw(self, n_batches: int, size: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
        """Uniform pairs for batches of this size; within a batch four of each user, in the order of users."""
        per_batch = -(-size // PAIRS_PER_USER)
        users = np.sort(rng.integers(self.n_users, size=(n_batches, per_batch), dtype=np.int32), axis=1)
        users = np.repeat(users, PAIRS_PER_USER, axis=1)[:, :size].ravel()
        return users, rng.integers(self.n_items, size=len(users), dtype=np.int32)

    def draw_evenly(self, count: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
        """Pairs that are uniform one by one and together give every user and every item a like share.

        The additive sequence of the plastic number in two dimensions, shifted at random: totals of what depends mostly
        on the user or on the item vary far less than over independent draws.
        """
        steps = np.arange(count)
        users, items = (
            ((rng.random() + steps * PLASTIC**-power) % 1 * size).astype(np.int32)
            for power, size in ((1, self.n_users), (2, self.n_items))
        )
        return users, items


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
        """The codes, in the one net, of pairs for the `copy`-th of the nets that may learn from each; -1 for its own.

        The net of a pair's own fold has not learned from it.
        """
        net = (pair_fold(self.seed, users, items, self.n) + 1 + copy) % self.n
        return shifted(users, net * self.population.n_users), shifted(items, net * self.population.n_items)


def shifted(codes: NDArray[Any], by: Any) -> Codes:
    """Codes moved up; -1, which stands for somebody or something unknown, stays."""
    return np.where(codes < 0, -1, codes + by).astype(np.int32)
