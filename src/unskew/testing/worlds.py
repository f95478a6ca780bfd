"""Tiny worlds: every pattern of seen pairs with its probability, views of listed pairs in float64, and small logs."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.data.features import Features
from unskew.data.feed import Batch, Block, Chunk
from unskew.data.log import RatingLog
from unskew.data.scale import Scale
from unskew.datasets.world import World, simulate
from unskew.losses.batch import Loss, Parts, View
from unskew.losses.columns import Array, logit, value_of
from unskew.nets.base import Part

MOVE = 2e-4  # of a logit, in differences of fourth order: exact to about 1e-11


def patterns(propensities: ArrayLike) -> Iterator[tuple[float, NDArray[np.bool_]]]:
    """Yield all 2^n ways n independent pairs can be seen or not, each with its probability."""
    p = np.asarray(propensities, np.float64)
    for pattern in product((False, True), repeat=len(p)):
        seen = np.array(pattern)
        yield float(np.where(seen, p, 1 - p).prod()), seen


def expectation(propensities: ArrayLike, value: Callable[[NDArray[np.bool_]], float]) -> float:
    """E[value(seen)] over all patterns."""
    return sum(probability * value(seen) for probability, seen in patterns(propensities))


class Listed(Part):
    """A part that knows one logit, in float64, for each of a few pairs: pair n is (user n, item 0)."""

    def __init__(self, logits: ArrayLike) -> None:
        self.values = np.asarray(logits, np.float64)

    def logits(self, users: Array, items: Array) -> Array:
        return np.asarray(self.values[users])

    def state(self) -> dict[str, Array]:
        return {"values": self.values}


class ListedView(View):
    """A view of listed pairs that remembers what a loss holds constant, so that differences can hold it too."""

    def __init__(self, parts: Parts, batch: Batch, n_pairs: float) -> None:
        super().__init__(parts, batch, n_pairs)
        self.constants: list[Any] = []
        self.replayed: Iterator[Any] | None = None

    def held(self, x: Any) -> Any:
        found = value_of(x) if self.replayed is None else next(self.replayed)
        self.constants.append(found)
        return found

    def evaluated(self, loss: Loss, learning: Collection[str] = (), constants: list[Any] | None = None) -> Any:
        """Evaluate the loss while these roles learn, with the constants of another evaluation if there are any."""
        self.parts.learning = tuple(learning)
        self.constants, self.replayed = [], None if constants is None else iter(constants)
        self.forget(tuple(self.parts.parts))
        return loss(self)

    def slopes(self, loss: Loss, role: str, learning: Collection[str] = ()) -> Array:
        """d loss / d logit of a role for each listed pair."""
        found = np.zeros(len(self.sampled))
        for (learned, rows), slopes in getattr(self.evaluated(loss, learning or (role,)), "slopes", {}).items():
            if learned == role:
                np.add.at(found, rows.users, slopes)
        return found

    def differences(self, loss: Loss, role: str, learning: Collection[str] = ()) -> Array:
        """Return the same by central differences of fourth order, all that the loss holds constant held."""
        part, learning = self.parts.parts[role], learning or (role,)
        start, found = part.values, np.zeros(len(self.sampled))
        self.evaluated(loss, learning)
        constants = self.constants
        for n in range(len(found)):
            for steps, share in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                part.values = start + steps * MOVE * (np.arange(len(start)) == n)
                found[n] += share * float(value_of(self.evaluated(loss, learning, constants))) / (12 * MOVE)
        part.values = start
        return found


def listed_view(
    seen: NDArray[np.bool_],
    ratings: ArrayLike,
    roles: Mapping[str, Any],
    error: str = "log",
    *,
    clips: Mapping[str, float] | None = None,
    cells: tuple[float, float] = (1.0, 1.0),
) -> ListedView:
    """View n listed pairs in float64; every seen pair and every pair stands for itself, or for `cells` pairs.

    `roles` are the probabilities that each role gives the n pairs, or a part that fills it.
    """
    n, rows = len(seen), np.flatnonzero(seen)
    users, items = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    observed = Block(users[rows], items[rows], ratings=np.asarray(ratings, np.float64)[rows])
    sampled = Block(users, items, seen=np.asarray(seen, np.float64))
    batch = Batch(Chunk(observed, slice(0, len(rows)), cells[0]), Chunk(sampled, slice(0, n), cells[1]))
    parts = {role: p if isinstance(p, Part) else Listed(logit(p)) for role, p in roles.items()}
    return ListedView(Parts(parts, clips=clips, error=error), batch, n * cells[1])


@cache
def world() -> World:
    return simulate(n_users=40, n_items=30, density=0.2, seed=4)


@cache
def ordinary() -> tuple[RatingLog, RatingLog]:
    """Return some 200 ratings of 40 users and 30 items, with features, and 200 random ones."""
    return _described(world().log), world().test.take(np.arange(0, 800, 4))


@cache
def graded() -> tuple[RatingLog, RatingLog]:
    """Return the same pairs rated from 1 to 5."""

    def grade(log: RatingLog) -> RatingLog:
        ratings = world().preference(log.users, log.items).astype(np.float32)
        return replace(log, ratings=ratings, scale=Scale(positive=None, low=1, high=5))

    log, random = ordinary()
    return grade(log), grade(random)


def awkward() -> Iterator[tuple[str, RatingLog]]:
    """Logs that are tiny, lopsided or degenerate, each with what is awkward about it."""
    users, items = np.indices((12, 8))
    sparse, liked, log = (users * 5 + items * 3) % 7 < 2, (users + items) % 2 == 0, ordinary()[0]
    few = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]) == 1
    yield "in which one user has rated everything", _log(sparse | (users == 0), liked)
    yield "with items and users that have no rating", _log(np.pad(sparse, ((0, 3), (0, 3))), np.pad(liked, (0, 3)))
    yield "in which each user gives one rating only", _log(sparse, users % 2 == 0)
    yield "in which all pairs are seen", _log(np.ones((8, 8)) == 1, liked)
    yield "of 6 ratings", _log(few, liked)
    yield "with a single liked pair", _log(sparse, users * 8 + items == np.flatnonzero(sparse)[3])
    yield "in which everything is liked", log.take(log.ratings == 1)


def _log(seen: NDArray[np.bool_], liked: NDArray[np.bool_]) -> RatingLog:
    (users, items), (n_users, n_items) = np.nonzero(seen), map(range, seen.shape)
    ratings = liked[users, items].astype(float)
    return _described(RatingLog.from_arrays(users, items, ratings, positive=1, user_ids=n_users, item_ids=n_items))


def _described(log: RatingLog) -> RatingLog:
    """Return the log with a number known of each user and each item."""
    sizes = log.n_users, log.n_items
    user, item = (Features(("number",), np.arange(n, dtype=np.float32)[:, None] % 7) for n in sizes)
    return replace(log, user_features=user, item_features=item)
