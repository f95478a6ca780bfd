"""Small logs to hold methods to: an ordinary one, a graded one, and those that are tiny, lopsided or degenerate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from unskew.data.features import Features
from unskew.data.log import RatingLog
from unskew.data.scale import Scale
from unskew.data.world import World, simulate


@cache
def world() -> World:
    """40 users, 30 items and some 250 ratings."""
    return simulate(n_users=40, n_items=30, density=0.2, seed=4)


@cache
def ordinary() -> tuple[RatingLog, RatingLog]:
    """The world's log, with features, and 200 random ratings."""
    return _described(world().log), world().test.take(np.arange(0, 800, 4))


@cache
def graded() -> tuple[RatingLog, RatingLog]:
    """The same pairs rated from 1 to 5."""
    log, random = (
        replace(
            part,
            ratings=world().preference(part.users, part.items).astype(np.float32),
            scale=Scale(positive=None, low=1, high=5),
        )
        for part in ordinary()
    )
    return log, random


def _described(log: RatingLog) -> RatingLog:
    """The log with a number known of each user and each item."""
    user, item = (
        Features(("number",), np.arange(n, dtype=np.float32)[:, None] % 7) for n in (log.n_users, log.n_items)
    )
    return replace(log, user_features=user, item_features=item)


def awkward() -> Iterator[tuple[str, RatingLog]]:
    """Logs that hardly let themselves be learned from, each with what is awkward about it.

    All of them have fewer users and fewer items than nets usually have factors.
    """
    sparse = [(user, item) for user, item in product(range(12), range(8)) if (user * 5 + item * 3) % 7 < 2]
    rest = [(user, item) for user, item in sparse if user > 0]
    yield "in which one user has rated everything", _log([(0, item) for item in range(8)] + rest)
    yield "with items and users that have no rating", _log(sparse, n_users=15, n_items=11)
    yield "in which each user gives one rating only", _log(sparse, liked=lambda user, item: user % 2 == 0)
    yield "in which all pairs are seen", _log(list(product(range(4), range(12))))
    yield "of 6 ratings", _log([(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 3)])
    yield "with a single liked pair", _log(sparse, liked=lambda user, item: (user, item) == sparse[3])
    log, _ = ordinary()
    yield "in which everything is liked", log.take(log.ratings == 1)


def _log(
    pairs: list[tuple[int, int]],
    *,
    n_users: int | None = None,
    n_items: int | None = None,
    liked: Callable[[int, int], bool] = lambda user, item: (user + item) % 2 == 0,
) -> RatingLog:
    users, items = zip(*pairs, strict=True)
    log = RatingLog.from_arrays(
        users,
        items,
        [float(liked(*pair)) for pair in pairs],
        positive=1,
        user_ids=None if n_users is None else range(n_users),
        item_ids=None if n_items is None else range(n_items),
    )
    return _described(log)
