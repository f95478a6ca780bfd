"""A simulated world in which everything is known: every preference, every rating, every propensity.

Each pair has a utility z + e. What a recommender can explain of it is

    z(u, i) = c + a_u + b_i + v_u . w_i,

a and b normal, v and w on spheres so that the interaction is bounded; e ~ Logistic(0, 1) is what it cannot.
The rating is r = 1[z + e > 0], so P(r = 1) = sigma(z). Which pairs are seen is told in `unskew.datasets.selection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, xlog1py, xlogy

from unskew.data.ids import LARGEST_CODE, Vocabulary
from unskew.data.log import RatingLog
from unskew.data.pairs import Codes, pair_uniform
from unskew.data.scale import Scale
from unskew.datasets.checks import OfPairs, check_selection, check_shares, check_whole, probabilities, unknown_choice
from unskew.datasets.selection import (
    PAIRS_AT_ONCE,
    SOLVER_PAIRS,
    TILTS,
    Floats,
    Tilt,
    log_rates,
    seen_given_rating,
    seen_pairs,
    solved_log_scale,
)
from unskew.errors import DataError, ParameterError

_Column = NDArray[np.int32]
_Rated = tuple[_Column, _Column, NDArray[np.float32]]

_EFFECT_SPREAD = 0.7  # standard deviation of a_u and of b_i
_ACTIVITY_SPREAD = 0.8  # of log activity
_EXPOSURE_SPREAD = 1.0  # of log exposure
_TEST_USERS = 5_000
_LARGEST_SEED = 2**63 - 1
_FACTS, _TEST, _DRAW, _SAMPLE, _SOLVER = range(5)  # independent random streams of one seed

_EXPECTED_ERRORS: dict[str, Callable[[Floats, Floats], NDArray[np.floating]]] = {
    "squared": lambda q, prediction: q * np.square(1 - prediction) + (1 - q) * np.square(prediction),
    "log": lambda q, prediction: -xlogy(q, prediction) - xlog1py(1 - q, -prediction),
}


@dataclass(frozen=True, eq=False)
class World:
    """Users, items and the law by which ratings come to be and come to be seen; made by `simulate`.

    Ids are the codes 0 to n - 1. The rating of a pair and its unexplained liking are fixed facts of the
    world, computed from the pair when asked for; which pairs are seen differs from one draw to the next.
    """

    seed: int
    selection: str
    strength: float
    unexplained: float
    test_per_user: int
    user_effects: Floats = field(repr=False)
    item_effects: Floats = field(repr=False)
    user_factors: Floats = field(repr=False)
    item_factors: Floats = field(repr=False)
    log_activity: Floats = field(repr=False)
    log_exposure: Floats = field(repr=False)
    interaction_bound: float
    intercept: float = 0.0
    log_scale: float = 0.0

    @property
    def n_users(self) -> int:
        return len(self.user_effects)

    @property
    def n_items(self) -> int:
        return len(self.item_effects)

    @property
    def n_pairs(self) -> int:
        return self.n_users * self.n_items

    @property
    def tilt(self) -> Tilt:
        return TILTS[self.selection](self.strength, self.unexplained)

    @cached_property
    def log(self) -> RatingLog:
        """The log this world's users left behind: draw number 0."""
        return self.draw(0)

    @cached_property
    def test(self) -> RatingLog:
        """Ratings of random pairs: `test_per_user` distinct items for each of up to 5,000 random users.

        All drawn uniformly and without regard to the log, so a pair may by chance be in both.
        """
        rng = self._rng(_TEST)
        users = rng.choice(self.n_users, size=min(self.n_users, _TEST_USERS), replace=False)
        items = _distinct(rng, len(users), self.test_per_user, self.n_items)
        return self._as_log(*self._rated(np.repeat(users, self.test_per_user), items.ravel()))

    def draw(self, seed: int) -> RatingLog:
        """A fresh log of the same world, in random order: other pairs are seen, ratings stay as they are."""
        check_whole(seed=(seed, 0, _LARGEST_SEED))
        rng = self._rng(_DRAW, seed)
        chunks = [self._rated(users, items) for users, items in seen_pairs(self, rng)]
        users, items, ratings = (np.concatenate(column) for column in zip(*chunks, strict=True))
        order = rng.permutation(len(users))
        return self._as_log(users[order], items[order], ratings[order])

    def logit(self, users: Codes, items: Codes) -> Floats:
        """z(u, i), the part of a pair's utility that can be explained."""
        effects = self.intercept + self.user_effects[users] + self.item_effects[items]
        return np.asarray(effects + self.interaction(users, items))

    def interaction(self, users: Codes, items: Codes) -> Floats:
        """v_u . w_i, at most `interaction_bound` in size."""
        return np.asarray(np.einsum("...k,...k", self.user_factors[users], self.item_factors[items]))

    def preference(self, users: Codes, items: Codes) -> Floats:
        """P(rating = 1) = sigma(z)."""
        return np.asarray(expit(self.logit(users, items)))

    def unexplained_liking(self, users: Codes, items: Codes) -> Floats:
        """e(u, i), the part of a pair's utility that cannot be explained: logistic, and fixed for a pair."""
        return np.asarray(logit(pair_uniform(self.seed, users, items)))

    def rating(self, users: Codes, items: Codes) -> NDArray[np.float32]:
        """The rating the pair has, seen or not: 1[z + e > 0]."""
        utility = self.logit(users, items) + self.unexplained_liking(users, items)
        return (utility > 0).astype(np.float32)

    def log_rate(self, users: Codes, items: Codes) -> Floats:
        """log lambda of each pair, given all its facts: also its own rating and unexplained liking."""
        return log_rates(self, users, items)

    def propensity(self, users: Codes, items: Codes, ratings: ArrayLike | None = None) -> Floats:
        """The true P(seen) of each pair or, with `ratings`, P(seen | rating); e is averaged over."""
        z = self.logit(users, items)
        liked, disliked = seen_given_rating(self, users, items, z)
        if ratings is None:
            return np.asarray(disliked + expit(z) * (liked - disliked))
        given = np.asarray(ratings)
        if odd := given[(given != 0) & (given != 1)].ravel()[:1].tolist():
            raise DataError(f"A rating of {odd[0]} was asked for: ratings of a simulated world are 0 or 1.")
        return np.where(given == 1, liked, disliked)

    def pairs(self, max_pairs: int | None = None) -> Iterator[tuple[Codes, Codes]]:
        """All pairs, as chunks of codes; if there are more than `max_pairs`, a uniform sample."""
        total = self.n_pairs if max_pairs is None else min(max_pairs, self.n_pairs)
        rng = self._rng(_SAMPLE)
        for start in range(0, total, PAIRS_AT_ONCE):
            stop = min(start + PAIRS_AT_ONCE, total)
            sampled = total < self.n_pairs
            places = rng.integers(self.n_pairs, size=stop - start) if sampled else np.arange(start, stop)
            yield np.divmod(places, self.n_items)

    def risk(self, predict: OfPairs, error: str = "squared", max_pairs: int = 2_000_000) -> float:
        """The true error of `predict`: the mean over all pairs of q e(1) + (1 - q) e(0), where q = sigma(z).

        `predict` maps user and item codes to probabilities. Beyond `max_pairs` a uniform sample of that many
        pairs, always the same, stands for all.
        """
        if error not in _EXPECTED_ERRORS:
            raise ParameterError(unknown_choice("error", error, tuple(_EXPECTED_ERRORS)))
        expected = _EXPECTED_ERRORS[error]
        return self._mean(lambda u, i: expected(self.preference(u, i), probabilities(predict, u, i)), max_pairs)

    def propensity_error(self, propensity: OfPairs, max_pairs: int = 2_000_000) -> float:
        """Mean |p - p_hat| over the pairs that `risk` averages over."""
        return self._mean(lambda u, i: np.abs(self.propensity(u, i) - probabilities(propensity, u, i)), max_pairs)

    def _mean(self, score: Callable[[Codes, Codes], NDArray[np.floating]], max_pairs: int) -> float:
        check_whole(max_pairs=(max_pairs, 1, math.inf))
        sums = [(float(score(users, items).sum()), len(users)) for users, items in self.pairs(max_pairs)]
        return sum(total for total, _ in sums) / sum(count for _, count in sums)

    def _rated(self, users: Codes, items: Codes) -> _Rated:
        return users.astype(np.int32), items.astype(np.int32), self.rating(users, items)

    def _as_log(self, users: _Column, items: _Column, ratings: NDArray[np.float32]) -> RatingLog:
        if not 0 < np.count_nonzero(ratings) < len(ratings):
            raise ParameterError(
                f"The {len(ratings)} ratings drawn are not of both classes: raise the density, "
                "or test_per_user, or move positive_rate towards a half."
            )
        return RatingLog(users, items, ratings, *self._ids, Scale(positive=1, low=0, high=1))

    @cached_property
    def _ids(self) -> tuple[Vocabulary, Vocabulary]:
        return Vocabulary(np.arange(self.n_users)), Vocabulary(np.arange(self.n_items))

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])


