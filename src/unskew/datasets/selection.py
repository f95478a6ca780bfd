"""How the pairs of a simulated world come to be seen: a Poisson process for each pair, and its consequences.

A pair is seen when a process of rate

    lambda(u, i) = scale * activity_u * exposure_i * tilt(u, i)

has at least one event, so P(seen) = 1 - exp(-lambda) exactly. Activity and exposure are log-normal; the tilt:

    uniform      1, and activity and exposure are 1 as well: ratings missing completely at random
    popularity   1
    taste        exp(strength * z): explained liking
    rating       exp(strength * r): a rating of 1 multiplies lambda by exp(strength); no taste beyond it
    utility      exp(strength * (z + unexplained * e)), e held within +-UNEXPLAINED_CAP: liking of any cause

The cap concerns the tilt alone, never the rating, and touches one pair in 1,500: it bounds the rate, so that
a world of any size can be drawn exactly. Draws and propensities both use it: the propensities are the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from unskew.data.pairs import Codes, pair_keys
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.datasets.world import World

Floats = NDArray[np.float64]

UNEXPLAINED_CAP = 8.0
PAIRS_AT_ONCE = 2**18  # a few tens of megabytes
SOLVER_PAIRS = 2**19  # enough to solve for the level of a world
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(40)
_QUADRATURE_CHUNK = 2**13


class Tilt(NamedTuple):
    """How the log rate of seeing a pair depends on liking: coefficients of z, rating and capped e."""

    explained: float = 0.0
    rating: float = 0.0
    unexplained: float = 0.0


TILTS: dict[str, Callable[[float, float], Tilt]] = {
    "uniform": lambda strength, unexplained: Tilt(),
    "popularity": lambda strength, unexplained: Tilt(),
    "taste": lambda strength, unexplained: Tilt(explained=strength),
    "rating": lambda strength, unexplained: Tilt(rating=strength),
    "utility": lambda strength, unexplained: Tilt(explained=strength, unexplained=strength * unexplained),
}
SELECTIONS = tuple(TILTS)


def log_rates(world: World, users: Codes, items: Codes) -> Floats:
    """log lambda of each pair, given all its facts: also its own rating and unexplained liking."""
    rate = _explained_log_rate(world, users, items, world.logit(users, items))
    if world.tilt.rating:
        rate = rate + world.tilt.rating * world.rating(users, items)
    if world.tilt.unexplained:
        rate = rate + world.tilt.unexplained * _capped(world.unexplained_liking(users, items))
    return rate


def seen_given_rating(world: World, users: Codes, items: Codes, z: Floats) -> tuple[Floats, Floats]:
    """P(seen | rating = 1) and P(seen | rating = 0) of each pair, with e averaged over.

    Closed forms, but for "utility", where the mean of 1 - exp(-lambda) over e is a Gauss-Legendre sum.
    """
    explained = _explained_log_rate(world, users, items, z)
    return _chance_given(1, world.tilt, explained, z), _chance_given(0, world.tilt, explained, z)


def _explained_log_rate(world: World, users: Codes, items: Codes, z: Floats) -> Floats:
    popularity = world.log_activity[users] + world.log_exposure[items]
    return np.asarray(world.log_scale + popularity + world.tilt.explained * z)


def _chance_given(rating: int, tilt: Tilt, log_rate: Floats, z: Floats) -> Floats:
    log_rate = log_rate + tilt.rating * rating
    if not tilt.unexplained:
        return _some_event(log_rate)
    sign = 1 if rating else -1  # e -> -e turns "e < -z" into "e > z"
    return _mean_seen_above(log_rate, sign * tilt.unexplained, sign * z)


def _some_event(log_rate: Floats) -> Floats:
    """1 - exp(-lambda): the chance that a Poisson process of this log rate has an event in unit time."""
    with np.errstate(over="ignore"):  # a rate beyond all numbers: certainly
        return np.asarray(-np.expm1(-np.exp(log_rate)))


def _mean_seen_above(log_rate: Floats, tilt: float, z: Floats) -> Floats:
    """The mean of 1 - exp(-rate exp(tilt e)) over e > -z, e logistic and capped in the exponent."""
    means = np.empty(log_rate.size)
    rates, thresholds = log_rate.reshape(-1, 1), z.reshape(-1, 1)
    for start in range(0, log_rate.size, _QUADRATURE_CHUNK):
        chunk = slice(start, start + _QUADRATURE_CHUNK)
        means[chunk] = _average_above(rates[chunk], tilt, thresholds[chunk])
    return means.reshape(log_rate.shape)


def _average_above(log_rate: Floats, tilt: float, z: Floats) -> Floats:
    """The same for columns of log rates and z, to 1e-7: Gauss-Legendre within the cap, exact beyond it."""
    cap = np.full_like(z, UNEXPLAINED_CAP)
    low = _capped(-z)
    half = (cap - low) / 2
    within = low + half * (1 + _NODES)
    e = np.hstack([-cap, within, cap])
    density = half * _NODE_WEIGHTS * expit(within) * expit(-within)
    chances = np.hstack([np.maximum(expit(z) - expit(cap), 0), density, expit(-np.maximum(cap, -z))])
    mean = np.average(_some_event(log_rate + tilt * e), axis=1, weights=chances)
    return np.minimum(mean, 1)  # against rounding: an average of chances


def _capped(e: Floats) -> Floats:
    return np.clip(e, -UNEXPLAINED_CAP, UNEXPLAINED_CAP)


def _main_rates(world: World) -> tuple[Floats, Floats]:
    """The factors of lambda that belong to users and to items, without interaction, rating and e."""
    tilt = world.tilt.explained
    users = np.exp(world.log_scale + world.log_activity + tilt * (world.intercept + world.user_effects))
    return users, np.exp(world.log_exposure + tilt * world.item_effects)


def solved_log_scale(world: World, density: float, rng: np.random.Generator) -> float:
    """The log of the scale for which the expected number of seen pairs is `density` of all pairs."""
    chunks = [(world.log_rate(users, items), weights) for users, items, weights in _weighted_pairs(world, rng)]
    log_rate, weights = (np.concatenate(part) for part in zip(*chunks, strict=True))
    wanted = density * world.n_pairs

    def excess(log_scale: float) -> float:
        return float(weights @ _some_event(log_scale + log_rate)) - wanted

    low = float(np.log(wanted) - logsumexp(log_rate, b=weights)) - 1e-9  # too small, as 1 - exp(-x) <= x
    high = next((low + step for step in range(1, 100) if excess(low + step) > 0), None)
    if high is None:
        raise ParameterError(f"density {density} is out of reach for strength {world.strength}: lower either.")
    return float(brentq(excess, low, high))


def _weighted_pairs(world: World, rng: np.random.Generator) -> Iterator[tuple[Codes, Codes, Floats]]:
    """Pairs, and how many pairs of the world each stands for: all of them or, in a large world, a sample.

    Half of it is drawn in proportion to the main rates, which makes the count of frequent pairs precise, and
    half uniformly, which bounds the weights.
    """
    if world.n_pairs <= SOLVER_PAIRS:
        yield from ((users, items, np.ones(len(users))) for users, items in world.pairs())
        return
    half = PAIRS_AT_ONCE // 2
    shares = [rates / rates.sum() for rates in _main_rates(world)]
    samplers = [_Sampler(share) for share in shares]
    for _ in range(0, SOLVER_PAIRS, PAIRS_AT_ONCE):
        users, items = (
            np.concatenate([frequent(rng, half), rng.integers(len(share), size=half)])
            for frequent, share in zip(samplers, shares, strict=True)
        )
        chance = shares[0][users] * shares[1][items] / 2 + 0.5 / world.n_pairs
        yield users, items, 1 / (chance * SOLVER_PAIRS)


def seen_pairs(world: World, rng: np.random.Generator) -> Iterator[tuple[Codes, Codes]]:
    """The pairs with at least one event, in chunks, exactly: by thinning or, if that is more work, in turn.

    Thinning (Lewis & Shedler, 1979): events of a process of higher rate, main rates times the largest tilt,
    are drawn for each user and survive with probability rate / higher rate; repeated pairs are merged.
    """
    user_rates, item_rates = _main_rates(world)
    with np.errstate(over="ignore"):  # infinitely many are too many
        expected = user_rates * item_rates.sum() * np.exp(sum(_ceilings(world)))
    if expected.sum() > world.n_pairs:
        for users, items in world.pairs():
            seen = np.log(rng.standard_exponential(len(users))) < world.log_rate(users, items)
            yield users[seen], items[seen]
        return
    item_sampler = _Sampler(item_rates)
    cuts = np.searchsorted(np.cumsum(expected), np.arange(PAIRS_AT_ONCE, expected.sum(), PAIRS_AT_ONCE))
    for group in np.split(np.arange(world.n_users), np.unique(cuts)):
        users = np.repeat(group, rng.poisson(expected[group]))
        items = item_sampler(rng, len(users))
        users, items = _thinned(world, rng, users, items)
        places = np.sort(pair_keys(users, items, world.n_items))
        yield np.divmod(places[np.diff(places, prepend=-1) > 0], world.n_items)


def _ceilings(world: World) -> Tilt:
    """The most that each part of the tilt can add to the log rate, main effects apart."""
    explained, rating, unexplained = (abs(part) for part in world.tilt)
    rating = max(world.tilt.rating, 0.0)
    return Tilt(explained * world.interaction_bound, rating, unexplained * UNEXPLAINED_CAP)


def _thinned(world: World, rng: np.random.Generator, users: Codes, items: Codes) -> tuple[Codes, Codes]:
    """The surviving events: those whose shortfalls from the ceilings stay within an Exp(1) number."""
    tilt, ceilings = world.tilt, _ceilings(world)
    room = rng.standard_exponential(len(users))
    if tilt.unexplained:  # first: it is cheap and leaves few events for what follows
        room += tilt.unexplained * _capped(world.unexplained_liking(users, items)) - ceilings.unexplained
        alive = room > 0
        users, items, room = users[alive], items[alive], room[alive]
    if tilt.explained:
        room += tilt.explained * world.interaction(users, items) - ceilings.explained
    if tilt.rating:
        room += tilt.rating * world.rating(users, items) - ceilings.rating
    return users[room > 0], items[room > 0]


class _Sampler:
    """Draws codes in proportion to given weights by indexed search (Chen & Asau, 1974).

    It finds the same place as a binary search in the running sum; a table of where to start makes it faster.
    """

    def __init__(self, weights: Floats) -> None:
        running = np.cumsum(weights)
        self._running = running / running[-1]
        self._bins = 2 ** (4 * len(weights)).bit_length()  # a power of two: the bin of a number is exact
        self._starts = np.searchsorted(self._running, np.arange(self._bins) / self._bins, side="right")

    def __call__(self, rng: np.random.Generator, size: int) -> Codes:
        targets = rng.random(size)
        codes: Codes = self._starts[(targets * self._bins).astype(np.int64)]
        early = np.flatnonzero(self._running[codes] <= targets)
        while early.size:
            codes[early] += 1
            early = early[self._running[codes[early]] <= targets[early]]
        return codes
