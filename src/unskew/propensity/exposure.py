"""Propensities from who saw what, calibrated on folds of the whole log; `dce-bayes` weighs both kinds together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unskew.posterior.defaults import FOLDS
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import one_blas_thread
from unskew.posterior.flat import RecordSpec, flat
from unskew.posterior.kernels import Float, Int
from unskew.propensity.base import OfKnown, Propensity, logit_of
from unskew.propensity.conditional import Folded, ridge_scorers
from unskew.propensity.scorers import JointScorer, Scorer, SpectralScorer, affordable
from unskew.special import expit

MOST_CELLS = 20_000_000
SAMPLED_ITEMS = 256

ByFold = tuple[str, Callable[[int], Any]]
"""A name, and the scorer that is built without a fold; without fold -1 it is that of the whole log."""


@dataclass(frozen=True)
class FittedExposure(OfKnown):
    """Answer P(seen) = sigmoid(a_u + x b), with each user's rate such that his p sum to his count."""

    name: str
    scorer: Scorer
    coefficients: Float
    rates: Float
    n_items: int
    base_logit: float
    state = flat

    @property
    def n_users(self) -> int:  # type: ignore[override]
        return len(self.rates)

    def known_logits(self, users: Int, items: Int) -> Float:
        return np.asarray(self.rates[users] + self.scorer.columns(users, items) @ self.coefficients)


def with_rates(log: Pairs, found: Folded | FittedExposure, rng: np.random.Generator) -> FittedExposure:
    """Find each user's rate, in blocks of users; above 20 million cells over the top items and a sample of the rest."""
    seen, n_items = log.seen(), log.n_items  # a pair of several rows is seen once
    counts, popularity = np.diff(seen.indptr), np.asarray(seen.sum(axis=0)).ravel()
    chosen, stands_for = np.arange(n_items), np.ones(n_items)
    if log.n_users * n_items > MOST_CELLS and n_items > 2 * SAMPLED_ITEMS:
        order = np.argsort(-popularity, kind="stable")
        rest = order[SAMPLED_ITEMS:][rng.permutation(n_items - SAMPLED_ITEMS)[:SAMPLED_ITEMS]]
        chosen = np.concatenate([order[:SAMPLED_ITEMS], rest])
        stands_for = np.r_[np.ones(SAMPLED_ITEMS), np.full(SAMPLED_ITEMS, n_items / SAMPLED_ITEMS - 1)]
    target, rates = np.clip(counts.astype(float), 0.01, n_items * 0.999), []
    for rows in np.array_split(np.arange(log.n_users), -(-log.n_users * len(chosen) // 1_000_000)):
        eta = found.scorer.columns(np.repeat(rows, len(chosen)), np.tile(chosen, len(rows))) @ found.coefficients
        rates.append(solved_rates(eta.reshape(len(rows), -1), stands_for, target[rows]))
    base_logit = float(logit_of(seen.nnz / (log.n_users * n_items)))
    return FittedExposure(found.name, found.scorer, found.coefficients, np.concatenate(rates), n_items, base_logit)


def solved_rates(eta: Float, weight: Float, target: Float) -> Float:
    """Return a with sum of weight sigmoid(a + eta) = target in every row: Newton's steps within what holds the root."""
    top = eta.max(axis=1)
    low = np.log(target / (np.exp(eta - top[:, None]) @ weight)) - top - 1e-6  # p is below exp: the root lies above
    high, a = np.full(len(eta), np.inf), low
    for _ in range(60):
        p = expit(a[:, None] + eta)
        gap = p @ weight - target
        low, high = np.where(gap < 0, a, low), np.where(gap < 0, high, a)
        new = a - np.clip(gap / np.maximum((p * (1 - p)) @ weight, 1e-9), -1, 1)
        new = np.where((new <= low) | (new >= high), (low + np.minimum(high, low + 2)) / 2, new)
        change, a = np.abs(new - a).max(), new
        if change < 1e-5:
            break
    return np.asarray(a)


class ExposureSpec(RecordSpec, Propensity):
    """Settings of a propensity that learns from seen pairs alone."""

    fitted, needs_all_pairs = FittedExposure, True

    @abstractmethod
    def scorers(self, log: Pairs, fold: Any) -> ByFold:
        """Return scorers to calibrate."""

    def by_folds(self, log: Pairs, fold: Any, rng: np.random.Generator) -> Folded:
        """Return the scorers, calibrated."""
        return Folded.of(*self.scorers(log, fold), log, fold, rng)

    @one_blas_thread
    def fit_in(self, given: Any) -> FittedExposure:
        log, rng = Pairs.of(given.log), np.random.default_rng([given.seed, 21])
        return with_rates(log, self.by_folds(log, log.folds(FOLDS, rng), rng), rng)


@dataclass(frozen=True, kw_only=True)
class Spectral(ExposureSpec):
    """Counts of users and items times what the leading directions of the seen matrix add; for logs of any size."""

    directions: int = 32

    def scorers(self, log: Pairs, fold: Any) -> ByFold:
        return "spectral", cache(lambda k: SpectralScorer.of(log.rows(fold != k), self.directions))


@dataclass(frozen=True, kw_only=True)
class Ridge(ExposureSpec):
    """A ridge of every item on all others in closed form, up to 3,000 users or items; its penalty by held-out pairs."""

    penalty: float | None = None

    def scorers(self, log: Pairs, fold: Any) -> ByFold:
        found, without = ridge_scorers(log, fold, self.penalty)
        return f"ridge, penalty {found:g}", without


class Joint(ExposureSpec):
    """Both of these, weighed together: likelier than either on held-out pairs, where the ridge is affordable."""

    def scorers(self, log: Pairs, fold: Any) -> ByFold:
        name, spectral = Spectral().scorers(log, fold)
        if not affordable(log):
            return name, spectral
        also, ridge = Ridge().scorers(log, fold)
        return f"{name} and {also}", lambda k: JointScorer(ridge(k), spectral(k))
