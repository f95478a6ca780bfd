"""Calibrate scores of seeing by a conditional likelihood on folds.

Within a user, held-out seen pairs compete with unseen ones: P(item | user sees one more) = exp(x b) / sum over items.
All held-out seen pairs are used and a weighted sample of unseen ones, so that nothing holds |users| x |items|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unskew.errors import DataError
from unskew.posterior.draws import Float, Float32, Int
from unskew.posterior.exposure import Pairs
from unskew.posterior.flat import flat
from unskew.propensity.base import FittedPropensity, logit_of
from unskew.propensity.scorers import RidgeScorer, SpectralScorer

UNSEEN = 40_000
"""Unseen pairs that are drawn for a fold, within 50 and 500 a user."""
MOST_USERS = 4000
MOST_CELLS = 20_000_000
SAMPLED_ITEMS = 256


class Scorer(Protocol):
    """Tell, from the pairs it was built on, what the chance of seeing depends on."""

    def columns(self, users: Int, items: Int) -> Float:
        """Return one row of numbers a pair, the first of them the logarithm of the item's count."""


class Calibration(NamedTuple):
    """Hold coefficients of a scorer's columns, and what left-out pairs tell about them."""

    coefficients: Float
    errors: Float
    log_likelihood: float
    """Mean log-chance of a held-out seen pair among all unseen ones of its user."""
    held_out: Float
    """x b of every event while its fold was left out; nan where it was not an event."""


class Folded(NamedTuple):
    """Hold a scorer of the whole log, those built without a fold, and the calibration that the folds gave."""

    name: str
    scorer: RidgeScorer | SpectralScorer
    without: Callable[[int], Scorer]
    calibration: Calibration


def calibrate(
    log: Pairs, fold: Int, make: Callable[[int], Scorer], rng: np.random.Generator, *,
    events: NDArray[np.bool_] | None = None, n_folds: int | None = None, unseen: int = UNSEEN,
) -> Calibration:  # fmt: skip
    """Fit coefficients by which `make(k)`, built without fold k, tells the events of fold k from unseen pairs.

    `events` are the pairs that count (by default all); pairs of the log that are no events never stand as unseen.
    """
    events = np.ones(len(log.users), bool) if events is None else events
    chosen = np.zeros(log.n_users, bool)
    chosen[rng.permutation(log.n_users)[:MOST_USERS]] = True
    draws = int(np.clip(unseen / max(int(chosen.sum()), 1), 50, 500))
    seen, counts = log.seen(), log.counts()[0]
    parts, places = [], []
    for k in range(int(fold.max()) + 1 if n_folds is None else n_folds):
        known = np.bincount(log.items[fold != k], minlength=log.n_items) > 0
        held = np.flatnonzero((fold == k) & events & known[log.items] & chosen[log.users])
        rows = np.unique(log.users[held])
        if len(rows) == 0:
            continue
        u, i = np.repeat(rows, draws), rng.integers(log.n_items, size=draws * len(rows))
        fresh = (np.asarray(seen[u, i]).ravel() == 0) & known[i]
        u, i = u[fresh], i[fresh]
        # each stands for its share of the items that the user has not seen
        weight = np.maximum(known.sum() - counts[u], 1) / np.maximum(np.bincount(u, minlength=log.n_users)[u], 1)
        a, b = np.concatenate([log.users[held], u]), np.concatenate([log.items[held], i])
        y = np.r_[np.ones(len(held)), np.zeros(len(u))]
        parts.append((make(k).columns(a, b), y, np.r_[np.ones(len(held)), weight], a + k * log.n_users))
        places.append(held)
    if not parts:
        raise DataError("no user has a pair to hold out among items that others have seen; give more pairs.")
    x, y, w, group = (np.concatenate(column) for column in zip(*parts, strict=True))
    coefficients, errors, likelihood = conditional_logit(x, y, w, group)
    held_out = np.full(len(log.users), np.nan)
    held_out[np.concatenate(places)] = x[y == 1] @ coefficients
    return Calibration(coefficients, errors, likelihood, held_out)


