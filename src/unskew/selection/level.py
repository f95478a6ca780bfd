"""Move answers from the pairs people chose to all pairs.

If a pair is seen at rate a_u b_i exp(s y), then y given seen is normal with its mean moved by s times its variance, and
nothing else changes. Of that variance, v is what the log leaves open in f; the rest is what no model explains, of which
the share k (0 to 1) drives seeing. So for a random pair P(liked) = Phi((f - s (v + k noise) - t) / sqrt(noise + v)).
k = 0: people choose by what could be known beforehand; k = 1: they rate what they turn out to love. No log can tell k.
"""

from __future__ import annotations

import math

import numpy as np

from unskew.posterior.answers import Posterior
from unskew.posterior.exposure import Pairs
from unskew.posterior.kernels import Float, Int
from unskew.selection.slope import Slope

GRID = np.linspace(0.0, 1.0, 101)
ENOUGH, USEFUL_ERROR = 0.15, 0.3  # standard errors of k
STEP = 1e-3  # of k, by which chances are compared


def shift(posterior: Posterior, users: Int, items: Int, slope: float, k: float) -> Float:
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
    posterior: Posterior, slope: Slope, random: Pairs | None, rng: np.random.Generator
) -> tuple[float | None, list[str]]:
    """Return k if random ratings tell it, and sentences on how far the level depends on it."""
    if not slope.used:
        return None, []
    users, items = (rng.integers(n or 0, size=20_000) for n in posterior.sizes())
    k0, k1 = (random_pair_probability(posterior, users, items, slope.used, k).mean() for k in (0.0, 1.0))
    needed = math.ceil(1 / (information(posterior, users, items, slope.used, 0.5) * ENOUGH**2))
    sentences = [
        f"Over all pairs {k0:.0%} would be liked if people choose by what can be known beforehand (k = 0), "
        f"{k1:.0%} if they rate what they turn out to love (k = 1): no log can tell, about {needed:,} random ratings "
        "can."
    ]
    if random is None or not len(random.users):
        return None, sentences
    k, error = most_likely_k(posterior, random.users, random.items, random.ratings, slope.used)
    enough = error <= USEFUL_ERROR
    found = (
        f"k = {k:.2f} +- {error:.2f} from {len(random.users):,} random ratings{'' if enough else ': too few to tell'}."
    )
    return (k if enough else None), [*sentences, found]
