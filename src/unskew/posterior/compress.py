"""Turn the kept sweeps of a sampler into ordinary vectors and a variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unskew.metrics.table import roc_auc
from unskew.posterior import defaults
from unskew.posterior.draws import Float, Float32, Int


class RunningProduct:
    """Hold mean of U_s V_s' over sweeps as one pair of factors, never wider than `most` columns.

    A buffer of stacked [U_1 .. U_S] and [V_1 .. V_S] is cut back to `keep` columns by a truncated SVD of the product of
    their roots, the best approximation of that rank.
    """

    def __init__(
        self, n_users: int, n_items: int, keep: int = defaults.MOST_RANK, most: int = 3 * defaults.MOST_RANK
    ) -> None:
        self.users: Float32 = np.zeros((n_users, 0), np.float32)
        self.items: Float32 = np.zeros((n_items, 0), np.float32)
        self.keep, self.most, self.count = keep, most, 0
        self._pending: list[tuple[Float32, Float32]] = []

    def add(self, users: Any, items: Any) -> None:
        """Add one sweep's rows."""
        self._pending.append((users.astype(np.float32), items.astype(np.float32)))
        self.count += 1
        if self.users.shape[1] + len(self._pending) * users.shape[1] >= self.most:
            self.users, self.items, _ = self.factors(self.keep, mean=False)
            self._pending = []

    def factors(self, rank: int, mean: bool = True) -> tuple[Float32, Float32, Float]:
        """Return user and item factors of at most `rank` columns, strongest first, and all singular values."""
        users = np.concatenate([self.users, *(u for u, _ in self._pending)], axis=1)
        items = np.concatenate([self.items, *(v for _, v in self._pending)], axis=1)
        if users.shape[1] == 0:
            return users, items, np.zeros(0)
        roots = [_root(side) for side in (users, items)]
        small = roots[0].T @ roots[1]
        squares, left = np.linalg.eigh(small @ small.T)
        strengths = np.sqrt(np.maximum(squares[::-1], 0))
        k = min(rank, int((strengths > 1e-6 * strengths[0]).sum()))
        size, left = np.sqrt(strengths[:k]), left[:, ::-1][:, :k]
        right = small.T @ left / strengths[:k]
        scale = 1 / max(self.count, 1) if mean else 1.0
        found = [
            side @ np.linalg.solve(root.T, turn * size * math.sqrt(scale)).astype(np.float32)
            for side, root, turn in zip((users, items), roots, (left, right), strict=True)
        ]
        return found[0], found[1], strengths * scale


def _root(x: Float32) -> Float:
    """Return the lower root of x'x, which is small; with columns that repeat each other, of a little more."""
    square = x.astype(float).T @ x.astype(float)
    return np.asarray(np.linalg.cholesky(square + 1e-12 * np.trace(square) * np.eye(len(square))))


def smallest_rank(users: Int, items: Int, liked: Int, scores: Float, u: Float32, v: Float32) -> int:
    """Return the smallest rank that loses less than .0005 AUC on these pairs of the log; `scores` is all but u . v."""
    parts = u[users] * v[items]
    if liked.min() == liked.max():
        return int(u.shape[1])
    full = auc(scores + parts.sum(axis=1), liked)
    low, high = 0, int(u.shape[1])
    while low < high:  # more columns order better, so halving finds the rank
        middle = (low + high) // 2
        if full - auc(scores + parts[:, :middle].sum(axis=1), liked) < defaults.RANK_LOSS:
            high = middle
        else:
            low = middle + 1
    return low


def auc(scores: Float, liked: Int) -> float:
    """Return the chance that a liked pair scores above a disliked one; ties count half."""
    return roc_auc(liked, scores)


def additive_log_variance(
    users: Int, items: Int, variance: Float, n_users: int, n_items: int, rounds: int = 20, prior: float = 2.0
) -> tuple[Float, Float]:
    """Fit log variance = a_u + b_i by least squares on sampled pairs, rows of few pairs shrunk to the mean."""
    log = np.log(np.maximum(variance, 1e-12))
    centre = log.mean()
    a, b = np.zeros(n_users), np.zeros(n_items)
    counts_u, counts_i = np.bincount(users, minlength=n_users), np.bincount(items, minlength=n_items)
    for _ in range(rounds):
        a = np.bincount(users, log - centre - b[items], n_users) / (counts_u + prior)
        b = np.bincount(items, log - centre - a[users], n_items) / (counts_i + prior)
    rest = variance / np.exp(centre + a[users] + b[items])
    # exp of a mean of logs is below the mean: the level is set by the variances themselves
    return a + centre + float(np.log(rest.mean())), b
