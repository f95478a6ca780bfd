"""Weigh what seeing depends on by a conditional likelihood on folds.

Within a user, held-out seen pairs compete with unseen ones: P(item | user sees one more) = exp(x b) / sum over items.
All held-out seen pairs are used and a weighted sample of unseen ones, so that nothing holds |users| x |items|.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.population import draw_unseen
from unskew.errors import DataError
from unskew.posterior.exposure import Pairs
from unskew.posterior.kernels import Float, Int
from unskew.propensity.scorers import Gram, RidgeScorer, Scorer, affordable

UNSEEN = 40_000
"""Unseen pairs that are drawn for a fold, within 50 and 500 a user."""
MOST_USERS = 4000
PENALTIES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)

FoldColumns = Callable[[int, Int, Int], Float]
"""Answers fold k, users, items with a row of numbers a pair, from pairs outside of the fold alone."""
Probability = Callable[[Int, Int], Float]


class Folded(NamedTuple):
    """Hold a scorer of the whole log, columns of those built without a fold, and their weights."""

    name: str
    scorer: Scorer
    columns: FoldColumns
    coefficients: Float
    held_out: Float
    """x b of every pair while its fold was left out; nan where nobody else had seen the item."""

    @staticmethod
    def of(name: str, without: Callable[[int], Scorer], log: Pairs, fold: Int, rng: np.random.Generator) -> Folded:
        """Calibrate scorers that are built without a fold."""

        def columns(k: int, users: Int, items: Int) -> Float:
            return without(k).columns(users, items)

        coefficients, _, held_out = calibrate(log, fold, columns, rng)
        return Folded(name, without(-1), columns, coefficients, held_out)


def calibrate(
    log: Pairs, fold: Int, columns: FoldColumns, rng: np.random.Generator, *,
    events: NDArray[np.bool_] | None = None, n_folds: int | None = None, unseen: int = UNSEEN,
) -> tuple[Float, float, Float]:  # fmt: skip
    """Fit coefficients by which columns built without fold k tell the events of fold k from unseen pairs.

    `events` are the pairs that count (by default all); pairs of the log that are no events never stand as unseen.
    Return them with the mean log-chance of an event among all unseen pairs of its user, and x b of every event.
    """
    events = np.ones(len(log.users), bool) if events is None else events
    chosen = np.zeros(log.n_users, bool)
    chosen[rng.permutation(log.n_users)[:MOST_USERS]] = True
    draws = int(np.clip(unseen / max(int(chosen.sum()), 1), 50, 500))
    seen, parts, places = log.seen(), [], []
    for k in range(int(fold.max()) + 1 if n_folds is None else n_folds):
        known = np.bincount(log.items[fold != k], minlength=log.n_items) > 0
        held = np.flatnonzero((fold == k) & events & known[log.items] & chosen[log.users])
        if len(held) == 0:
            continue
        u, i, weight = draw_unseen(seen, np.unique(log.users[held]), draws, rng)
        u, i, weight = u[known[i]], i[known[i]], weight[known[i]]
        a, b = np.concatenate([log.users[held], u]), np.concatenate([log.items[held], i])
        y = np.r_[np.ones(len(held)), np.zeros(len(u))]
        parts.append((columns(k, a, b), y, np.r_[np.ones(len(held)), weight], a + k * log.n_users))
        places.append(held)
    if not parts:
        raise DataError("no user has a pair to hold out among items that others have seen; give more pairs.")
    x, y, w, group = (np.concatenate(column) for column in zip(*parts, strict=True))
    coefficients, likelihood = conditional_logit(x, y, w, group)
    held_out = np.full(len(log.users), np.nan)
    held_out[np.concatenate(places)] = x[y == 1] @ coefficients
    return coefficients, likelihood, held_out


def conditional_logit(x: Float, y: Float, weight: Float, group: Int) -> tuple[Float, float]:
    """Fit a multinomial within groups by Newton's method; return coefficients and the mean log-chance."""
    order = np.argsort(group, kind="stable")
    x, y, weight, group = x[order], y[order], weight[order], np.unique(group[order], return_inverse=True)[1]
    sd = x.std(axis=0)
    sd = np.where(sd > 1e-9, sd, np.inf)
    z = (x - x.mean(axis=0)) / sd
    first = np.flatnonzero(np.r_[True, np.diff(group) > 0])
    held = np.add.reduceat(y, first)
    b, best = np.zeros(z.shape[1]), -np.inf
    step = np.zeros_like(b)
    for _ in range(50):
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
    return b / sd, best / float(y.sum())


