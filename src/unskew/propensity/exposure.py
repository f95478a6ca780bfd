"""Propensities from who saw what, weighed by a conditional likelihood on folds; `dce-bayes` takes both kinds together.

Within a user, held-out seen pairs compete with unseen ones: P(item | user sees one more) = exp(x b) / sum over items.
All held-out seen pairs are used and a weighted sample of unseen ones, so that nothing holds |users| x |items|.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.population import draw_unseen
from unskew.errors import DataError
from unskew.losses.columns import logit
from unskew.nets.near import LOG_LIKED, Near
from unskew.posterior.defaults import FOLDS
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import one_blas_thread
from unskew.posterior.flat import RecordSpec, flat
from unskew.posterior.kernels import Float, Int
from unskew.propensity.base import OfKnown, Propensity
from unskew.propensity.scorers import Gram, JointScorer, RidgeScorer, Scorer, SpectralScorer, affordable
from unskew.settings import setting
from unskew.special import expit

ALONE = "no item has two ratings that could be held out in turn: nothing tells who sees what; give more ratings."
UNSEEN = 40_000
"""Unseen pairs that are drawn for a fold, within 50 and 500 a user."""
MOST_USERS = 4000
PENALTIES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)

FoldColumns = Callable[[int, Int, Int], Float]
"""Answers fold k, users, items with a row of numbers a pair, from pairs outside of the fold alone."""
Probability = Callable[[Int, Int], Float]
MOST_CELLS = 20_000_000
SAMPLED_ITEMS = 256

ByFold = tuple[str, Callable[[int], Any]]
"""A name, and the scorer that is built without a fold; without fold -1 it is that of the whole log."""


class Folded(NamedTuple):
    """Hold a scorer of the whole log, columns of those built without a fold, and their weights."""

    name: str
    scorer: Scorer
    columns: FoldColumns
    coefficients: Float
    held_out: Float
    """x b of every pair while its fold was left out; nan where nobody else had seen the item."""


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
    seen, parts, places = log.seen(), list[Any](), list[Int]()
    for k in range(int(fold.max()) + 1):
        if len(parts) == n_folds:
            break
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
        raise DataError(ALONE)
    x, y, w, group = (np.concatenate(column) for column in zip(*parts, strict=True))
    coefficients, likelihood = conditional_logit(x, y, w, group)
    held_out = np.full(len(log.users), np.nan)
    held_out[np.concatenate(places)] = x[y == 1] @ coefficients
    return coefficients, likelihood, held_out


def can_be_held_out(log: Pairs, fold: Int) -> bool:
    """Return whether any pair is of an item that another fold knows."""
    by_fold = np.unique(fold * log.n_items + log.items) % log.n_items
    return bool(np.bincount(by_fold).max(initial=0) > 1)


def conditional_logit(x: Float, y: Float, weight: Float, group: Int) -> tuple[Float, float]:
    """Fit a multinomial within groups by Newton's method; return coefficients and the mean log-chance."""
    order = np.argsort(group, kind="stable")
    x, y, weight, begins = x.T[:, order], y[order], weight[order], np.diff(group[order], prepend=-1) > 0
    sd = x.std(axis=1)
    sd = np.where(sd > 1e-9, sd, np.inf)
    z = (x - x.mean(axis=1)[:, None]) / sd[:, None]  # a row a column: sums run along memory
    first, group = np.flatnonzero(begins), np.cumsum(begins) - 1
    held = np.add.reduceat(y, first)
    b, best = np.zeros(len(z)), -np.inf
    step = np.zeros_like(b)
    for _ in range(50):
        eta = b @ z
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
        weighted = z * m
        mean = np.add.reduceat(weighted, first, axis=1)
        curvature = weighted @ z.T - (mean / np.maximum(held, 1)) @ mean.T + 1e-6 * np.eye(len(b))
        step = np.linalg.solve(curvature, z @ (y - m))
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

    def near(self, exposure: Scorer, margin: Callable[[Int], Near]) -> Callable[[Int], Near]:
        """Return the same for users and all items at once."""
        first = exposure.ridge if isinstance(exposure, JointScorer) else exposure
        seeing = first.near(self.coefficients[:3])
        ridge = None if self.ridge is None else self.ridge.near(np.r_[0.0, 0.0, self.coefficients[4:]])

        def near(users: Int) -> Near:
            found = LOG_LIKED(margin(users)).line(0.0, self.coefficients[3]).plus(seeing(users))
            return found if ridge is None else found.plus(ridge(users))

        return near


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

    def near_logits(self) -> Callable[[Int], Near]:
        """Return the same for users and all items at once."""
        near = self.scorer.near(self.coefficients)
        return lambda users: near(users).line(self.rates[users, None], 1.0)


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
    base_logit = float(logit(seen.nnz / (log.n_users * n_items)))
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
        name, without = self.scorers(log, fold)

        def columns(k: int, users: Int, items: Int) -> Float:
            return np.asarray(without(k).columns(users, items))

        coefficients, _, held_out = calibrate(log, fold, columns, rng)
        return Folded(name, without(-1), columns, coefficients, held_out)

    @one_blas_thread
    def fit_in(self, given: Any) -> FittedExposure:
        log, rng = Pairs.of(given.log), np.random.default_rng([given.seed, 21])
        return with_rates(log, self.by_folds(log, log.folds(FOLDS, rng), rng), rng)


@dataclass(frozen=True, kw_only=True)
class Spectral(ExposureSpec):
    """Counts of users and items times what the leading directions of the seen matrix add; for logs of any size."""

    directions: int = setting(32, least=0)

    def scorers(self, log: Pairs, fold: Any) -> ByFold:
        return "spectral", cache(lambda k: SpectralScorer.of(log.rows(fold != k), self.directions))


@dataclass(frozen=True, kw_only=True)
class Ridge(ExposureSpec):
    """A ridge of every item on all others in closed form, up to 3,000 users or items; its penalty by held-out pairs."""

    penalty: float | None = setting(None, above=0)

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
