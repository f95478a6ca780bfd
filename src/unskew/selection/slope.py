"""Find, from the log alone, how strongly liking drives seeing, and move answers from the pairs people chose to all.

If a pair is seen at rate a_u b_i exp(s y) with y = f + noise, then log rate rises by s for one unit of f. Users and
items take up their own rates, and who-saw-what its directions, so s rests on the interactions: left-out seen pairs
are regressed on the interaction of f (from models that have not seen them) by a Poisson likelihood. What features
explain of f is one more column: people may come across what goes with their features whether they like it or not.

At such a rate y given seen is normal with its mean moved by s times its variance, and nothing else changes. Of that
variance, v is what the log leaves open in f; the rest is what no model explains, of which the share k drives seeing. So
for a random pair P(liked) = Phi((f - s (v + k noise) - t) / sqrt(noise + v)). k = 0: people choose by what could be
known beforehand; k = 1: they rate what they turn out to love. No log can tell k.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unskew.data.impressions import RATINGS, Wording
from unskew.data.population import draw_unseen
from unskew.posterior import defaults
from unskew.posterior.answers import Codes, Posterior
from unskew.posterior.chain import additive
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.kernels import Float, Float32, Int
from unskew.special import ndtr

MOST_CELLS = 400_000
MOST_USERS = 4000
CONTROLS = 4
USEFUL_ERROR = 0.25
"""A slope of .5 is strong; with a larger standard error the log could not show it."""
GRID = np.linspace(0.0, 1.0, 101)
ENOUGH, MOST_ERROR = 0.15, 0.3  # standard errors of k
STEP = 1e-3  # of k, by which chances are compared


@dataclass(frozen=True)
class Slope:
    """Hold the slope of log rate of seeing on liking, a unit being the noise of a rating, with its standard error."""

    value: float
    error: float
    calibration: float
    """How much of the models' interactions left-out ratings confirm."""

    @property
    def evidence(self) -> bool:
        """Return whether the slope exceeds two standard errors."""
        return bool(self.value > defaults.STANDARD_ERRORS * self.error)

    @property
    def used(self) -> float:
        """Return the slope where there is evidence, else 0."""
        return self.value if self.evidence else 0.0

    def sentence(self) -> str:
        """Say what the log tells."""
        figure = f"{self.value:.2f} +- {self.error:.2f}"
        if not math.isfinite(self.error):
            return "The log cannot tell whether liking drives seeing: the level is left as it is."
        if self.evidence:
            return f"Liking drives seeing: slope {figure} from the log alone."
        if self.error > USEFUL_ERROR:
            return f"The log cannot tell whether liking drives seeing (slope {figure}): the level is left as it is."
        return f"There is no evidence that liking drives seeing (slope {figure}): the level is left as it is."


@dataclass(frozen=True)
class Cells:
    """Hold pairs outside a fold's training rows: all of its seen pairs, unseen ones with the number they stand for."""

    users: Int
    items: Int
    seen: Float
    weight: Float
    parts: Float
    """Of f: the user's, the item's, and their interaction."""
    controls: Float
    rows: Int


def estimate_slope(
    log: Pairs, liked: Int, fold: Int, models: Mapping[int, Posterior], rng: np.random.Generator,
    features: tuple[Float | None, Float | None] = (None, None),
) -> Slope:  # fmt: skip
    """Estimate the slope from models by fold, each fitted without its fold's ratings; liked is 0 or 1."""
    if len(liked) < 200 or liked.min() == liked.max() or min(log.n_users, log.n_items) < 10:
        return Slope(0.0, math.inf, 0.0)
    cells = [cells_of(log, fold == k, models[k], rng, features) for k in sorted(models)]
    parts = [c.parts[c.seen == 1] for c in cells]
    answers = np.concatenate([liked[c.rows] for c in cells]).astype(float)
    coefficients, deviations = probit(
        np.concatenate([np.ones((len(answers), 1)), np.concatenate(parts)], axis=1), answers
    )
    calibration = float(coefficients[3])
    if calibration < defaults.STANDARD_ERRORS * deviations[3]:  # a slope is a ratio by it: one by noise can be anything
        return Slope(0.0, math.inf, calibration)
    found: list[tuple[Float, Float]] = []
    for c in cells:
        x = np.concatenate([calibration * c.parts[:, 2:], c.controls], axis=1)
        found.append(poisson_slopes(c, x, log.n_users, log.n_items, found[-1][0] if found else None))
    value = float(np.mean([slopes[0] for slopes, _ in found]))
    counted = float(np.mean([errors[0] ** 2 for _, errors in found])) / len(found)
    error = math.sqrt(counted + (value * float(deviations[3]) / calibration) ** 2)  # s is a ratio by the calibration
    return Slope(value, error, calibration)


