"""Debiased calibration error, bootstrap intervals, and agreement with scikit-learn where the two overlap."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from unskew.errors import DataError, ParameterError
from unskew.metrics.accuracy import brier
from unskew.metrics.calibration import (
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from unskew.metrics.intervals import bootstrap_interval, effective_sample_size, normal_interval
from unskew.metrics.summary import calibration_summary


def drawn(seed, n=2000, distort=lambda s: s):
    """Scores, and labels whose true probability is a distortion of them."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 4, n)
    return (rng.random(n) < distort(scores)).astype(float), scores


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_errors_are_those_of_scikit_learns_curve_and_its_brier_score(strategy):
    labels, scores = drawn(0, distort=lambda s: s**1.3)
    share, mean = calibration_curve(labels, scores, n_bins=12, strategy=strategy)
    gaps = np.abs(share - mean)
    edges = np.linspace(0, 1, 13) if strategy == "uniform" else np.quantile(scores, np.linspace(0, 1, 13))
    weight = np.bincount(np.searchsorted(edges[1:-1], scores), minlength=12)
    expected = (weight[weight > 0] / len(scores)) @ gaps
    assert expected_calibration_error(labels, scores, n_bins=12, strategy=strategy) == pytest.approx(expected, abs=1e-3)
    largest = maximum_calibration_error(labels, scores, n_bins=12, strategy=strategy, min_count=1)
    assert largest == pytest.approx(gaps.max())
    weights = np.random.default_rng(1).random(len(labels))
    for w in (None, weights):
        theirs = brier_score_loss(labels, scores, sample_weight=w)
        assert brier(labels, scores, sample_weight=w) == pytest.approx(theirs)


def test_the_debiased_error_is_zero_on_average_for_calibrated_scores_where_the_plain_one_is_not():
    squares, plain = [], []
    for seed in range(60):
        labels, scores = drawn(seed, 600)
        squares.append(debiased_calibration_error(labels, scores) ** 2)
        plain.append(expected_calibration_error(labels, scores, norm="l2", strategy="quantile"))
    assert min(plain) > 0.02
    assert np.mean(np.sqrt(squares)) < 0.4 * np.mean(plain)
    assert np.median(squares) < 1e-4


def test_the_debiased_error_finds_an_error_that_is_there():
    """All scores are 0.05 too low: the l2 error is 0.05, which the plain estimate overshoots."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.uniform(0.1, 0.6, 800)
        found.append(debiased_calibration_error((rng.random(800) < scores + 0.05).astype(float), scores))
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(0.05, abs=0.012)


def test_one_bin_written_out():
    labels, scores, weights = np.array([0, 1, 1, 0.0]), np.full(4, 0.4), np.array([1, 2, 1, 1.0])
    d = labels - scores
    gap = weights @ d / 5
    variance = (weights**2 @ (d - gap) ** 2) / 25 * 4 / 3
    expected = np.sqrt(max(gap**2 - variance, 0))
    assert debiased_calibration_error(labels, scores, n_bins=1, sample_weight=weights) == pytest.approx(expected)
    many = np.tile(labels, 500), np.tile(scores, 500), np.tile(weights, 500)
    assert debiased_calibration_error(*many[:2], n_bins=1, sample_weight=many[2]) == pytest.approx(gap, rel=0.05)


def test_the_summarys_values_are_the_metrics_themselves():
    labels, scores = drawn(3, distort=lambda s: 0.7 * s)
    weights = np.random.default_rng(4).random(len(labels)) + 0.1
    found = calibration_summary(labels, scores, sample_weight=weights, n_replicates=20)
    known = {"sample_weight": weights}
    assert found.expected_error.value == pytest.approx(expected_calibration_error(labels, scores, **known))
    assert found.maximum_error.value == pytest.approx(maximum_calibration_error(labels, scores, **known))
    assert found.equal_mass_error.value == pytest.approx(
        expected_calibration_error(labels, scores, strategy="quantile", **known)
    )
    assert found.debiased_error.value == pytest.approx(debiased_calibration_error(labels, scores, **known))
    assert found.brier.value == pytest.approx(brier(labels, scores, **known))
    assert found.mean.value == pytest.approx(np.average(scores, weights=weights))
    assert found.base_rate.value == pytest.approx(np.average(labels, weights=weights))


def test_bootstrap_intervals_cover_what_they_claim():
    """True values by integration: labels come true with 0.7 of the score, so the error is 0.3 times the mean score."""
    truth = {"expected_error": 0.3 * 0.2, "mean": 0.2, "base_rate": 0.14}
    covered = {name: [] for name in truth}
    for seed in range(80):
        found = calibration_summary(*drawn(seed, 1500, lambda s: 0.7 * s), n_replicates=100, seed=seed)
        for name, value in truth.items():
            covered[name].append(getattr(found, name).covers(value))
    assert np.mean(covered["mean"] + covered["base_rate"]) >= 0.89
    assert np.mean(covered["expected_error"]) >= 0.78  # measured: 0.88; mirroring takes back a little too much


def test_the_interval_of_a_calibrated_score_reaches_down_to_zero():
    reaches = [calibration_summary(*drawn(seed, 1500), n_replicates=100).debiased_error.low == 0 for seed in range(30)]
    assert np.mean(reaches) > 0.8


def test_the_same_seed_gives_the_same_interval_and_errors_do_not_fall_below_zero():
    rows = drawn(5, 300)
    one, other = (calibration_summary(*rows, seed=7, n_replicates=50) for _ in range(2))
    assert one == other
    assert one != calibration_summary(*rows, seed=8, n_replicates=50)
    assert one.expected_error.low >= 0
    assert one.debiased_error.low >= 0


def test_intervals_by_hand():
    assert normal_interval(1.0, 0.5, 0.95) == pytest.approx((1.0, 1 - 0.9799820, 1 + 0.9799820))
    assert bootstrap_interval(1.0, [1.0, 1.2, 1.4], 0.5) == pytest.approx((1.0, 0.7, 0.9))
    assert effective_sample_size(np.array([2.0, 2.0, 0.0])) == pytest.approx(2)
    assert effective_sample_size(np.array([])) == 0
    with pytest.raises(ParameterError, match="confidence must lie between 0 and 1"):
        normal_interval(0.0, 1.0, 1.0)
    with pytest.raises(DataError, match="at least two rows"):
        calibration_summary([1], [0.5])