def simulate(
    n_users: int = 1000,
    n_items: int = 500,
    density: float = 0.05,
    selection: str = "taste",
    strength: float = 0.5,
    unexplained: float = 1.0,
    n_factors: int = 8,
    interaction: float = 0.9,
    positive_rate: float = 0.35,
    test_per_user: int = 20,
    seed: int = 0,
) -> World:
    """A world of known preferences in which a share `density` of all pairs is expected to be seen.

    `selection` (see `unskew.datasets.selection`) says what seeing a pair depends on and `strength` how much;
    `interaction` is the standard deviation of v_u . w_i and `positive_rate` the mean preference. Worlds that
    differ only in selection, strength, unexplained and density have the same users, items, ratings and test.
    """
    check_whole(n_users=(n_users, 2, LARGEST_CODE), n_items=(n_items, 2, LARGEST_CODE))
    check_whole(n_factors=(n_factors, 1, 10_000), test_per_user=(test_per_user, 1, n_items))
    check_whole(seed=(seed, 0, _LARGEST_SEED))
    check_shares(density=density, positive_rate=positive_rate)
    check_selection(selection, strength, unexplained, interaction)
    if density * n_users * n_items < 2:
        raise ParameterError(f"density {density} of {n_users} x {n_items} pairs is not even 2 ratings: raise it.")
    rng = np.random.default_rng([seed, _FACTS])
    bound = interaction * np.sqrt(n_factors)  # as v . w / |v| |w| has variance 1 / n_factors
    uneven = selection != "uniform"
    world = World(
        seed=seed,
        selection=selection,
        strength=strength,
        unexplained=unexplained,
        test_per_user=test_per_user,
        user_effects=_EFFECT_SPREAD * rng.standard_normal(n_users),
        item_effects=_EFFECT_SPREAD * rng.standard_normal(n_items),
        user_factors=_on_sphere(rng, n_users, n_factors, np.sqrt(bound)),
        item_factors=_on_sphere(rng, n_items, n_factors, np.sqrt(bound)),
        log_activity=uneven * _ACTIVITY_SPREAD * rng.standard_normal(n_users),
        log_exposure=uneven * _EXPOSURE_SPREAD * rng.standard_normal(n_items),
        interaction_bound=float(bound),
    )
    world = replace(world, intercept=_intercept(world, positive_rate))
    return replace(world, log_scale=solved_log_scale(world, density, world._rng(_SOLVER)))


def _intercept(world: World, positive_rate: float) -> float:
    """The c that makes `positive_rate` the mean of sigma(z) over all pairs or a uniform sample of many."""
    z = np.concatenate([world.logit(users, items) for users, items in world.pairs(SOLVER_PAIRS)])
    reach = float(np.abs(z).max() + abs(logit(positive_rate)) + 1)
    return float(brentq(lambda c: expit(c + z).mean() - positive_rate, -reach, reach))


def _distinct(rng: np.random.Generator, n_rows: int, per_row: int, n: int) -> Codes:
    """For each row a uniformly random set of `per_row` codes below n (Floyd's algorithm on all rows)."""
    chosen = np.empty((n_rows, per_row), dtype=np.int64)
    for column, last in enumerate(range(n - per_row, n)):
        pick = rng.integers(last + 1, size=n_rows)
        taken = (chosen[:, :column] == pick[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, pick)
    return chosen


def _on_sphere(rng: np.random.Generator, n: int, n_factors: int, radius: float) -> Floats:
    directions = rng.standard_normal((n, n_factors))
    return np.asarray(radius * directions / np.linalg.norm(directions, axis=1, keepdims=True))
