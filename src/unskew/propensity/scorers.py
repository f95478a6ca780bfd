"""Score pairs by what others saw: what the chance of seeing depends on, up to a few coefficients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.compiled import njit
from unskew.errors import ParameterError
from unskew.nets.base import pair_products
from unskew.nets.near import EPS, Near, Products
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.kernels import Float, Float32, Int

MOST_SIDE = 3000
MOST_BY_NUMPY = 1 << 20
ROUNDED = 1e-9  # by how much scores by a ridge may differ, however they are summed up


def sum_neighbours(rows: Int, pointer: Int, members: Int, square: Float, place: Int) -> tuple[Float, Float]:
    """Return, for pairs, the sum of square[place, j] over the members j of a row, and whether place is one.

    For few pairs by NumPy, which adds in the same order, to the same bits, unless Numba is there: importing it would
    take far longer.
    """
    sizes = pointer[rows + 1] - pointer[rows]
    if "numba" in sys.modules or sizes.sum() > MOST_BY_NUMPY:
        return _sum_neighbours(rows, pointer, members, square, place)
    pair = np.repeat(np.arange(len(rows)), sizes)
    one = members[np.arange(len(pair)) + np.repeat(pointer[rows] - (np.cumsum(sizes) - sizes), sizes)]
    total, own = (np.bincount(pair, each, len(rows)) for each in (square[place[pair], one], one == place[pair]))
    return np.asarray(total, np.float64), np.asarray(own > 0, np.float64)


@njit(cache=True, nogil=True)
def _sum_neighbours(rows: Int, pointer: Int, members: Int, square: Float, place: Int) -> tuple[Float, Float]:
    out, own = np.zeros(len(rows)), np.zeros(len(rows))
    for k in range(len(rows)):
        for h in range(pointer[rows[k]], pointer[rows[k] + 1]):
            out[k] += square[place[k], members[h]]
            if members[h] == place[k]:
                own[k] = 1.0
    return out, own


@dataclass(frozen=True)
class RidgeScorer:
    """Hold the square of the smaller side; scores of pairs are sums over the seen pairs of a row."""

    by_users: bool
    pointer: Int
    members: Int
    square: Float
    diagonal: Float
    counts: Float
    share: float
    penalty: float

    def again(self, log: Pairs) -> RidgeScorer | None:
        """Return the same ridge on a longer log; None if that is too large."""
        return Gram(log).scorer(self.penalty) if affordable(log) else None

    def scores(self, users: Int, items: Int) -> Float:
        """Return X B for pairs; a pair's own vote is left out."""
        rows, place = (items, users) if self.by_users else (users, items)
        total, own = sum_neighbours(rows, self.pointer, self.members, self.square, place)
        return np.asarray((own - total / self.diagonal[items]) / self.share)

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, root of the score, log of the score."""
        return self._columns(np.maximum(self.scores(users, items), 0), items)

    def _columns(self, z: Float, items: Any) -> Float:
        return np.stack([np.log(np.maximum(self.counts[items], 0.5)) + 0 * z, np.sqrt(z), np.log(z + 0.01)], axis=-1)

    def near(self, coefficients: Float) -> Callable[[Int], Near]:
        """Return the weighted sum of the columns for users and all items at once."""
        from scipy.sparse import csr_array  # slow to import

        sides = len(self.pointer) - 1, len(self.square)
        seen = csr_array((np.ones(len(self.members)), self.members, self.pointer), shape=sides)

        def near(users: Int) -> Near:
            if self.by_users:
                total, own = (seen @ self.square[:, users]).T, seen[:, users].toarray().T
            else:
                total, own = seen[users] @ self.square, seen[users].toarray()
            z = np.maximum((own - total / self.diagonal) / self.share, 0)
            columns = self._columns(z, slice(None)) @ coefficients
            size = np.abs(columns).max(axis=1)
            error = np.abs(coefficients) @ [0, np.sqrt(ROUNDED), 100 * ROUNDED] + EPS * size
            return Near(columns.astype(np.float32), error, size)

        return near


class Gram:
    """Hold the eigenvectors of X X' or X'X, whichever is smaller, from which a ridge of any penalty is cheap.

    Every item is explained by all others, its own vote left out: B = I - P / diag(P), P = (X'X + lambda)^-1, scores X B
    (the idea of EASE: Steck, WWW 2019). Where users are fewer, P = (I - X'R) / lambda with R = (X X' + lambda)^-1 X.
    """

    def __init__(self, log: Pairs, share: float = 1.0) -> None:
        """Decompose; `share` of the log is what these pairs are, for folds."""
        self.by_users, self.share = log.n_users < log.n_items, share
        self.seen = log.seen()
        matrix = self.seen if self.by_users else self.seen.T.tocsr()
        if matrix.shape[0] > MOST_SIDE:
            raise ParameterError(
                f"a ridge on {log.n_users:,} users and {log.n_items:,} items holds a square of {matrix.shape[0]:,}; "
                f"above {MOST_SIDE:,} take Spectral()."
            )
        self.values, self.vectors = np.linalg.eigh((matrix @ matrix.T).toarray())

    def scorer(self, penalty: float) -> RidgeScorer:
        """Return the scores at a penalty."""
        given, penalty = penalty, penalty * self.share
        inverse = np.ascontiguousarray((self.vectors / (np.maximum(self.values, 0) + penalty)) @ self.vectors.T)
        rows = self.seen.T.tocsr() if self.by_users else self.seen  # each of the larger side, with its members
        pointer, members = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        diagonal = np.diag(inverse).copy()
        if self.by_users:
            item = np.repeat(np.arange(rows.shape[0]), np.diff(pointer))
            own = sum_neighbours(item, pointer, members, inverse, members)[0]
            diagonal = (1 - np.bincount(item, own, rows.shape[0])) / penalty
        counts = np.asarray(self.seen.sum(axis=0)).ravel() / self.share
        return RidgeScorer(self.by_users, pointer, members, inverse, diagonal, counts, self.share, given)


def affordable(log: Pairs) -> bool:
    """Return whether the smaller side is small enough for a square of it."""
    return min(log.n_users, log.n_items) <= MOST_SIDE


@dataclass(frozen=True)
class SpectralScorer:
    """Hold counts and directions; the ratio of what they expect to what counts alone do is 1 + x_u . y_i."""

    log_counts: Float
    left: Float32
    right: Float32

    @staticmethod
    def of(log: Pairs, most: int) -> SpectralScorer:
        """Build from pairs: (S - E) / sqrt(E) ~ sum of s a b', so S / E ~ 1 + sum of s a b' / sqrt(E)."""
        found, (a, b) = directions(log, most=most), log.counts()
        left = found.users * found.strengths * np.sqrt(len(log.users) / (log.n_users * np.maximum(a, 1)))[:, None]
        right = found.items / np.sqrt(log.n_items * np.maximum(b, 1))[:, None]
        return SpectralScorer(np.log(np.maximum(b, 0.5)), *(np.ascontiguousarray(x, np.float32) for x in (left, right)))

    def again(self, log: Pairs) -> SpectralScorer:
        """Return the same number of directions of a longer log."""
        return SpectralScorer.of(log, self.left.shape[1])

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, log ratio, and a bounded ratio: that of a user of few pairs can be anything."""
        ratio = np.maximum(1 + pair_products(users, items, self.left, self.right).astype(float), 0)
        return np.stack([self.log_counts[items], np.log(ratio + 0.1), ratio / (3 + ratio)], axis=1)

    def near(self, coefficients: Float) -> Callable[[Int], Near]:
        """Return the weighted sum of the columns for users and all items at once."""
        products, (_, b, c) = Products(self.right), np.abs(coefficients)
        of_items = self.log_counts * coefficients[0] + coefficients[2]

        def near(users: Int) -> Near:
            ratio, error, size = products(self.left[users])
            error = error + EPS * (1 + size)
            np.maximum(ratio, -1, out=ratio)
            found = ratio + np.float32(1.1)
            np.log(found, out=found)
            size = b * np.maximum(np.log(1.1 + size), -np.log(0.1))
            ratio += np.float32(4)
            np.divide(np.float32(-3 * coefficients[2]), ratio, out=ratio)
            log = Near(found, 10 * error, size).line(0.0, coefficients[1])
            return log.plus(Near(ratio, c * (error / 3 + 2 * EPS), c + 0 * size)).line(of_items, 1.0)

        return near


@dataclass(frozen=True)
class JointScorer:
    """Hold both: each tells of seeing what the other does not. The columns of the ridge come first."""

    ridge: RidgeScorer
    spectral: SpectralScorer

    def again(self, log: Pairs) -> JointScorer | None:
        """Return the same on a longer log; None if that is too large."""
        ridge = self.ridge.again(log)
        return None if ridge is None else JointScorer(ridge, self.spectral.again(log))

    def columns(self, users: Int, items: Int) -> Float:
        """Return the columns of both, log count once."""
        return np.concatenate([self.ridge.columns(users, items), self.spectral.columns(users, items)[:, 1:]], axis=1)

    def near(self, coefficients: Float) -> Callable[[Int], Near]:
        """Return the weighted sum of the columns for users and all items at once."""
        ridge, spectral = self.ridge.near(coefficients[:3]), self.spectral.near(np.r_[0.0, coefficients[3:]])
        return lambda users: ridge(users).plus(spectral(users))


Scorer = RidgeScorer | SpectralScorer | JointScorer
