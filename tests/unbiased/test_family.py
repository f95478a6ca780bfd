"""Laws of ratings with a known mean: tilting by odds stays among them, and is Bayes' rule."""

import numpy as np
import pytest

from unskew.errors import DataError
from unskew.unbiased.correction import Correction
from unskew.unbiased.family import BINARY, Family
from unskew.unbiased.lines import Lines

LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
STARS = Family(LEVELS, np.log([0.1, 0.3, 0.2, 0.3, 0.1]))
NARROW = Family(LEVELS, STARS.log_base, dispersion=0.3)
MEANS = np.array([0.03, 0.2, 0.5, 0.77, 0.96])
NOBODY = np.zeros(len(MEANS), int)


@pytest.mark.parametrize("family", [BINARY, STARS, NARROW, Family(np.array([0.0, 1.0]), np.array([0.3, -0.4]))])
def test_natural_parameter_and_mean_are_inverse_and_the_variance_is_the_means_slope(family):
    eta = family.natural(MEANS)
    np.testing.assert_allclose(family.mean(eta), MEANS, atol=1e-9)
    slope = (family.mean(eta + 1e-5) - family.mean(eta - 1e-5)) / 2e-5
    np.testing.assert_allclose(family.variance(eta), slope, rtol=1e-5)


@pytest.mark.parametrize("family", [BINARY, STARS, NARROW])
def test_the_log_likelihood_has_its_top_at_the_mean(family):
    eta = family.natural(MEANS)
    slope = (family.log_likelihood(eta + 1e-5, MEANS) - family.log_likelihood(eta - 1e-5, MEANS)) / 2e-5
    np.testing.assert_allclose(slope, 0, atol=1e-6)


def test_a_fitted_family_tilts_as_the_laws_do_that_the_ratings_came_from():
    rng = np.random.default_rng(0)
    eta = rng.normal(0.5, 2, 40_000)
    chances = STARS.chances(eta)
    ratings = LEVELS[(rng.random(len(eta))[:, None] > chances.cumsum(1)).sum(1).clip(max=4)]
    fitted = Family.of(ratings, STARS.mean(eta))
    tilted = fitted.mean(fitted.natural(STARS.mean(eta)) - 1)
    np.testing.assert_allclose(tilted, STARS.mean(eta - 1), atol=0.006)
    from_marginal = Family(LEVELS, np.log(np.bincount((4 * ratings).astype(int)) / len(eta)))
    worse = from_marginal.mean(from_marginal.natural(STARS.mean(eta)) - 1)
    assert np.abs(worse - STARS.mean(eta - 1)).max() > 0.01  # which is why laws are narrowed


def test_means_at_and_beyond_the_observed_levels_have_laws():
    fitted = Family.of(np.array([0.25, 0.5, 0.75, 0.5] * 20), np.full(80, 0.5))
    ends = np.array([0.0, 0.1, 0.9, 1.0])
    found = Correction(fitted, Lines.everybody(1.0, -0.7))(ends, np.zeros(4, int))
    assert (np.diff(found) > 0).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_many_distinct_ratings_are_binned():
    ratings = np.random.default_rng(1).random(5000)
    fitted = Family.of(ratings, ratings)  # means that explain everything
    assert 12 <= len(fitted.levels) <= 14
    np.testing.assert_allclose(fitted.mean(fitted.natural(MEANS)), MEANS, atol=1e-6)


def test_levels_without_weights_are_refused():
    with pytest.raises(DataError, match="as many levels as weights"):
        Family(np.array([0.0, 1.0]), np.zeros(3))
