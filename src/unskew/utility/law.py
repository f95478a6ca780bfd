"""Selection on utility in closed form: what is said of seen pairs, what holds for all pairs, and how the two are tied.

Each pair has a utility v = z + e: z is what a recommender can explain, e ~ Logistic(0, 1) what it cannot. A rating
of at least theta is r = 1[v > theta], so P(r = 1) = sigma(z - theta). A pair is seen at the rate

    a_u b_i exp(slope (z + k e)),

user activity, item exposure and liking; k, `unexplained`, is how much unexplained liking counts beside explained. With
t = k slope, |t| < 1, and e = logit(X), X uniform, the tilt exp(t e) turns X into Beta(1 + t, 1 - t). Hence

    E exp(t e)          = Gamma(1 + t) Gamma(1 - t) = pi t / sin(pi t) =: B
    P(seen)             = a_u b_i exp(slope z) B
    P(r = 1 | seen)     = m_t(z) = 1 - I_{sigma(-z)}(1 + t, 1 - t), the regularised incomplete beta
    P(seen | r) / P(seen) = P(r | seen) / P(r)

m_t is increasing in z: its inverse takes what is said of seen pairs to what holds for all and changes no ranking.
Everything is exact for rates far below 1, where a rate is a probability.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.special import betainc, expit, log_expit

Values = NDArray[np.float64]

FAR = 30.0  # beyond this logit the leading term of the incomplete beta is exact to float64
LARGEST_TILT = 0.95  # |t| must stay below 1, where E exp(t e) ceases to exist
_STEPS = 2400  # of 1/80 each: the spline through them is right to 1e-10


def mean_tilt(t: float) -> float:
    """B = E exp(t e) = pi t / sin(pi t)."""
    return float(1 / np.sinc(t))


def seen_log_odds(z: ArrayLike, t: float) -> tuple[Values, Values]:
    """log m_t(z) and log(1 - m_t(z)): of a positive and of a negative rating, given that the pair is seen."""
    logits = np.asarray(z, np.float64)
    unlikely = _log_lower(-np.abs(logits), np.where(logits < 0, t, -t))  # of the two, the one told without cancellation
    likely = np.log(-np.expm1(unlikely))
    return np.where(logits < 0, unlikely, likely), np.where(logits < 0, likely, unlikely)


def _log_lower(z: Values, t: Values) -> Values:
    """log I_x(1 - t, 1 + t), x = sigma(z) and z <= 0; by its leading term x^(1 - t) / ((1 - t) B) where x is tiny."""
    near = np.log(betainc(1 - t, 1 + t, expit(np.maximum(z, -FAR))))
    far = (1 - t) * log_expit(z) - np.log((1 - t) / np.sinc(t))
    return np.asarray(np.where(z < -FAR, far, near))


def seen_logit(z: ArrayLike, t: float) -> Values:
    """logit m_t(z): what a model that is right about seen pairs says of a pair with explained utility z."""
    if t == 0:
        return np.asarray(z, np.float64)
    liked, disliked = seen_log_odds(z, t)
    return np.asarray(liked - disliked)


def population_logit(said: ArrayLike, t: float) -> Values:
    """The z with logit m_t(z) = said: the monotone map from what is said of seen pairs to what holds for all.

    A cubic Hermite spline through the inverse, whose slope 1 / (d logit m / dz) is known; far out it is a line.
    """
    given = np.asarray(said, np.float64)
    if t == 0:
        return given
    spline, (low, high), (first, last) = _inverse(float(t))
    inside = spline(np.clip(given, low, high))
    below, above = np.minimum(given - low, 0) * first, np.maximum(given - high, 0) * last
    return np.asarray(inside + below + above)


def slope_of_seen_logit(z: ArrayLike, t: float) -> Values:
    """d logit m_t / dz = exp(-t z) sigma(z) sigma(-z) / (B m (1 - m)); between 1 - |t| and 1 + |t|."""
    logits = np.asarray(z, np.float64)
    liked, disliked = seen_log_odds(logits, t)
    log_density = -t * logits + log_expit(logits) + log_expit(-logits) - math.log(mean_tilt(t))
    return np.asarray(np.exp(log_density - liked - disliked))


@lru_cache(maxsize=64)
def _inverse(t: float) -> tuple[CubicHermiteSpline, tuple[float, float], tuple[float, float]]:
    nodes = _nodes(t, _STEPS)
    said, steepness = seen_logit(nodes, t), 1 / slope_of_seen_logit(nodes, t)
    return (
        CubicHermiteSpline(said, nodes, steepness),
        (float(said[0]), float(said[-1])),
        (float(steepness[0]), float(steepness[-1])),
    )


def roughly_population_logit(said: Values, t: float) -> Values:
    """As `population_logit`, by lines between nodes 1/20 apart: right to 1e-4, and ready for a new t in no time."""
    nodes = _nodes(t, int(20 * FAR))
    return np.interp(said, seen_logit(nodes, t), nodes) if t else said


def _nodes(t: float, steps: int) -> Values:
    """So many steps on each side to +-30, and as many beyond until P(r | seen) is tiny even for a large |t|."""
    beyond = np.linspace(FAR, max(FAR / (1 - abs(t)), FAR + 1), steps + 1)[1:]
    side = np.concatenate([np.linspace(0, FAR, steps + 1), beyond])
    return np.concatenate([-side[:0:-1], side])


def largest_slope(unexplained: float) -> float:
    """The largest |slope| that keeps |t| = |unexplained * slope| within bounds, and at most 1."""
    return min(1.0, LARGEST_TILT / unexplained) if unexplained > 0 else 1.0
