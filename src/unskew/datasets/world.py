"""A simulated world in which everything is known: every preference, every rating, every propensity.

Each pair has a utility z + e. What a recommender can explain of it is

    z(u, i) = c + a_u + b_i + v_u . w_i,

a and b normal, v and w on spheres so that the interaction is bounded; e ~ Logistic(0, 1) is what it cannot.
The rating is r = 1[z + e > 0], so P(r = 1) = sigma(z). A pair is seen when a Poisson process of rate

    lambda(u, i) = scale * activity_u * exposure_i * tilt(u, i)

has at least one event, so P(seen) = 1 - exp(-lambda) exactly. Activity and exposure are log-normal; the tilt:

    uniform      1, and activity and exposure are 1 as well: ratings missing completely at random
    popularity   1
    taste        exp(strength * z): explained liking
    rating       exp(strength * r): a rating of 1 multiplies lambda by exp(strength); no taste beyond it
    liking       exp(strength * (z + 2 r)): liking that can be foreseen and liking that cannot

The interaction is bounded, and so is the rate: a world of any size can be drawn exactly.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.data.pairs import Codes, pair_keys, pair_uniform
from unskew.data.scale import Scale
from unskew.errors import DataError, ParameterError, checked_seed, chosen, of_class, whole, within
from unskew.metrics.checks import finite_vector
from unskew.special import expit, logit, logsumexp

Floats = NDArray[np.float64]
OfPairs = Callable[[Codes, Codes], ArrayLike]  # from user codes and item codes to one number a pair

SELECTIONS = ("uniform", "popularity", "taste", "rating", "liking")
PAIRS_AT_ONCE = 2**18  # a few tens of megabytes
SOLVER_PAIRS = 2**19  # enough to solve for the level of a world
EFFECT_SPREAD, ACTIVITY_SPREAD, EXPOSURE_SPREAD = 0.7, 0.8, 1.0  # of a_u and b_i, log activity, log exposure
TEST_USERS = 5_000
FACTS, TEST, DRAW, SAMPLE = range(4)  # independent random streams of one seed


class Tilt(NamedTuple):
    """How the log rate of seeing a pair depends on liking: coefficients of z and of the rating."""

    explained: float = 0.0
    rating: float = 0.0


@dataclass(frozen=True, eq=False)
class World:
    """Users, items and the law by which ratings come to be and come to be seen; made by `simulate`.

    Ids are the codes 0 to n - 1. The rating of a pair and its unexplained liking are fixed facts of the
    world, computed from the pair when asked for; which pairs are seen differs from one draw to the next.
    """

    seed: int
    selection: str
    strength: float
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
        strength = self.strength
        tilts = {"taste": Tilt(strength), "rating": Tilt(rating=strength), "liking": Tilt(strength, 2 * strength)}
        return tilts.get(self.selection, Tilt())

    @cached_property
    def log(self) -> RatingLog:
        """The log this world's users left behind: draw number 0."""
        return self.draw(0)

    @cached_property
    def test(self) -> RatingLog:
        """Ratings of random pairs: `test_per_user` distinct items for each of up to 5,000 random users.

        All drawn uniformly and without regard to the log, so a pair may by chance be in both.
        """
        rng = self._rng(TEST)
        users = rng.choice(self.n_users, size=min(self.n_users, TEST_USERS), replace=False)
        items = _distinct(rng, len(users), self.test_per_user, self.n_items)
        return self._as_log(np.repeat(users, self.test_per_user), items.ravel())

    def draw(self, seed: int) -> RatingLog:
        """Return a fresh log of the same world, in random order: other pairs are seen, ratings stay as they are."""
        rng = self._rng(DRAW, checked_seed(seed))
        users, items = (np.concatenate(column) for column in zip(*_seen_pairs(self, rng), strict=True))
        order = rng.permutation(len(users))
        return self._as_log(users[order], items[order])

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

    def rating(self, users: Codes, items: Codes) -> NDArray[np.float32]:
        """Return the rating the pair has, seen or not: 1[z + e > 0], e logistic and fixed for a pair."""
        e = logit(pair_uniform(self.seed, users, items))
        return np.asarray(self.logit(users, items) + e > 0, np.float32)

    def log_rate(self, users: Codes, items: Codes, ratings: ArrayLike | None = None) -> Floats:
        """log lambda of each pair, given its own rating or another."""
        popularity = self.log_activity[users] + self.log_exposure[items]
        rates = self.log_scale + popularity + self.tilt.explained * self.logit(users, items)
        if not self.tilt.rating:
            return np.asarray(rates)
        return np.asarray(
            rates + self.tilt.rating * np.asarray(self.rating(users, items) if ratings is None else ratings)
        )

    def propensity(self, users: Codes, items: Codes, ratings: ArrayLike | None = None) -> Floats:
        """Return the true P(seen) of each pair or, with `ratings`, P(seen | rating)."""
        liked, disliked = (_some_event(self.log_rate(users, items, rating)) for rating in (1, 0))
        if ratings is None:
            return np.asarray(disliked + self.preference(users, items) * (liked - disliked))
        given = np.asarray(ratings)
        if odd := given[(given != 0) & (given != 1)].ravel()[:1].tolist():
            raise DataError(f"A rating of {odd[0]} was asked for: ratings of a simulated world are 0 or 1.")
        return np.where(given == 1, liked, disliked)

    def pairs(self, max_pairs: int | None = None) -> Iterator[tuple[Codes, Codes]]:
        """Yield all pairs, as chunks of codes; if there are more than `max_pairs`, a uniform sample."""
        total = self.n_pairs if max_pairs is None else min(max_pairs, self.n_pairs)
        rng = self._rng(SAMPLE)
        for start in range(0, total, PAIRS_AT_ONCE):
            stop = min(start + PAIRS_AT_ONCE, total)
            sampled = total < self.n_pairs
            places = rng.integers(self.n_pairs, size=stop - start) if sampled else np.arange(start, stop)
            yield np.divmod(places, self.n_items)

    def risk(self, predict: OfPairs, max_pairs: int = 2_000_000) -> float:
        """Find the true squared error of `predict`: the mean over all pairs of q (1 - x)^2 + (1 - q) x^2, q = sigma(z).

        `predict` maps user and item codes to probabilities. Beyond `max_pairs` a uniform sample of that many
        pairs, always the same, stands for all.
        """
        total, count = 0.0, 0
        of_class(predict, "predict", Callable)
        for users, items in self.pairs(whole(max_pairs, "max_pairs", 1, 2**62)):
            x, q = finite_vector(predict(users, items), "the answers"), self.preference(users, items)
            if len(x) != len(users) or x.min() < 0 or x.max() > 1:
                span = f"{len(x):,} numbers from {x.min():g} to {x.max():g}"
                raise DataError(f"there are {span} for {len(users):,} pairs: return one probability a pair.")
            total += float((q * np.square(1 - x) + (1 - q) * np.square(x)).sum())
            count += len(users)
        return total / count

    def _as_log(self, users: Codes, items: Codes) -> RatingLog:
        ratings = self.rating(users, items)
        if not 0 < np.count_nonzero(ratings) < len(ratings):
            raise ParameterError(
                f"The {len(ratings)} ratings drawn are not of both classes: raise the density, "
                "or test_per_user, or move positive_rate towards a half."
            )
        codes = users.astype(np.int32), items.astype(np.int32)
        return RatingLog(*codes, ratings, *self._ids, Scale(positive=1, low=0, high=1))

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
    n_factors: int = 8,
    interaction: float = 0.9,
    positive_rate: float = 0.35,
    test_per_user: int = 20,
    seed: int = 0,
) -> World:
    """Return a world of known preferences in which a share `density` of all pairs is expected to be seen.

    `selection` ("uniform", "popularity", "taste", "rating" or "liking") says what seeing a pair depends on and
    `strength` how much; `interaction` is the standard deviation of v_u . w_i and `positive_rate` the mean preference.
    Worlds that differ only in selection, strength and density have the same ratings and the same test.

    Examples:
        >>> world = unskew.simulate(n_users=200, n_items=100, selection="taste", strength=1.0, seed=0)
        >>> liked = float(np.mean([world.rating(*pairs).mean() for pairs in world.pairs()]))
        >>> world.log.positive_rate > liked + 0.1  # the log is not like everything
        True
    """
    whole(n_users, "n_users", 2)
    whole(n_items, "n_items", 2)
    whole(n_factors, "n_factors", 1, 10_000)
    chosen(selection, "selection", SELECTIONS)
    within(0, 1, density=density, positive_rate=positive_rate)
    whole(test_per_user, "test_per_user", 1, n_items)
    within(-20, 20, "included", strength=strength)
    within(0, 20, "included", interaction=interaction)
    if density * n_users * n_items < 2:
        raise ParameterError(f"density {density} of {n_users} x {n_items} pairs is not even 2 ratings: raise it.")
    rng = np.random.default_rng([checked_seed(seed), FACTS])
    bound = interaction * np.sqrt(n_factors)  # as v . w / |v| |w| has variance 1 / n_factors
    uneven = selection != "uniform"
    world = World(
        seed=seed,
        selection=selection,
        strength=strength,
        test_per_user=test_per_user,
        user_effects=EFFECT_SPREAD * rng.standard_normal(n_users),
        item_effects=EFFECT_SPREAD * rng.standard_normal(n_items),
        user_factors=_on_sphere(rng, n_users, n_factors, np.sqrt(bound)),
        item_factors=_on_sphere(rng, n_items, n_factors, np.sqrt(bound)),
        log_activity=uneven * ACTIVITY_SPREAD * rng.standard_normal(n_users),
        log_exposure=uneven * EXPOSURE_SPREAD * rng.standard_normal(n_items),
        interaction_bound=float(bound),
    )
    # The c that makes `positive_rate` the mean of sigma(z) over all pairs or a uniform sample of many.
    z = np.concatenate([world.logit(users, items) for users, items in world.pairs(SOLVER_PAIRS)])
    reach = float(np.abs(z).max() + abs(logit(positive_rate)) + 1)
    world = replace(world, intercept=_root(lambda c: expit(c + z).mean() - positive_rate, -reach, reach))
    return replace(world, log_scale=_solved_log_scale(world, density))