def conditional_logit(x: Float, y: Float, weight: Float, group: Int, steps: int = 50) -> tuple[Float, Float, float]:
    """Fit a multinomial within groups by Newton's method; return coefficients, standard errors, mean log-chance."""
    order = np.argsort(group, kind="stable")
    x, y, weight, group = x[order], y[order], weight[order], np.unique(group[order], return_inverse=True)[1]
    sd = x.std(axis=0)
    sd = np.where(sd > 1e-9, sd, np.inf)
    z = (x - x.mean(axis=0)) / sd
    first = np.flatnonzero(np.r_[True, np.diff(group) > 0])
    held = np.add.reduceat(y, first)
    b, best = np.zeros(z.shape[1]), -np.inf
    step = np.zeros_like(b)
    for _ in range(steps):
        eta = z @ b
        top = np.maximum.reduceat(eta, first)
        e = weight * np.exp(eta - top[group])
        total = np.add.reduceat(e, first)
        value = float((y * eta).sum() - (held * (np.log(total) + top)).sum())
        if value < best - 1e-9 * abs(best):  # a step too far: half of it
            step = step / 2
            b = b - step
            continue
        best = value
        m = e * (held / total)[group]
        mean = np.stack([np.add.reduceat(m * column, first) for column in z.T], axis=1)
        curvature = (z * m[:, None]).T @ z - (mean / np.maximum(held, 1)[:, None]).T @ mean + 1e-6 * np.eye(len(b))
        step = np.linalg.solve(curvature, z.T @ (y - m))
        b = b + step
        if np.abs(step).max() < 1e-6:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(curvature))) / sd
    return b / sd, errors, best / float(y.sum())


@dataclass(frozen=True)
class FittedExposure(FittedPropensity):
    """Answer P(seen) = sigmoid(a_u + x b), with each user's rate such that his p sum to his count.

    Of new users and items, and of the average one (-1), nothing is known: they have the base rate.
    """

    name: str
    scorer: RidgeScorer | SpectralScorer
    coefficients: Float
    rates: Float
    n_items: int
    base_logit: float

    def known(self, users: Int, items: Int) -> NDArray[np.bool_]:
        """Return which pairs are of the log's users and items."""
        return (users >= 0) & (items >= 0) & (users < len(self.rates)) & (items < self.n_items)

    def logits(self, users: Int, items: Int) -> Float32:
        """Return log-odds of seeing."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        known = self.known(users, items)
        found = np.full(len(users), self.base_logit, np.float32)
        u, i = users[known], items[known]
        found[known] = self.rates[u] + self.scorer.columns(u, i) @ self.coefficients
        return found

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays."""
        return flat(self)


def with_rates(log: Pairs, found: Folded, rng: np.random.Generator) -> FittedExposure:
    """Find each user's rate, in blocks of users; above 20 million cells over the top items and a sample of the rest."""
    counts, popularity = log.counts()
    n_items, coefficients = log.n_items, found.calibration.coefficients
    chosen, stands_for = np.arange(n_items), np.ones(n_items)
    if log.n_users * n_items > MOST_CELLS and n_items > 2 * SAMPLED_ITEMS:
        order = np.argsort(-popularity, kind="stable")
        rest = order[SAMPLED_ITEMS:][rng.permutation(n_items - SAMPLED_ITEMS)[:SAMPLED_ITEMS]]
        chosen = np.concatenate([order[:SAMPLED_ITEMS], rest])
        stands_for = np.r_[np.ones(SAMPLED_ITEMS), np.full(SAMPLED_ITEMS, n_items / SAMPLED_ITEMS - 1)]
    target = np.clip(counts, 0.01, n_items * 0.999)
    rates = np.zeros(log.n_users)
    block = max(1, 1_000_000 // len(chosen))
    for start in range(0, log.n_users, block):
        rows = np.arange(start, min(start + block, log.n_users))
        eta = found.scorer.columns(np.repeat(rows, len(chosen)), np.tile(chosen, len(rows))) @ coefficients
        eta = eta.reshape(len(rows), -1)
        top = eta.max(axis=1)
        a = np.log(target[rows] / (np.exp(eta - top[:, None]) @ stands_for)) - top  # right where p is small
        low, high = a - 1e-6, np.full(len(rows), np.inf)  # p is below exp: the root lies above
        for _ in range(60):
            p = expit(a[:, None] + eta)
            gap = p @ stands_for - target[rows]
            low, high = np.where(gap < 0, a, low), np.where(gap < 0, high, a)
            new = a - np.clip(gap / np.maximum((p * (1 - p)) @ stands_for, 1e-9), -1, 1)
            new = np.where((new <= low) | (new >= high), (low + np.minimum(high, low + 2)) / 2, new)
            change, a = np.abs(new - a).max(), new
            if change < 1e-5:
                break
        rates[rows] = a
    base_logit = float(logit_of(len(log.users) / (log.n_users * n_items)))
    return FittedExposure(found.name, found.scorer, coefficients, rates, n_items, base_logit)
