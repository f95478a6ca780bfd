"""The test for selection by liking: its null distribution, its power, and what it does not see."""

import numpy as np
import pytest
from scipy.stats import kstest

import unskew
from unskew.diagnosis.selection import clustered, logistic, selection_test
from unskew.training.crossfit import cross_fit

FAST = unskew.Training(progress=False, max_epochs=30)
SETTINGS = {"density": 0.2, "n_factors": 2, "interaction": 1.5, "seed": 1}


@pytest.mark.parametrize("selection", ["uniform", "popularity"])
def test_p_values_are_uniform_where_liking_has_no_part_in_seeing(selection):
    here = unskew.simulate(90, 50, selection=selection, **SETTINGS)
    tests = [selection_test(here.preference, here.draw(seed), seed=seed) for seed in range(1, 71)]
    for name in ("p_value", "clustered_p_value"):
        values = np.array([getattr(test, name) for test in tests])
        assert kstest(values, "uniform").pvalue > 0.001
        assert (values < 0.05).mean() <= 0.15  # of 5%: more than 10 of 70 has chance 0.2%
    assert np.mean([test.slope.covers(0.0) for test in tests]) >= 0.87


@pytest.mark.parametrize(
    ("selection", "strength", "sign"), [("taste", 0.5, 1), ("taste", -0.5, -1), ("rating", 1.5, 1)]
)
def test_it_finds_selection_by_liking_and_its_direction(selection, strength, sign):
    here = unskew.simulate(90, 50, selection=selection, strength=strength, **SETTINGS)
    test = selection_test(here.preference, here.log)
    assert test.evidence < 1e-4
    assert np.sign(test.slope.low) == np.sign(test.slope.high) == sign
    assert test.personal.covers(1.0)  # selection by the rating shifts all logits alike


def test_cross_fitted_predictions_foretell_ratings_they_were_not_trained_on():
    """Left in one basket, a rating that is left out lowers its own prediction, and `personal` would be negative."""
    here = unskew.simulate(120, 60, selection="popularity", density=0.3, n_factors=2, interaction=1.5, seed=2)
    test = selection_test(cross_fit(unskew.Naive(), here.log, n_folds=3, training=FAST), here.log)
    assert test.personal.low > 0.3
    assert not test.blind
    assert test.evidence > 0.01


def test_predictions_without_anything_personal_leave_the_test_blind():
    here = unskew.simulate(60, 40, selection="taste", **SETTINGS)
    test = selection_test(lambda users, items: np.full(len(users), 0.3), here.log)
    assert test.blind
    assert test.evidence == 1
    additive = selection_test(
        lambda users, items: 1 / (1 + np.exp(-here.user_effects[users] - here.item_effects[items])), here.log
    )
    assert additive.blind


def test_noise_for_predictions_finds_nothing():
    here = unskew.simulate(90, 50, selection="taste", **SETTINGS)
    noise = np.random.default_rng(0).random((90, 50))
    test = selection_test(lambda users, items: noise[users, items], here.log)
    assert test.blind
    assert test.evidence > 0.001


def test_a_sample_of_unseen_pairs_gives_nearly_the_same_slope(monkeypatch):
    here = unskew.simulate(400, 300, selection="taste", density=0.05, n_factors=2, interaction=1.5, seed=1)
    whole = selection_test(here.preference, here.log)
    monkeypatch.setattr("unskew.diagnosis.selection.MOST_SEEN", 3000)
    sampled = selection_test(here.preference, here.log)
    assert sampled.n_seen == 3000
    assert abs(whole.slope.value - sampled.slope.value) < 0.15 * whole.slope.value


def test_logistic_regression_solves_its_equations_and_clusters_add_up():
    rng = np.random.default_rng(0)
    x, y = np.column_stack([np.ones(300), rng.normal(size=300)]), rng.integers(0, 2, 300).astype(float)
    fit = logistic(x, y)
    np.testing.assert_allclose(x.T @ (y - fit.fitted), 0, atol=1e-8)
    values, users, items = np.array([1.0, 2.0, -1.0]), np.array([0, 0, 1]), np.array([0, 1, 1])
    assert clustered(values, users, items) == pytest.approx((9 + 1) + (1 + 1) - 6)
