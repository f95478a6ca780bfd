"""Thirds of the users by activity and of the items by popularity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.estimation.scores import Codes

NAMES = (
    ("least active users", "users in between", "most active users"),
    ("least popular items", "items in between", "most popular items"),
)


class Groups:
    """Who belongs where: by number of ratings, those with equal numbers together."""

    def __init__(self, log: RatingLog) -> None:
        self.users = _thirds(np.bincount(log.users, minlength=log.n_users))
        self.items = _thirds(np.bincount(log.items, minlength=log.n_items))

    def masks(self, users: Codes, items: Codes) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Each group's name and which of the pairs are in it; no groups where all have equally many ratings."""
        for names, of_pair, of_all in (
            (NAMES[0], self.users[users], self.users),
            (NAMES[1], self.items[items], self.items),
        ):
            if np.ptp(of_all) == 0:
                continue
            for number, name in enumerate(names):
                if (of_all == number).any():
                    yield name, of_pair == number


def _thirds(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    low, high = np.quantile(counts, [1 / 3, 2 / 3])
    return np.where(counts <= low, 0, np.where(counts <= high, 1, 2)).astype(np.int64)