def cells_of(
    log: Pairs, held: Int, model: Posterior, rng: np.random.Generator, features: tuple[Float | None, Float | None]
) -> Cells:
    """Gather all cells but the training rows where they are few, else a weighted sample of the unseen ones."""
    users, items, n_users, n_items, *_ = log
    chosen = np.arange(n_users)
    if n_users * n_items > MOST_CELLS:
        chosen = np.sort(rng.permutation(n_users)[:MOST_USERS])
    u, i, weight = draw_unseen(log.seen(), chosen, max(MOST_CELLS // len(chosen), 20), rng)
    rows = np.flatnonzero(held & np.isin(users, chosen))
    a, b = np.concatenate([users[rows], u]), np.concatenate([items[rows], i])
    y, w = np.r_[np.ones(len(rows)), np.zeros(len(u))], np.r_[np.ones(len(rows)), weight]
    f = model.scores(a, b)
    f = f - np.average(f, weights=w)
    user, item = additive(a, b, f, w, n_users, n_items, rounds=10)
    found = directions(log.rows(~held), most=CONTROLS, least=CONTROLS)
    controls = [found.users[a] * found.items[b]]
    if features[0] is not None and features[1] is not None:
        known = explained(model.users.vectors, features[0]), explained(model.items.vectors, features[1])
        controls.append((known[0][a] * known[1][b]).sum(axis=1, keepdims=True))
    parts = np.stack([user[a], item[b], f - user[a] - item[b]], axis=1)
    return Cells(a, b, y, w, parts, np.concatenate(controls, axis=1), rows)


def explained(rows: Float32, features: Float) -> Float:
    """Return what features explain of rows, linearly."""
    x = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    return np.asarray(x @ np.linalg.lstsq(x, rows[: len(x)], rcond=None)[0])


def probit(x: Float, y: Float) -> tuple[Float, Float]:
    """Fit P(y) = Phi(x b) by Fisher scoring; return b and its standard errors."""
    b = np.zeros(x.shape[1])
    for _ in range(50):
        eta = np.clip(x @ b, -8, 8)
        q = np.clip(ndtr(eta), 1e-9, 1 - 1e-9)
        density = np.exp(-(eta**2) / 2) / math.sqrt(2 * math.pi)
        information = (x * (density**2 / (q * (1 - q)))[:, None]).T @ x + 1e-9 * np.eye(len(b))
        step = np.linalg.solve(information, x.T @ (density * (y - q) / (q * (1 - q))))
        b = b + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            break
    return b, np.sqrt(np.diag(np.linalg.inv(information)))


def poisson_slopes(c: Cells, x: Float, n_users: int, n_items: int, start: Float | None = None) -> tuple[Float, Float]:
    """Fit seen ~ Poisson(a_u b_i exp(x s)), each cell standing for `weight`: Newton for s, rates by turns."""
    total_u, total_i = np.bincount(c.users, c.seen, n_users), np.bincount(c.items, c.seen, n_items)
    s, b = np.zeros(x.shape[1]) if start is None else start, np.full(n_items, c.seen.sum() / c.weight.sum())
    information, rest = np.eye(len(s)), x.T.copy()  # a row a column: sums run along memory
    for _ in range(40):
        e = c.weight * np.exp(np.clip(x @ s, -8, 8))
        for _ in range(4):
            a = total_u / np.maximum(np.bincount(c.users, e * b[c.items], n_users), 1e-12)
            b = total_i / np.maximum(np.bincount(c.items, e * a[c.users], n_items), 1e-12)
        m = a[c.users] * b[c.items] * e
        mass_u, mass_i = (np.maximum(np.bincount(k, m, n), 1e-12) for k, n in ((c.users, n_users), (c.items, n_items)))
        for column in rest:  # what users and items take up of it changes little from step to step
            column -= (np.bincount(c.users, m * column, n_users) / mass_u)[c.users]
            column -= (np.bincount(c.items, m * column, n_items) / mass_i)[c.items]
        information = (rest * m) @ rest.T + 1e-9 * np.eye(len(s))
        step = np.clip(np.linalg.solve(information, rest @ (c.seen - m)), -0.5, 0.5)
        s = s + step
        if np.abs(step).max() < 1e-4:
            break
    return s, np.sqrt(np.diag(np.linalg.inv(information)))


def shift(posterior: Posterior, users: Codes, items: Codes, slope: float, k: float) -> Float:
    """Return by how much f of seen pairs lies above that of random ones: s (v + k noise)."""
    return np.asarray(slope * (posterior.variance(users, items) + k * posterior.noise_variance(users, items)))


def random_pair_probability(posterior: Posterior, users: Int, items: Int, slope: float, k: float) -> Float:
    """Return P(liked) for pairs that nobody chose."""
    return posterior.probability(users, items, shift=shift(posterior, users, items, slope, k))


def most_likely_k(posterior: Posterior, users: Int, items: Int, liked: Int, slope: float) -> tuple[float, float]:
    """Return k by maximum likelihood from random ratings (0 or 1 each), and its standard error."""
    values = []
    for k in GRID:
        p = np.clip(random_pair_probability(posterior, users, items, slope, float(k)), 1e-9, 1 - 1e-9)
        values.append(float(np.where(liked == 1, np.log(p), np.log1p(-p)).sum()))
    best = float(GRID[int(np.argmax(values))])
    return best, 1 / math.sqrt(len(users) * information(posterior, users, items, slope, best))


def information(posterior: Posterior, users: Int, items: Int, slope: float, k: float) -> float:
    """Return what one random rating of these pairs tells of k, on average: (dp / dk)^2 / (p (1 - p))."""
    p = np.clip(random_pair_probability(posterior, users, items, slope, k), 1e-9, 1 - 1e-9)
    near = random_pair_probability(posterior, users, items, slope, k - STEP if k > 0.5 else k + STEP)
    return max(float(np.mean(((near - p) / STEP) ** 2 / (p * (1 - p)))), 1e-12)


def level(
    posterior: Posterior, slope: Slope, random: Pairs | None, rng: np.random.Generator, words: Wording = RATINGS
) -> tuple[float | None, list[str]]:
    """Return k if random ratings tell it, and sentences on how far the level depends on it."""
    if not slope.used:
        return None, []
    users, items = (rng.integers(n or 0, size=20_000) for n in posterior.sizes())
    k0, k1 = (random_pair_probability(posterior, users, items, slope.used, k).mean() for k in (0.0, 1.0))
    needed = math.ceil(1 / (information(posterior, users, items, slope.used, 0.5) * ENOUGH**2))
    sentences = [
        f"Over all pairs {k0:.0%} would be {words.won} if {words.beforehand} (k = 0), {k1:.0%} if {words.afterwards} "
        f"(k = 1): no log can tell, about {needed:,} random {words.rows} can."
    ]
    if random is None or not len(random.users):
        return None, sentences
    k, error = most_likely_k(posterior, random.users, random.items, random.ratings, slope.used)
    enough = error <= MOST_ERROR
    few = "" if enough else ": too few to tell"
    found = f"k = {k:.2f} +- {error:.2f} from {len(random.users):,} random {words.rows}{few}."
    return (k if enough else None), [*sentences, found]