def _distinct(rng: np.random.Generator, n_rows: int, per_row: int, n: int) -> NDArray[np.int64]:
    """For each row a uniformly random set of `per_row` codes below n (Floyd's algorithm on all rows)."""
    picked = np.empty((n_rows, per_row), dtype=np.int64)
    for column, last in enumerate(range(n - per_row, n)):
        pick = rng.integers(last + 1, size=n_rows)
        taken = (picked[:, :column] == pick[:, None]).any(axis=1)
        picked[:, column] = np.where(taken, last, pick)
    return picked


def _on_sphere(rng: np.random.Generator, n: int, n_factors: int, radius: float) -> Floats:
    directions = rng.standard_normal((n, n_factors))
    return np.asarray(radius * directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _some_event(log_rate: Floats) -> Floats:
    """1 - exp(-lambda): the chance that a Poisson process of this log rate has an event in unit time."""
    with np.errstate(over="ignore"):  # a rate beyond all numbers: certainly
        return np.asarray(-np.expm1(-np.exp(log_rate)))


def _solved_log_scale(world: World, density: float) -> float:
    """Solve for the log of the scale at which a share `density` of all pairs, or of a sample, is to be seen."""
    log_rate = np.concatenate([world.log_rate(*pairs) for pairs in world.pairs(SOLVER_PAIRS)])

    def excess(log_scale: float) -> float:
        return float(_some_event(log_scale + log_rate).mean()) - density

    low = float(np.log(density * len(log_rate)) - logsumexp(log_rate)) - 1e-9  # too small, as 1 - exp(-x) <= x
    high = next((low + step for step in range(1, 100) if excess(low + step) > 0), None)
    if high is None:
        raise ParameterError(f"density {density} is out of reach for strength {world.strength}: lower either.")
    return _root(excess, low, high)


def _seen_pairs(world: World, rng: np.random.Generator) -> Iterator[tuple[Codes, Codes]]:
    """Yield the pairs with at least one event, in chunks, exactly: by thinning or, if that is more work, in turn.

    Thinning (Lewis & Shedler, 1979): events of a process of higher rate, main rates times the largest tilt,
    are drawn for each user and survive with probability rate / higher rate; repeated pairs are merged.
    """
    tilt, bound = world.tilt, world.interaction_bound
    user_rates = world.log_scale + world.log_activity + tilt.explained * (world.intercept + world.user_effects)
    item_rates = np.exp(world.log_exposure + tilt.explained * world.item_effects)
    running = np.cumsum(item_rates)
    most = Tilt(abs(tilt.explained) * bound, max(tilt.rating, 0.0))
    with np.errstate(over="ignore"):  # infinitely many are too many
        expected = np.exp(user_rates) * item_rates.sum() * np.exp(sum(most))
    if expected.sum() > world.n_pairs:
        for users, items in world.pairs():
            seen = np.log(rng.standard_exponential(len(users))) < world.log_rate(users, items)
            yield users[seen], items[seen]
        return
    cuts = np.searchsorted(np.cumsum(expected), np.arange(PAIRS_AT_ONCE, expected.sum(), PAIRS_AT_ONCE))
    for group in np.split(np.arange(world.n_users), np.unique(cuts)):
        users = np.repeat(group, rng.poisson(expected[group]))
        items = np.searchsorted(running / running[-1], rng.random(len(users)), side="right")
        room = rng.standard_exponential(len(users))  # events whose shortfalls from the most stay within it survive
        if tilt.explained:
            room += tilt.explained * world.interaction(users, items) - most.explained
        if tilt.rating:
            room += tilt.rating * world.rating(users, items) - most.rating
        places = np.sort(pair_keys(users[room > 0], items[room > 0], world.n_items))
        yield np.divmod(places[np.diff(places, prepend=-1) > 0], world.n_items)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function crosses 0."""
    from scipy.optimize import brentq  # slow to import

    return float(brentq(f, low, high))
