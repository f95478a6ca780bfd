"""Which pairs were seen: the items of every user in order, never a matrix."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog


class SeenPairs:
    """Answers "was this pair seen?" for many pairs at once; holds 4 bytes a rating and 8 a user."""

    def __init__(self, log: RatingLog) -> None:
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(log.users, minlength=log.n_users))])
        pairs = np.sort(log.users.astype(np.int64) * log.n_items + log.items)
        self._items: NDArray[np.int32] = (pairs % max(log.n_items, 1)).astype(np.int32)

    def __call__(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = _look_up(users, items, self._starts, self._items)
        return found

    def of_user(self, user: int) -> NDArray[np.int32]:
        """The items this user has rated, in order."""
        return self._items[self._starts[user] : self._starts[user + 1]]


@numba.njit(cache=True)
def _look_up(users: Any, items: Any, starts: Any, gathered: Any) -> Any:
    """By bisection among the items of each user."""
    found = np.empty(len(users), np.bool_)
    for n in range(len(users)):
        low, high = starts[users[n]], starts[users[n] + 1]
        while low < high:
            middle = (low + high) // 2
            if gathered[middle] < items[n]:
                low = middle + 1
            else:
                high = middle
        found[n] = low < starts[users[n] + 1] and gathered[low] == items[n]
    return found
