"""Calibrate scores of seeing by a conditional likelihood on folds.

Within a user, held-out seen pairs compete with unseen ones: P(item | user sees one more) = exp(x b) / sum over items.
All held-out seen pairs are used and a weighted sample of unseen ones, so that nothing holds |users| x |items|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unskew.errors import DataError
from unskew.posterior.exposure import seen_matrix

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Int = NDArray[np.int64]

MOST_UNSEEN = 200_000
MOST_USERS = 4000
MOST_CELLS = 20_000_000
SAMPLED_ITEMS = 256


class Scorer(Protocol):
    """Tell, from the pairs it was built on, what the chance of seeing depends on."""

    def columns(self, users: Int, items: Int) -> Float:
        """Return one row of numbers a pair."""


@dataclass(frozen=True)
class Calibration:
    """Hold coefficients of a scorer's columns, and what left-out pairs tell about them."""

    coefficients: Float
    errors: Float
    log_likelihood: float
    """Mean log-chance of a held-out seen pair among all unseen ones of its user."""
    held_out: Float
    """x b of every event while its fold was left out; nan where it was not an event."""

    @staticmethod
    def of(coefficients: Float) -> Calibration:
        """Return a calibration read from a folder, of which only the coefficients are kept."""
        return Calibration(coefficients, np.full(len(coefficients), np.nan), np.nan, np.zeros(0))


def calibrate(
    users: Int, items: Int, n_users: int, n_items: int, fold: Int, make: Callable[[int], Scorer],
    rng: np.random.Generator, *, events: NDArray[np.bool_] | None = None, folds: int | None = None,
) -> Calibration:  # fmt: skip
    """Fit coefficients by which `make(k)`, built without fold k, tells the events of fold k from unseen pairs.

    `events` are the pairs that count (by default all); pairs of the log that are no events never stand as unseen.
    """
    n_folds = int(fold.max()) + 1 if folds is None else folds
    events = np.ones(len(users), bool) if events is None else events
    chosen = np.zeros(n_users, bool)
    chosen[rng.permutation(n_users)[:MOST_USERS]] = True
    draws = int(np.clip(MOST_UNSEEN / n_folds / max(int(chosen.sum()), 1), 50, 500))
    seen = seen_matrix(users, items, n_users, n_items)
    parts, places = [], []
    for k in range(n_folds):
        scorer = make(k)
        known = np.bincount(items[fold != k], minlength=n_items) > 0
        held = np.flatnonzero((fold == k) & events & known[items] & chosen[users])
        rows = np.unique(users[held])
        if len(rows) == 0:
            continue
        u, i = np.repeat(rows, draws), rng.integers(n_items, size=draws * len(rows))
        unseen = (np.asarray(seen[u, i]).ravel() == 0) & known[i]
        u, i = u[unseen], i[unseen]
        # each stands for its share of the items that the user has not seen
        weight = np.bincount(users, minlength=n_users)[u]
        weight = np.maximum(known.sum() - weight, 1) / np.maximum(np.bincount(u, minlength=n_users)[u], 1)
        a, b = np.concatenate([users[held], u]), np.concatenate([items[held], i])
        y = np.concatenate([np.ones(len(held)), np.zeros(len(u))])
        parts.append(
            (scorer.columns(a, b), y, np.where(y == 1, 1.0, np.r_[np.ones(len(held)), weight]), a + k * n_users)
        )
        places.append(held)
    if not parts:
        raise DataError("no user has a pair to hold out among items that others have seen; give more pairs.")
    x, y, w, group = (np.concatenate(column) for column in zip(*parts, strict=True))
    coefficients, errors, likelihood = conditional_logit(x, y, w, group)
    held_out = np.full(len(users), np.nan)
    held_out[np.concatenate(places)] = x[y == 1] @ coefficients
    return Calibration(coefficients, errors, likelihood, held_out)


def conditional_logit(x: Float, y: Float, weight: Float, group: Int, steps: int = 50) -> tuple[Float, Float, float]:
    """Fit a multinomial within groups by Newton's method; return coefficients, standard errors, mean log-chance."""
    order = np.argsort(group, kind="stable")
    x, y, weight, group = x[order], y[order], weight[order], np.unique(group[order], return_inverse=True)[1]
    mean, sd = x.mean(axis=0), x.std(axis=0)
    sd = np.where(sd > 1e-9, sd, np.inf)
    z = (x - mean) / sd
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
        m = e / total[group] * held[group]
        centre = np.add.reduceat(z * e[:, None], first) / total[:, None]
        curvature = (z * m[:, None]).T @ z - (centre * held[:, None]).T @ centre + 1e-6 * np.eye(len(b))
        step = np.linalg.solve(curvature, z.T @ (y - m))
        b = b + step
        if np.abs(step).max() < 1e-8:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(curvature))) / sd
    return b / sd, errors, best / float(y.sum())


@dataclass(frozen=True)
class FittedExposure:
    """Answer P(seen) = sigmoid(a_u + x b), with each user's rate such that his p sum to his count."""

    scorer: Scorer
    calibration: Calibration
    rates: Float
    name: str
    without: Callable[[int], Scorer]
    """The scorer built without a fold, as calibration used it."""

    def linear(self, users: Int, items: Int) -> Float:
        """Return x b: the log-odds of seeing up to a number a user."""
        result: Float = self.scorer.columns(users, items) @ self.calibration.coefficients
        return result

    def logits(self, users: Int, items: Int) -> Float32:
        """Return log-odds of seeing."""
        return (self.rates[users] + self.linear(users, items)).astype(np.float32)

    def held_out_logits(self, users: Int) -> Float32:
        """Return log-odds of the log's own pairs, each from the fold that had not seen it (nan where none had)."""
        return (self.rates[users] + self.calibration.held_out).astype(np.float32)


def with_rates(
    scorer: Scorer, calibration: Calibration, users: Int, n_users: int, n_items: int, rng: np.random.Generator,
    name: str, without: Callable[[int], Scorer], popularity: Float,
) -> FittedExposure:  # fmt: skip
    """Find each user's rate, in blocks of users; above 20 million cells over the top items and a sample of the rest."""
    counts = np.bincount(users, minlength=n_users).astype(float)
    chosen, stands_for = np.arange(n_items), np.ones(n_items)
    if n_users * n_items > MOST_CELLS and n_items > 2 * SAMPLED_ITEMS:
        order = np.argsort(-popularity, kind="stable")
        rest = order[SAMPLED_ITEMS:][rng.permutation(n_items - SAMPLED_ITEMS)[:SAMPLED_ITEMS]]
        chosen = np.concatenate([order[:SAMPLED_ITEMS], rest])
        stands_for = np.r_[np.ones(SAMPLED_ITEMS), np.full(SAMPLED_ITEMS, n_items / SAMPLED_ITEMS - 1)]
    target = np.clip(counts, 0.01, n_items * 0.999)
    rates = np.zeros(n_users)
    block = max(1, 1_000_000 // len(chosen))
    for start in range(0, n_users, block):
        rows = np.arange(start, min(start + block, n_users))
        eta = scorer.columns(np.repeat(rows, len(chosen)), np.tile(chosen, len(rows))) @ calibration.coefficients
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
    return FittedExposure(scorer, calibration, rates, name, without)
