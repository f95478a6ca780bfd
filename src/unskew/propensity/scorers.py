"""Score pairs by what others saw: what the chance of seeing depends on, up to a few coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from unskew.posterior.draws import Float, Int


@njit(cache=True, nogil=True)
def sum_neighbours(rows: Int, pointer: Int, members: Int, square: Float, place: Int) -> tuple[Float, Float]:
    """Return, for pairs, the sum of square[place, j] over the members j of a row, and whether place is one."""
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

    def scores(self, users: Int, items: Int) -> Float:
        """Return X B for pairs; a pair's own vote is left out."""
        rows, place = (items, users) if self.by_users else (users, items)
        total, own = sum_neighbours(rows, self.pointer, self.members, self.square, place)
        result: Float = (own - total / self.diagonal[items]) / self.share
        return result

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, root of the score, log of the score."""
        z = np.maximum(self.scores(users, items), 0)
        return np.stack([np.log(np.maximum(self.counts[items], 0.5)), np.sqrt(z), np.log(z + 0.01)], axis=1)


@njit(cache=True, nogil=True)
def dot_pairs(users: Int, items: Int, a: Float, b: Float) -> Float:
    """Return a_u . b_i for pairs."""
    out = np.zeros(len(users))
    for k in range(len(users)):
        for j in range(a.shape[1]):
            out[k] += a[users[k], j] * b[items[k], j]
    return out


@dataclass(frozen=True)
class SpectralScorer:
    """Hold counts and directions; the ratio of what they expect to what counts alone do is 1 + x_u . y_i."""

    log_counts: Float
    left: Float
    right: Float

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, log ratio, and a bounded ratio: that of a user of few pairs can be anything."""
        ratio = np.maximum(1 + dot_pairs(users, items, self.left, self.right), 0)
        return np.stack([self.log_counts[items], np.log(ratio + 0.1), ratio / (3 + ratio)], axis=1)
