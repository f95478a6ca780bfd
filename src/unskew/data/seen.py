"""Which pairs were seen: a sorted list of pair numbers, never a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.data.duplicates import pair_keys
from unskew.data.log import RatingLog


class SeenPairs:
    """Answers "was this pair seen?" for many pairs at once; holds 8 bytes a rating."""

    def __init__(self, log: RatingLog) -> None:
        self._n_items = log.n_items
        self._keys = pair_keys(log.users, log.items, log.n_items)
        self._keys.sort()

    def __call__(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.bool_]:
        keys = pair_keys(users, items, self._n_items)
        place = np.searchsorted(self._keys, keys)
        place[place == len(self._keys)] = 0
        return np.asarray(self._keys[place] == keys)

    def of_user(self, user: int) -> NDArray[np.int64]:
        """The items this user has rated."""
        start, stop = np.searchsorted(self._keys, [user * self._n_items, (user + 1) * self._n_items])
        return self._keys[start:stop] - user * self._n_items
