"""Estimate who sees what from the leading directions of the seen matrix: sparse, for logs of any size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from unskew.posterior.exposure import Exposure, directions, folds_by_user
from unskew.propensity.conditional import FittedExposure, Float, Int, calibrate, with_rates


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

    @staticmethod
    def of(users: Int, items: Int, n_users: int, n_items: int, most: int) -> SpectralScorer:
        """Build from pairs: (S - E) / sqrt(E) ~ sum of s a b', so S / E ~ 1 + sum of s a b' / sqrt(E)."""
        found: Exposure = directions(users, items, n_users, n_items, most=most)
        a, b = np.bincount(users, minlength=n_users), np.bincount(items, minlength=n_items)
        n = len(users)
        scale_u, scale_i = np.sqrt(n / np.maximum(a, 1)), 1 / np.sqrt(np.maximum(b, 1))
        left = found.users * found.strengths / np.sqrt(n_users) * scale_u[:, None]
        right = found.items / np.sqrt(n_items) * scale_i[:, None]
        return SpectralScorer(np.log(np.maximum(b, 0.5)), np.ascontiguousarray(left), np.ascontiguousarray(right))

    def columns(self, users: Int, items: Int) -> Float:
        """Return log count, log ratio, and a bounded ratio: that of a user of few pairs can be anything."""
        ratio = np.maximum(1 + dot_pairs(users, items, self.left, self.right), 0)
        return np.stack([self.log_counts[items], np.log(ratio + 0.1), ratio / (3 + ratio)], axis=1)


@dataclass(frozen=True)
class Spectral:
    """Specify the spectral exposure: counts times what the leading directions add, calibrated on folds."""

    directions: int = 32
    folds: int = 5

    def fit(
        self, users: Int, items: Int, n_users: int, n_items: int, rng: np.random.Generator, fold: Int | None = None
    ) -> FittedExposure:
        """Fit to the seen pairs of a log; `fold` numbers the folds of pairs, if others are to share them."""
        fold = folds_by_user(users, n_users, self.folds, rng) if fold is None else fold

        def without(k: int) -> SpectralScorer:
            kept = fold != k
            return SpectralScorer.of(users[kept], items[kept], n_users, n_items, self.directions)

        calibration = calibrate(users, items, n_users, n_items, fold, without, rng)
        scorer = SpectralScorer.of(users, items, n_users, n_items, self.directions)
        return with_rates(scorer, calibration, users, n_users, n_items, rng, "spectral", without, scorer.log_counts)
