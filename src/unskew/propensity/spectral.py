"""Estimate who sees what from the leading directions of the seen matrix: sparse, for logs of any size."""

from __future__ import annotations

import numpy as np

from unskew.posterior.draws import Int
from unskew.posterior.exposure import Pairs, directions
from unskew.propensity.conditional import Folded, calibrate
from unskew.propensity.scorers import SpectralScorer


def spectral_scorer(log: Pairs, most: int) -> SpectralScorer:
    """Build from pairs: (S - E) / sqrt(E) ~ sum of s a b', so S / E ~ 1 + sum of s a b' / sqrt(E)."""
    found, (a, b) = directions(log, most=most), log.counts()
    left = found.users * found.strengths * np.sqrt(len(log.users) / (log.n_users * np.maximum(a, 1)))[:, None]
    right = found.items / np.sqrt(log.n_items * np.maximum(b, 1))[:, None]
    return SpectralScorer(np.log(np.maximum(b, 0.5)), np.ascontiguousarray(left), np.ascontiguousarray(right))


def spectral_by_folds(log: Pairs, fold: Int, rng: np.random.Generator, most: int = 32) -> Folded:
    """Calibrate the scorers that are built without a fold."""

    def without(k: int) -> SpectralScorer:
        return spectral_scorer(log.rows(fold != k), most)

    return Folded("spectral", spectral_scorer(log, most), without, calibrate(log, fold, without, rng))
