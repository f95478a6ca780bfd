"""Answer for new users at once: the posterior of a row given the item rows of kept sweeps, by a few sweeps of its own.

The answer over all items is the mean over kept sweeps; the row of the fitted vectors that comes nearest to it, by least
squares over items, is linear in the rows of those sweeps: what it takes is found once for a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.posterior import defaults
from unskew.posterior.kernels import Float, Float32, Int, fold_row

if TYPE_CHECKING:
    from unskew.posterior.answers import Posterior

SWEEPS, BURN = 20, 5


class NewRows:
    """Hold what new rows of one model are made of."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior, shot = posterior, posterior.shots
        rows, w = shot["rows"].astype(float), posterior.items.vectors.astype(float)
        self.rows, self.weight, self.known_counts = rows, 1 / shot["scale"], np.log1p(shot["counts"])
        share, inverse = 1 / (shot["size"] * len(rows)), np.linalg.pinv(w.T @ w)
        maps = [w.T @ np.c_[z[:, :-1], np.ones(len(z))] * s for z, s in zip(rows, share, strict=True)]
        fixed = ((rows[:, :, -1] - shot["location"][:, None]) * share[:, None]).sum(axis=0)
        self.maps, self.start = inverse @ np.array(maps), inverse @ (w.T @ fixed)

    def of(self, items: Int, ratings: Float) -> tuple[Float32, Float, Float]:
        """Return vector, scale and log-variance of a new user, an axis of one before each, given ratings of items."""
        p, shot, n = self.posterior, self.posterior.shots, len(items)
        levels, items = p.ratings.encode(ratings), np.asarray(items, np.int64)
        rng, (n_shots, _, width) = np.random.default_rng(0), self.rows.shape
        uniforms = rng.random((n_shots, SWEEPS, n))
        gammas = rng.standard_gamma(defaults.SCALE_SHAPE + n / 2, (n_shots, SWEEPS, 1))
        normals = rng.random((n_shots, SWEEPS, 1, width))
        mean, scale = fold_row(
            items, levels.astype(np.int64), self.rows, self.weight, shot["thresholds"], shot["precision"],
            shot["coefficients"], shot["known"][None, :], defaults.SCALE_SHAPE, BURN, uniforms, gammas, normals,
            (0,) * width,
        )  # fmt: skip
        vector = self.start + np.einsum("kij,kj->i", self.maps, mean)
        near = np.argsort(np.abs(self.known_counts - np.log1p(n)))[:20]
        variance = p.users.log_variance[near].mean(keepdims=True)
        scale = np.exp(np.mean(scale - np.log(shot["user_size"]), keepdims=True))
        return vector[None, :].astype(np.float32), scale, variance
