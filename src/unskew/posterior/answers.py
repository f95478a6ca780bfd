"""Answer from the kept sweeps: ordinary vectors, a variance, thresholds and scales."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unskew.errors import DataError, ParameterError
from unskew.posterior import defaults
from unskew.posterior.exposure import Columns
from unskew.posterior.kernels import Float, Float32, Int, sample_rows, score_pairs
from unskew.special import log_ndtr, ndtr, owens_t


@dataclass(frozen=True)
class Ratings:
    """Hold how ratings map to what the sampler reads: levels 0, 1, .. or standardised values on a continuum."""

    values: Float
    """Distinct ratings in order; for a continuum its centre and spread."""
    continuous: bool

    @staticmethod
    def of(ratings: Float) -> Ratings:
        """Find the levels of a log as they stand; more than 20 distinct ratings are a continuum."""
        ratings = np.asarray(ratings, float)
        if len(ratings) == 0:
            raise DataError("there are no ratings to learn from; give a log with at least two distinct ratings.")
        if not np.isfinite(ratings).all():
            row = int(np.argmin(np.isfinite(ratings)))
            raise DataError(f"rating {row} is {ratings[row]}; give finite numbers.")
        values = np.unique(ratings)
        if len(values) == 1:
            raise DataError(
                f"all {len(ratings):,} ratings are {values[0]:g}: nothing tells what is liked from what is not; "
                "give a log with at least two distinct ratings."
            )
        if len(values) <= defaults.MOST_LEVELS:
            return Ratings(values, False)
        size = np.abs(values).max()
        centre, spread = (ratings / size).mean(), (ratings / size).std()
        middle = np.subtract(*np.percentile(ratings / size, [90, 10]))
        if middle < 1e-6 * spread:
            raise DataError(
                f"the rating {values[np.abs(values).argmax()]:g} lies so far from all others that these look alike "
                "on its scale; remove it, or give levels."
            )
        return Ratings(np.array([centre * size, spread * size]), True)

    @property
    def n_levels(self) -> int:
        """Return the number of levels; 1 for a continuum."""
        return 1 if self.continuous else len(self.values)

    def encode(self, ratings: Float) -> Any:
        """Turn ratings into levels or standardised values."""
        if self.continuous:
            return (np.asarray(ratings, float) - self.values[0]) / self.values[1]
        levels = np.searchsorted(self.values, ratings)
        wrong = self.values[np.minimum(levels, len(self.values) - 1)] != ratings
        if wrong.any():
            known = ", ".join(f"{v:g}" for v in self.values)
            raise DataError(f"a rating of {np.asarray(ratings)[wrong][0]:g} is none of the levels {known}; use these.")
        return levels

    def middle(self) -> float:
        """Return the rating from which the upper half begins, for checks that need one."""
        return float(self.values[0] if self.continuous else self.values[(len(self.values) + 1) // 2])


@dataclass
class Posterior:
    """Hold a fitted model as vectors of users and items; f = v_u . w_i + b_u + b_i, with an additive log-variance."""

    ratings: Ratings
    user_factors: Float32
    item_factors: Float32
    user_bias: Float
    item_bias: Float
    user_scale: Float
    item_scale: Float
    user_log_variance: Float
    item_log_variance: Float
    thresholds: Float
    """Ends of the levels without those at infinity."""
    noise: float
    user_columns: Columns
    item_columns: Columns
    user_coefficients: Float
    """Vector and bias (last) that a column of a user adds: answers for new rows."""
    item_coefficients: Float
    cold_log_variance: tuple[float, float]
    liked_from: float
    sweeps: int
    kept: int
    notes: list[str] = field(default_factory=list)
    snapshots: dict[str, Any] = field(default_factory=dict)
    """Item rows and priors of some kept sweeps: what fold-in averages over."""

    def scores(self, users: Int, items: Int) -> Float:
        """Return the mean of f."""
        rows = self.user_factors, self.item_factors, self.user_bias, self.item_bias
        return np.asarray(score_pairs(np.asarray(users, np.int64), np.asarray(items, np.int64), *rows))

    def variance(self, users: Int, items: Int) -> Float:
        """Return the variance of f: what the log leaves open."""
        return np.asarray(np.exp(self.user_log_variance[users] + self.item_log_variance[items]))

    def noise_variance(self, users: Int, items: Int) -> Float:
        """Return the variance of a rating around f."""
        return np.asarray(self.noise * (self.user_scale[users] * self.item_scale[items]) ** 2)

    def spread(self, users: Int, items: Int) -> Float:
        """Return the standard deviation of a rating around the mean of f."""
        return np.asarray(np.sqrt(self.noise_variance(users, items) + self.variance(users, items)))

    def threshold(self, liked_from: float | None = None) -> float:
        """Return where f must lie for a rating of at least `liked_from` to be as likely as not."""
        liked_from = self.liked_from if liked_from is None else liked_from
        if self.ratings.continuous:
            return float((liked_from - self.ratings.values[0]) / self.ratings.values[1])
        level = int(np.searchsorted(self.ratings.values, liked_from))
        if not 0 < level < len(self.ratings.values):
            known = ", ".join(f"{v:g}" for v in self.ratings.values)
            raise ParameterError(f"liked_from={liked_from:g} does not divide the ratings {known}; choose one between.")
        return float(self.thresholds[level - 1])

    def margin(self, users: Int, items: Int, liked_from: float | None = None, shift: Any = 0.0) -> Float:
        """Return z with P(liked) = Phi(z): (f - shift - t) / sqrt(noise + variance of f)."""
        gap = self.scores(users, items) - shift - self.threshold(liked_from)
        return np.asarray(gap / self.spread(users, items))

    def probability(self, users: Int, items: Int, liked_from: float | None = None, shift: Any = 0.0) -> Float:
        """Return P(rating >= liked_from)."""
        return np.asarray(ndtr(self.margin(users, items, liked_from, shift)))

    def logits(self, users: Int, items: Int) -> Float32:
        """Return log P(liked) - log P(not liked), exact in both tails."""
        z = self.margin(users, items)
        return np.asarray(log_ndtr(z) - log_ndtr(-z), np.float32)

    def levels(self, users: Int, items: Int, shift: Any = 0.0) -> Float:
        """Return the chance of every level, a row a pair."""
        if self.ratings.continuous:
            raise ParameterError("ratings on a continuum have no levels; ask for the expected rating or a chance.")
        gaps = self.thresholds[None, :] - (self.scores(users, items) - shift)[:, None]
        below = ndtr(gaps / self.spread(users, items)[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def expected(self, users: Int, items: Int, shift: Any = 0.0) -> Float:
        """Return the expected rating."""
        if not self.ratings.continuous:
            return np.asarray(self.levels(users, items, shift) @ self.ratings.values)
        centre, size = self.ratings.values
        return np.asarray(centre + size * (self.scores(users, items) - shift))

    def log_likelihood(self, users: Int, items: Int, ratings: Float) -> Float:
        """Return the log-chance (log-density on a continuum) of ratings."""
        encoded = self.ratings.encode(ratings)
        if self.ratings.continuous:
            variance = self.noise_variance(users, items) + self.variance(users, items)
            gap = (encoded - self.scores(users, items)) ** 2 / variance
            return np.asarray(-0.5 * (np.log(2 * np.pi * variance) + gap))
        return np.asarray(np.log(np.maximum(self.levels(users, items)[np.arange(len(users)), encoded], 1e-12)))

    def std(self, users: Int, items: Int, liked_from: float | None = None) -> Float:
        """Return the standard deviation of P(liked) over what f may be, exact by Owen's T.

        With h = z and rho = v / (noise + v): E[Phi^2] = Phi(h) - 2 T(h, sqrt((1 - rho) / (1 + rho))).
        """
        h = self.margin(users, items, liked_from)
        v = self.variance(users, items)
        rho = v / (v + self.noise_variance(users, items))
        second = ndtr(h) - 2 * owens_t(h, np.sqrt((1 - rho) / (1 + rho)))
        return np.asarray(np.sqrt(np.maximum(second - ndtr(h) ** 2, 0.0)))

    def user_vectors(self, users: Int) -> Float32:
        """Return factors and bias of users."""
        return np.concatenate([self.user_factors[users], self.user_bias[users, None]], axis=1).astype(np.float32)

    def extended(
        self, n_users: int, n_items: int, user_features: Float | None = None, item_features: Float | None = None
    ) -> Posterior:
        """Return the model with further users and items, answered by their features or as the average new row."""
        found = self
        for k, (side, n, features) in enumerate((("user", n_users, user_features), ("item", n_items, item_features))):
            columns: Columns = getattr(self, f"{side}_columns")
            more = range(n - len(getattr(self, f"{side}_bias")))
            if more:
                known = np.array([columns.of_new(None if features is None else features[j]) for j in more])
                rows, log_variance = known @ getattr(self, f"{side}_coefficients"), self.cold_log_variance[k]
                found = found.with_rows(side, rows, np.ones(len(rows)), np.full(len(rows), log_variance))
        return found

    def with_rows(self, side: str, rows: Float, scale: Float, log_variance: Float) -> Posterior:
        """Return the model with further users or items; the last column of rows is the bias."""
        more = {"factors": rows[:, :-1].astype(np.float32), "bias": rows[:, -1], "scale": scale}
        more["log_variance"] = log_variance
        joined: dict[str, Any] = {
            f"{side}_{name}": np.concatenate([getattr(self, f"{side}_{name}"), value]) for name, value in more.items()
        }
        return replace(self, **joined)

    def without_last(self) -> Posterior:
        """Return the model without its last user and item."""
        names = (f"{side}_{what}" for side in ("user", "item") for what in ("factors", "bias", "scale", "log_variance"))
        return replace(self, **{name: getattr(self, name)[:-1] for name in names})

    def fold_in(self, items: Int, ratings: Float, features: Float | None = None, sweeps: int = 40) -> Posterior:
        """Return the model with one more user, the posterior of that row given the item rows of kept sweeps."""
        shot, n = self.snapshots, len(items)
        encoded, items = self.ratings.encode(ratings), np.asarray(items, np.int64)
        known = self.user_columns.of_new(features)[None, :]
        n_shots, _, p = shot["rows"].shape
        pointer, place, uniforms = np.array([0, n]), np.arange(n), np.zeros(0)
        levels = np.zeros(n, np.int64) if self.ratings.continuous else encoded
        target, scales = np.zeros(len(self.item_bias)), []
        for k in range(n_shots):
            rng = np.random.default_rng(k)
            z, weight = shot["rows"][k, items].astype(float), 1 / shot["scale"][k, items]
            precision, thresholds, noise = shot["precision"][k], shot["thresholds"][k], float(shot["noise"][k])
            shift, x = shot["coefficients"][k] @ precision, known @ shot["coefficients"][k]
            scale, left, mean, total = np.ones(1), np.zeros(1), np.zeros((1, p), np.float32), np.zeros(p)
            y = encoded.astype(float) if self.ratings.continuous else np.zeros(n)
            for sweep in range(sweeps):
                f = z[:, :-1] @ x[0, :-1] + x[0, -1] + z[:, -1]
                if not self.ratings.continuous:
                    uniforms = rng.random(n)
                gammas, normals = rng.standard_gamma(defaults.SCALE_SHAPE + n / 2, 1), rng.random((1, p))
                sample_rows(
                    place[:1], pointer, place, place, levels, thresholds, y, f, x, z, scale, weight, noise,
                    defaults.SCALE_SHAPE, precision, shift, known, uniforms, gammas, normals, mean, left,
                )  # fmt: skip
                if sweep >= sweeps // 4:
                    total += mean[0] / (sweeps - sweeps // 4)
                    scales.append(np.log(scale[0] / shot["user_size"][k]))
            f = shot["rows"][k, :, :-1] @ total[:-1] + shot["rows"][k, :, -1] + total[-1] - shot["location"][k]
            target += f / (shot["size"][k] * n_shots)
        w = np.concatenate([self.item_factors, np.ones((len(target), 1))], axis=1).astype(float)
        gram = w.T @ w + 1e-9 * np.eye(w.shape[1])
        vector = np.linalg.solve(gram, w.T @ (target - self.item_bias))
        near = np.argsort(np.abs(np.log1p(shot["counts"]) - np.log1p(n)))[:20]
        variance = self.user_log_variance[near].mean(keepdims=True)
        return self.with_rows("user", vector[None, :], np.exp(np.mean(scales, keepdims=True)), variance)
