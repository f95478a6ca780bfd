"""Thirds of the users by activity and of the items by popularity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import pair_fold
from unskew.estimation.scores import Codes

NAMES = (
    ("least active users", "users in between", "most active users"),
    ("least popular items", "items in between", "most popular items"),
)


class Groups:
    """Who belongs where: by number of ratings, those with equal numbers together.

    Numbers are counted on a random half of all pairs. On the other half being seen is independent of the grouping; on
    the same pairs, items that are least popular by bad luck would make every propensity look too large for them.
    """

    def __init__(self, log: RatingLog, seed: int = 0) -> None:
        self.seed = seed
        counted = ~self.apart(log.users, log.items)
        self.users = _thirds(np.bincount(log.users[counted], minlength=log.n_users))
        self.items = _thirds(np.bincount(log.items[counted], minlength=log.n_items))

    def apart(self, users: Codes, items: Codes) -> NDArray[np.bool_]:
        """Which of the pairs had no part in the grouping."""
        return np.asarray(pair_fold(self.seed, users, items, 2) == 1)

    def masks(self, users: Codes, items: Codes) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Each group's name and which of the pairs are in it; no groups where all have equally many ratings."""
        for names, of_all, codes in ((NAMES[0], self.users, users), (NAMES[1], self.items, items)):
            present = np.unique(of_all)
            for number in present if len(present) > 1 else ():
                yield names[number], of_all[codes] == number


def _thirds(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    low, high = np.quantile(counts, [1 / 3, 2 / 3])
    return np.where(counts <= low, 0, np.where(counts <= high, 1, 2)).astype(np.int64)
