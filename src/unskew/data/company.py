"""Which users of a large log come together in an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.rows import ROWS_AT_ONCE, Codes

BLOCK = 64  # users whose rows lie side by side in a net's tables
DEALT = 1 << 16  # parts of the order that rows are sorted by: numbers of two bytes are sorted fastest


class Company:
    """An order of all users, at random but for blocks of 64 who stay together.

    A step waits for the rows of its users unless they lie in a cache. Rows of the log in this order, and pairs drawn
    along with them, meet a user's rows again and again and then not until the next epoch. Blocks are drawn at random:
    those who come together are like any others, in whatever order the log has its users.
    """

    def __init__(self, n_users: int, generator: np.random.Generator) -> None:
        whole_blocks = n_users // BLOCK
        self.n_users = n_users
        self._blocks = np.append(generator.permutation(whole_blocks), whole_blocks)  # the last one may have fewer
        self._places = np.argsort(self._blocks)

    def users_at(self, places: Codes) -> Codes:
        """Who has these places in the order."""
        users: Codes = self._blocks[places // BLOCK] * BLOCK + places % BLOCK
        return users

    def places_of(self, users: NDArray[np.integer[Any]]) -> Codes:
        places: Codes = self._places[users // BLOCK] * BLOCK + users % BLOCK
        return places

    def some(self, first: float, last: float, count: int, generator: np.random.Generator) -> Codes:
        """Users drawn uniformly between two places, given as shares of the order; past its end it begins anew."""
        shares = (first + generator.random(count) * (last - first)) % 1
        return self.users_at((shares * self.n_users).astype(np.int64))

    def sorted(self, log: RatingLog, rows: Codes) -> Codes:
        """These rows of the log by their users' places, up to small parts of the order, as they were within those."""
        part = np.empty(len(rows), np.uint16)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            at_once = slice(first, first + ROWS_AT_ONCE)
            part[at_once] = self.places_of(log.users[rows[at_once]].astype(np.int64)) * DEALT // self.n_users
        return rows[np.argsort(part, kind="stable")]
