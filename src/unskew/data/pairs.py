"""Pairs of a user and an item: one number for each, which of them were seen, and random numbers that belong to them.

A generator hands out numbers in the order of asking, so giving every pair of a catalogue its own would mean
storing them all. A counter-based generator (Salmon et al., SC'11) computes the number from the pair instead.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog

Codes = NDArray[np.integer[Any]]
_WEYL = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: consecutive counters land far apart before mixing
_WORD = 2**64 - 1
_FOLD_STREAM = 0x666F6C64  # folds stay independent of every number drawn with a small stream under the same seed


def pair_keys(users: Codes, items: Codes, n_items: int) -> NDArray[np.int64]:
    """Return one number a pair, user * n_items + item: sorting by it sorts by user, then by item."""
    return users.astype(np.int64) * n_items + items


class SeenPairs:
    """Answers "was this pair seen?" for many pairs at once; holds 5 bytes a rating and 8 a user."""

    def __init__(self, log: "RatingLog") -> None:
        keys = np.sort(pair_keys(log.users, log.items, log.n_items))
        keys = keys[np.diff(keys, prepend=-1) > 0]  # a pair may have several rows
        self._shape = log.n_users, log.n_items
        self._items = (keys % log.n_items).astype(np.int32)
        self._starts = np.searchsorted(keys, np.arange(log.n_users + 1) * log.n_items)

    def __call__(self, users: Codes, items: Codes) -> NDArray[np.bool_]:
        if not len(users):
            return np.zeros(0, np.bool_)
        return np.asarray(self._rows[users, items], np.bool_).ravel()

    @cached_property
    def _rows(self) -> Any:
        from scipy.sparse import csr_array  # slow to import

        return csr_array((np.ones(len(self._items), np.bool_), self._items, self._starts), shape=self._shape)

    def of_user(self, user: int) -> NDArray[np.int32]:
        """Return the items this user has rated, in order."""
        return self._items[self._starts[user] : self._starts[user + 1]]


def pair_uniform(seed: int, users: ArrayLike, items: ArrayLike, stream: int = 0) -> NDArray[np.float64]:
    """Return one number in the open interval (0, 1) for each pair of codes, a pure function of its four arguments.

    Users and items are broadcast against each other. The streams of one seed are independent of each other.
    """
    with np.errstate(over="ignore"):  # all arithmetic is modulo 2^64
        key = _mix(_mix(np.uint64(seed & _WORD)) + np.uint64((stream * _WEYL) & _WORD))
        user, item = (
            (np.asarray(codes).astype(np.uint64) + np.uint64(1)) * np.uint64(_WEYL) for codes in (users, items)
        )
        word = _mix(_mix(key + user) ^ item)
    # 52 bits and a half: exact in float64, symmetric about 1/2, and never 0 or 1.
    return np.asarray(((word >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def pair_fold(seed: int, users: ArrayLike, items: ArrayLike, n_folds: int) -> NDArray[np.int64]:
    """Return the fold, 0 to n_folds - 1, of each pair, seen or unseen alike; nothing is stored."""
    if n_folds < 1:
        raise ParameterError(f"n_folds is {n_folds}: give at least one fold.")
    return (pair_uniform(seed, users, items, _FOLD_STREAM) * n_folds).astype(np.int64)


def _mix(word: Any) -> Any:
    """Return the finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA'14): each bit in flips half of those out."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
