"""Draw lists whose chances are known: for every item shown, how likely it was to be shown at that place.

Scores of n candidates are independent, X_j ~ N(mean_j, sd_j^2): a draw from what the posterior leaves open of each
(Thompson sampling; Chapelle and Li, NIPS 2011). With chance epsilon the list is a random order instead. Item i is at
place p if p - 1 of the others exceed it,

    P(i at p) = (1 - epsilon) int phi_i(x) P(N_i(x) = p - 1) dx + epsilon / n,

N_i(x) a sum of independent events of chance Phi((mean_j - x) / sd_j), j != i: its distribution up to p by one pass over
the items at each x, the integral by the trapezoidal rule, whose error falls faster than any power of its step.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.compiled import njit
from unskew.nets.base import Part
from unskew.posterior.kernels import MATH, normal_cdf
from unskew.special import ndtr
from unskew.topk import Candidates, TopItems, log_chances

Array = NDArray[np.float64]
CHOICE = "choice"  # an order by log-chances
REACH = 7.0  # standard deviations beyond which a score is not looked for: P = 1e-12
NEGLIGIBLE = 24.0  # -log of what is left out below
COARSE, STEP = 64, 0.35  # points that the step is found on, and its part of the narrowest width: errors below 1e-8
NARROWEST = 0.01  # of the widest deviation: a narrower one is drawn as wide as this, so that the rule needs few points


def explored(
    part: Part, by: str, score: Callable[..., Array], may: Candidates, k: int, epsilon: float, seed: int
) -> tuple[TopItems, Array]:
    """Return the lists of all users, in an order of a part, with the chance of every item at its place."""
    rng, parts = np.random.default_rng([seed, 1]), list[tuple[Any, ...]]()
    for place, user in enumerate(may.users):
        items = may(place)
        if not len(items):
            continue
        users = np.full(len(items), user)
        if by == "thompson":
            mean, sd = part.order_moments(users, items)
        else:  # an order that is fixed
            scores = score(users, items)
            mean, sd = log_chances(scores) if by == CHOICE else scores, np.zeros(len(items))
        drawn, chosen, chance = draw_list(mean, sd, min(k, len(items)), epsilon, rng)
        drawn = ndtr(drawn) if by == "thompson" else drawn
        parts.append((np.full(len(chosen), place), items[chosen], drawn, np.arange(1, len(chosen) + 1), chance))
    nothing = np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0, int), np.empty(0)
    *columns, chance = (np.concatenate(column) for column in zip(*(parts or [nothing]), strict=True))
    return TopItems(*columns), chance


def draw_list(
    mean: Array, sd: Array, k: int, epsilon: float, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int64], Array]:
    """Return scores, places among the candidates, and chances of the k items of one list."""
    free = bool(sd.any())
    sd = np.maximum(sd, NARROWEST * sd.max())
    drawn = mean + sd * rng.standard_normal(len(mean)) if free else mean
    best = np.argsort(-drawn, kind="stable")[:k]
    chosen = rng.permutation(len(mean))[:k] if rng.random() < epsilon else best
    chance = chance_of_places(mean, sd, chosen) if free else (chosen == best).astype(float)
    return drawn[chosen], chosen, (1 - epsilon) * chance + epsilon / len(mean)


def chance_of_places(mean: Array, sd: Array, shown: NDArray[np.int64]) -> Array:
    """Return P(shown[p] is at place p) of independent normal scores, for every p."""
    k = len(shown)
    low, high = float((mean - REACH * sd).min()), float((mean + REACH * sd).max())
    # Chernoff: fewer than k of the scores exceed x with a chance below exp(-24) if this many are expected to.
    enough = k + NEGLIGIBLE + math.sqrt(NEGLIGIBLE**2 + 2 * NEGLIGIBLE * k)
    if len(mean) > enough:
        bottom, top = low, high
        while top - bottom > 1e-3 * (high - low):
            middle = (bottom + top) / 2
            bottom, top = (middle, top) if ndtr((mean - middle) / sd).sum() > enough else (bottom, middle)
        low = bottom
    others = np.flatnonzero(mean + REACH * sd > low)
    # The chance that p - 1 exceed x changes over sqrt(p) / m'(x), m the number expected to: steps are a part of that.
    x = np.linspace(low, high, COARSE)
    expected = ndtr((mean[others, None] - x) / sd[others, None]).sum(axis=0)
    width = (np.sqrt(np.maximum(expected[1:], 1)) * (x[1] - x[0]) / np.maximum(-np.diff(expected), 1e-300)).min()
    step = STEP * min(float(width), 1.6 * float(sd[others].min()))
    others = np.setdiff1d(others, shown)
    others = others[np.argsort(-(mean + REACH * sd)[others])]  # so that those out of reach come last
    grid = np.arange(low, high + step, step)
    return np.asarray(_chances(mean[others], sd[others], mean[shown], sd[shown], grid) * step)


@njit(fastmath=MATH, cache=True, nogil=True)
def _chances(mean: Array, sd: Array, shown_mean: Array, shown_sd: Array, grid: Array) -> Array:
    """Sum, over the points of a grid, the density of each shown score times the chance that as many are above it."""
    k = len(shown_mean)
    total, above, count, own = np.zeros(k), np.empty(k), np.empty(k), np.empty(k)
    for x in grid:
        count[:] = 0.0
        count[0] = 1.0
        for j in range(len(mean)):
            if mean[j] + REACH * sd[j] < x:
                break
            p = normal_cdf((mean[j] - x) / sd[j])
            for m in range(k - 1, 0, -1):
                count[m] += p * (count[m - 1] - count[m])
            count[0] -= p * count[0]
        for place in range(k):
            above[place] = normal_cdf((shown_mean[place] - x) / shown_sd[place])
        for place in range(k):
            z = (x - shown_mean[place]) / shown_sd[place]
            if abs(z) > 9.0:
                continue
            own[:] = count
            for j in range(k):
                if j != place:
                    for m in range(place, 0, -1):
                        own[m] += above[j] * (own[m - 1] - own[m])
                    own[0] -= above[j] * own[0]
            total[place] += own[place] * math.exp(-0.5 * z * z) / (shown_sd[place] * 2.5066282746310002)
    return total
