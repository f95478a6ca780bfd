"""The closed forms of selection on utility, against integrals, simulation and each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, log_expit

from unskew.utility.law import (
    largest_slope,
    mean_tilt,
    population_logit,
    seen_log_odds,
    seen_logit,
    slope_of_seen_logit,
)

TILTS = (-0.9, -0.5, -0.1, 0.05, 0.2, 0.5, 0.9)
UTILITIES = (-6.0, -2.0, -0.3, 0.0, 1.0, 4.0)


def tilted_mass(t, low=-np.inf):
    """E[exp(t e); e > low], by numerical integration."""

    def integrand(e):
        return np.exp(t * e + log_expit(e) + log_expit(-e))

    edges = [max(low, -400.0), *(edge for edge in (-20.0, 0.0, 20.0, 100.0, 400.0) if edge > low)]
    return sum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize("t", TILTS)
def test_the_mean_tilt_is_the_integral(t):
    assert mean_tilt(t) == pytest.approx(tilted_mass(t), rel=1e-10)


@pytest.mark.parametrize("t", TILTS)
def test_what_is_said_of_seen_pairs_is_the_integral(t):
    """P(r = 1 | seen) = E[exp(t e); e > -z] / E exp(t e)."""
    integral = [tilted_mass(t, -z) / tilted_mass(t) for z in UTILITIES]
    np.testing.assert_allclose(expit(seen_logit(UTILITIES, t)), integral, rtol=0, atol=1e-10)


@pytest.mark.parametrize("t", TILTS)
def test_how_much_more_often_a_rating_is_seen_is_the_integral(t):
    """P(seen | r) / P(seen) = E[exp(t e) | r] / E exp(t e)."""
    for z in UTILITIES:
        liked, disliked = np.exp(seen_log_odds(z, t))
        above, total = tilted_mass(t, -z), tilted_mass(t)
        assert liked / expit(z) == pytest.approx(above / expit(z) / total, rel=1e-10)
        assert disliked / expit(-z) == pytest.approx(1 / expit(-z) - above / total / expit(-z), rel=1e-6, abs=1e-10)


def test_the_law_is_what_a_simulated_log_shows():
    rng = np.random.default_rng(0)
    z, slope, k = 0.4, 0.3, 0.8
    e = rng.logistic(size=2_000_000)
    rate = 0.01 * np.exp(slope * (z + k * e))
    seen = rng.random(len(e)) < rate
    liked = z + e > 0
    t = k * slope
    assert seen.mean() == pytest.approx(0.01 * np.exp(slope * z) * mean_tilt(t), rel=0.02)
    assert liked[seen].mean() == pytest.approx(expit(seen_logit(z, t)), abs=0.01)
    ratio = np.exp(seen_log_odds(z, t)[0]) / expit(z)
    assert seen[liked].mean() / seen.mean() == pytest.approx(ratio, rel=0.02)


tilts = st.floats(-0.95, 0.95)
logits = st.lists(st.floats(-60, 60), min_size=2, max_size=20).map(np.array)


@given(tilts, logits)
def test_the_map_is_monotone_and_has_an_inverse(t, z):
    z = np.unique(np.round(z, 6))
    said = seen_logit(z, t)
    assert (np.diff(said) > 0).all()
    np.testing.assert_allclose(population_logit(said, t), z, rtol=0, atol=2e-10 * max(1, np.abs(z).max()))


@given(tilts, logits)
def test_liked_and_disliked_mirror_each_other(t, z):
    np.testing.assert_allclose(seen_logit(-z, -t), -seen_logit(z, t), atol=1e-9)


@given(logits)
def test_without_a_tilt_every_map_is_the_identity_to_the_bit(z):
    assert (seen_logit(z, 0.0) == z).all()
    assert (population_logit(z, 0.0) == z).all()
    assert mean_tilt(0.0) == 1.0


@pytest.mark.parametrize("t", TILTS)
def test_the_slope_of_the_map_is_its_derivative_and_stays_within_one_plus_minus_t(t):
    z = np.linspace(-25, 25, 201)
    step = 1e-5
    numeric = (seen_logit(z + step, t) - seen_logit(z - step, t)) / (2 * step)
    slope = slope_of_seen_logit(z, t)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)
    assert (slope >= 1 - abs(t) - 1e-9).all()
    assert (slope <= 1 + abs(t) + 1e-9).all()


def test_a_positive_tilt_makes_seen_pairs_look_better_than_they_are():
    z = np.linspace(-5, 5, 11)
    assert (seen_logit(z, 0.2) > z).all()
    assert (population_logit(z, 0.2) < z).all()
    assert seen_logit(0.0, 0.2) == pytest.approx(4 * 0.2 * np.log(2), rel=0.02)  # to first order: E[e; e > 0] = log 2


def test_slopes_stay_where_the_mean_tilt_exists():
    assert largest_slope(0.0) == 1.0
    assert largest_slope(2.0) * 2.0 < 1.0
