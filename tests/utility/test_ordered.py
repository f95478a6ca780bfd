"""The ordered logit finds what it was drawn from, and is a logistic regression for binary ratings."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from unskew.errors import DataError
from unskew.utility.ordered import Levels, fit_ordered


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(4000, 3))


def test_binary_ratings_are_a_logistic_regression(x):
    y = (np.random.default_rng(1).random(len(x)) < expit(x @ [1.0, 0.5, -0.3] + 0.2)).astype(int)
    ours, theirs = fit_ordered(x, y, 2), LogisticRegression(C=1000, tol=1e-8).fit(x, y)
    np.testing.assert_allclose(ours.slopes, theirs.coef_[0], atol=1e-4)
    np.testing.assert_allclose(ours.thresholds, -theirs.intercept_, atol=1e-4)


def test_slopes_thresholds_and_errors_are_those_of_the_law(x):
    truth, thresholds = np.array([0.9, 1.1, 0.5]), np.array([-1.5, -0.2, 0.4, 2.0])
    found = []
    for seed in range(20):
        utility = x @ truth + np.random.default_rng(seed).logistic(size=len(x))
        found.append(fit_ordered(x, np.searchsorted(thresholds, utility), 5))
    slopes = np.array([fit.slopes for fit in found])
    np.testing.assert_allclose(slopes.mean(0), truth, atol=0.03)
    np.testing.assert_allclose(np.mean([fit.thresholds for fit in found], 0), thresholds, atol=0.04)
    np.testing.assert_allclose(slopes.std(0), found[0].errors, rtol=0.5)


def test_a_part_that_is_always_zero_gets_slope_zero_and_perfect_separation_stays_finite(x):
    y = (x[:, 0] > 0).astype(int)
    found = fit_ordered(np.column_stack([x[:, :2], np.zeros(len(x))]), y, 2)
    assert np.isfinite(found.slopes).all()
    assert found.slopes[2] == 0


def test_levels_are_the_distinct_ratings_or_ten_of_about_equal_size():
    few = Levels.of([0.0, 0.25, 1.0, 0.25])
    assert few.ratings.tolist() == [0.0, 0.25, 1.0]
    assert few.level([0.0, 0.25, 1.0]).tolist() == [0, 1, 2]
    ratings = np.random.default_rng(0).random(1000)
    many = Levels.of(ratings)
    assert len(many) == 10
    level = many.level(ratings)
    assert np.bincount(level).min() > 80
    assert many.ratings[level].mean() == pytest.approx(ratings.mean())
    chance_above = [(level >= c).mean() for c in range(1, 10)]
    assert many.ratings[0] + many.gaps @ chance_above == pytest.approx(ratings.mean())


def test_one_rating_only_is_refused():
    with pytest.raises(DataError, match="two different ratings"):
        Levels.of([1.0, 1.0])
