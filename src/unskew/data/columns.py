"""Long columns piece by piece, so that one that is mapped from a file is never held in memory whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import DataError

Codes = NDArray[np.integer[Any]]
_PIECE = 1 << 20  # rows looked at together
_PASS = 1 << 20  # rows of a pass, about
_MOST_PASSES = 1 << 8
_BLOCKS = 1 << 16  # users are counted in so many blocks at most


def pieces(n_rows: int) -> Iterator[slice]:
    """All rows in order, about a million at a time."""
    return (slice(start, min(start + _PIECE, n_rows)) for start in range(0, n_rows, _PIECE))


def passes(users: Codes, n_users: int) -> Iterator[NDArray[np.int64]]:
    """All rows of some users, then those of others: every row in one pass, in ascending order.

    A pass holds about a million rows, or a 256th of the log if that is more: it needs little memory, and the
    column of users is not looked through too often. Users are not divided between passes.
    """
    width = -(-n_users // _BLOCKS)  # neighbouring users of a block
    n_blocks = -(-n_users // width)
    counts = np.zeros(n_blocks, np.int64)
    for piece in pieces(len(users)):
        counts += np.bincount(users[piece] // width, minlength=n_blocks)
    turn = (counts.cumsum() - counts) // max(_PASS, len(users) // _MOST_PASSES)
    edges = width * np.concatenate([[0], 1 + np.flatnonzero(np.diff(turn)), [n_blocks]])
    for low, high in pairwise(edges.tolist()):
        rows = np.concatenate([_between(users, piece, low, high) for piece in pieces(len(users))])
        if len(rows):
            yield rows


def first_row(*wanted: tuple[NDArray[Any], Any]) -> int:
    """The first row in which every one of some columns holds the value that stands beside it."""
    for piece in pieces(len(wanted[0][0])):
        found = np.logical_and.reduce([column[piece] == value for column, value in wanted])
        if found.any():
            return int(piece.start + found.argmax())
    raise LookupError(f"no row holds {[value for _, value in wanted]}")


def frozen(values: Any, dtype: type[np.generic], name: str) -> NDArray[Any]:
    """The values as a read-only column of this type, copied only if anyone could still write to them."""
    given = values if isinstance(values, np.memmap) else np.asarray(values)
    if given.dtype.kind not in ("iu" if np.issubdtype(dtype, np.integer) else "biuf"):
        raise DataError(f"{name} must be {np.dtype(dtype)} inside a log, but are {given.dtype}.")
    if given.dtype == dtype and not given.flags.writeable:
        return given
    column: NDArray[Any] = np.array(given, dtype)
    if given.dtype.kind in "iu" and not np.array_equal(column, given):
        raise DataError(f"{name} holds {given.max()}, which is beyond {np.dtype(dtype)}.")
    column.flags.writeable = False
    return column


def check_codes(codes: Codes, size: int, name: str) -> None:
    """Refuse codes that stand for none of `size` ids."""
    if codes.min() < 0 or codes.max() >= size:
        raise DataError(f"{name} holds codes from {codes.min()} to {codes.max()}, but there are {size} ids.")


def check_unit(ratings: NDArray[np.float32], binary: bool) -> None:
    """Refuse ratings that are not in [0, 1], or between the two of a binary log."""
    low, high = ratings.min(), ratings.max()
    if not (low >= 0 and high <= 1):
        raise DataError(f"ratings must lie in [0, 1] inside a log, but range from {low:g} to {high:g}.")
    if binary and not all(_is_binary(ratings[piece]) for piece in pieces(len(ratings))):
        raise DataError("the ratings of a binary log must be 0 or 1: use a graded scale for anything between.")


def _between(users: Codes, piece: slice, low: int, high: int) -> NDArray[np.int64]:
    codes = users[piece]
    return np.flatnonzero((codes >= low) & (codes < high)) + int(piece.start)


def _is_binary(ratings: NDArray[np.float32]) -> bool:
    return bool(((ratings == 0) | (ratings == 1)).all())
