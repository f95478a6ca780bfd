"""Random numbers that belong to a pair: the same pair always gets the same number, in any order or batch.

A generator hands out numbers in the order of asking, so giving every pair of a catalogue its own would mean
storing them all. A counter-based generator (Salmon et al., SC'11) computes the number from the pair instead.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ParameterError

_WEYL = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: consecutive counters land far apart before mixing
_FIRST = np.uint64(1)
_WORD = 2**64 - 1
_FOLD_STREAM = 0x666F6C64  # folds stay independent of every number drawn with a small stream under the same seed


def pair_uniform(seed: int, users: ArrayLike, items: ArrayLike, stream: int = 0) -> NDArray[np.float64]:
    """One number in the open interval (0, 1) for each pair of codes, a pure function of its four arguments.

    Users and items are broadcast against each other. The streams of one seed are independent of each other.
    """
    words = (np.asarray(codes).astype(np.uint64) for codes in (users, items))
    key = _key(np.uint64(seed & _WORD), np.uint64((stream * int(_WEYL)) & _WORD))
    return np.asarray(_uniform(np.uint64(key), *words))


def pair_fold(seed: int, users: ArrayLike, items: ArrayLike, n_folds: int) -> NDArray[np.int64]:
    """The fold, 0 to n_folds - 1, of each pair, seen or unseen alike; nothing is stored."""
    if n_folds < 1:
        raise ParameterError(f"n_folds is {n_folds}: give at least one fold.")
    return (pair_uniform(seed, users, items, _FOLD_STREAM) * n_folds).astype(np.int64)


@numba.njit(cache=True)
def _mix(word: Any) -> Any:
    """The finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA'14): each bit in flips half of those out."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@numba.njit(cache=True)
def _key(seed: Any, stream: Any) -> Any:
    return np.uint64(_mix(_mix(seed) + stream))


@numba.vectorize(cache=True)  # type: ignore[no-untyped-call, untyped-decorator]
def _uniform(key: Any, user: Any, item: Any) -> Any:
    """All arithmetic is modulo 2^64."""
    word = _mix(_mix(key + (user + _FIRST) * _WEYL) ^ ((item + _FIRST) * _WEYL))
    # 52 bits and a half: exact in float64, symmetric about 1/2, and never 0 or 1.
    return (np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-52