def ridge_scorers(log: Pairs, fold: Int, penalty: float | None = None) -> tuple[float, Callable[[int], RidgeScorer]]:
    """Find the penalty by the held-out likelihood of two folds; return it with the scorers built without a fold.

    That without fold -1 is of the whole log.
    """
    n_folds = int(fold.max()) + 1
    gram = cache(lambda k: Gram(log.rows(fold != k), 1 - (k >= 0) / n_folds))
    scorer = lru_cache(n_folds)(lambda k, at: gram(k).scorer(at))

    def likelihood(at: float) -> float:
        draws = np.random.default_rng(7)  # penalties are compared on the same pairs
        return calibrate(
            log, fold, lambda k, u, i: scorer(k, at).columns(u, i), draws, n_folds=min(2, n_folds), unseen=UNSEEN // 2
        )[1]

    found = penalty or best_of(PENALTIES, likelihood)
    return found, lambda k: scorer(k, found)


def best_of(values: tuple[float, ...], score: Callable[[float], float]) -> float:
    """Return the value of the highest score, climbing from the middle: scores have one peak."""
    place, score = len(values) // 2, cache(score)
    while (best := max(values[max(place - 1, 0) : place + 2], key=score)) != values[place]:
        place = values.index(best)
    return best


@dataclass(frozen=True)
class Choice:
    """Rank by what a user would pick and like: hold weights of columns and, where affordable, a ridge on liked pairs.

    The columns of an exposure, log P(liked) and log z of the ridge are weighed by the conditional likelihood of
    held-out liked pairs. The plain product P(seen) P(liked) is what propensity and explanation use.
    """

    coefficients: Float
    ridge: RidgeScorer | None

    def scores(self, exposure: Scorer, liked: Probability, users: Int, items: Int) -> Float:
        """Return what to rank by: a log-chance up to a number a user."""
        known = exposure.columns(users, items), liked(users, items)
        return np.asarray(choice_columns(*known, self.ridge, users, items) @ self.coefficients)


def choice_columns(exposure: Float, liked: Float, ridge: RidgeScorer | None, users: Int, items: Int) -> Float:
    """Join exposure's columns, of two kinds those of the ridge, log P(liked), log z of liked pairs."""
    found = [exposure[:, :3], np.log(np.maximum(liked, 1e-12))[:, None]]
    if ridge is not None:
        found.append(np.log(np.maximum(ridge.scores(users, items), 0) + 0.01)[:, None])
    return np.concatenate(found, axis=1)


def fit_choice(
    log: Pairs, liked: Int, fold: Int, exposure: Folded, by_fold: Mapping[int, Probability], rng: np.random.Generator
) -> Choice:
    """Weigh the columns on held-out liked pairs; `by_fold[k]` answers P(liked) without having seen fold k."""
    events = liked == 1
    without: Callable[[int], RidgeScorer | None] = lambda k: None  # noqa: E731
    if affordable(log):
        without = ridge_scorers(log.rows(events), fold[events])[1]

    def columns(k: int, users: Int, items: Int) -> Float:
        return choice_columns(exposure.columns(k, users, items), by_fold[k](users, items), without(k), users, items)

    return Choice(calibrate(log, fold, columns, rng, events=events)[0], without(-1))
