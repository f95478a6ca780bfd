"""Calibration errors against closed forms and scikit-learn's reliability curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from unskew.errors import DataError, ParameterError
from unskew.metrics.calibration import (
    expected_calibration_error,
    maximum_calibration_error,
    reliability_bins,
)


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    scores = generator.beta(2, 3, 3000)
    return (generator.random(3000) < scores**1.5).astype(float), scores


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_bins_equal_scikit_learn(strategy, n_bins, rows):
    labels, scores = rows
    bins = reliability_bins(labels, scores, n_bins=n_bins, strategy=strategy)
    filled = bins.count > 0
    mean_label, mean_score = calibration_curve(labels, scores, n_bins=n_bins, strategy=strategy)
    np.testing.assert_allclose(bins.mean_label[filled], mean_label)
    np.testing.assert_allclose(bins.mean_score[filled], mean_score)


def test_ece_is_the_weighted_mean_gap_written_out():
    labels, scores = [0, 1, 1, 0.5], [0.1, 0.15, 0.9, 1.0]
    # bin 1 of 2: label 0.5, score 0.125; bin 2 of 2: label 0.75, score 0.95
    assert expected_calibration_error(labels, scores, n_bins=2) == pytest.approx(0.5 * 0.375 + 0.5 * 0.2)
    assert expected_calibration_error(labels, scores, n_bins=2, norm="l2") == pytest.approx(
        np.sqrt(0.5 * 0.375**2 + 0.5 * 0.2**2)
    )
    assert expected_calibration_error(labels, scores, n_bins=2, norm="max") == pytest.approx(0.375)


def test_every_edge_belongs_to_the_bin_above_and_one_to_the_last():
    edges = np.linspace(0, 1, 16)
    bins = reliability_bins(np.zeros(16), edges)
    assert bins.count.tolist() == [1] * 14 + [2]
    np.testing.assert_array_equal(bins.lower, edges[:-1])
    np.testing.assert_array_equal(bins.upper, edges[1:])


def test_empty_bins_stay_with_nan_means_and_no_weight():
    bins = reliability_bins([1.0, 0.0], [0.05, 0.95], n_bins=3)
    assert bins.count.tolist() == [1, 0, 1]
    assert bins.weight.tolist() == [0.5, 0, 0.5]
    np.testing.assert_array_equal(np.isnan(bins.gap), [False, True, False])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_true_probabilities_as_labels_give_zero_error(strategy, rows):
    scores = rows[1]
    assert expected_calibration_error(scores, scores, strategy=strategy) == 0
    assert maximum_calibration_error(scores, scores, strategy=strategy) == 0


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_whole_weight_is_the_row_repeated(strategy, norm, rows):
    labels, scores = rows
    times = np.random.default_rng(1).integers(0, 4, labels.size)
    weighted = expected_calibration_error(labels, scores, strategy=strategy, norm=norm, sample_weight=times)
    repeated = expected_calibration_error(
        np.repeat(labels, times), np.repeat(scores, times), strategy=strategy, norm=norm
    )
    assert weighted == pytest.approx(repeated)


def test_rows_of_weight_zero_enter_no_bin():
    bins = reliability_bins([0, 1, 1], [0.2, 0.2, 0.9], n_bins=2, sample_weight=[1, 0, 0])
    assert bins.count.tolist() == [1, 0]
    assert bins.mean_label[0] == 0


def test_one_uniform_bin_at_low_prevalence_sees_only_the_mean():
    generator = np.random.default_rng(2)
    scores = generator.uniform(0, 0.06, 5000)
    labels = (generator.random(5000) < 0.03).astype(float)  # unrelated to the scores
    assert expected_calibration_error(labels, scores) == pytest.approx(abs(labels.mean() - scores.mean()))
    assert expected_calibration_error(labels, scores, strategy="quantile") > 0.01


def test_quantile_bins_have_equal_weight_when_nothing_is_tied():
    generator = np.random.default_rng(3)
    weights = generator.random(6000)
    bins = reliability_bins(
        np.zeros(6000), generator.random(6000), n_bins=12, strategy="quantile", sample_weight=weights
    )
    np.testing.assert_allclose(bins.weight, 1 / 12, atol=2 * weights.max() / weights.sum())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.5, 1.0, 7.0])), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_quantile_bins_never_split_ties_and_are_never_empty(rows, n_bins):
    scores, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    bins = reliability_bins(np.zeros(len(rows)), scores / 6, n_bins=n_bins, strategy="quantile", sample_weight=weights)
    assert len(bins.count) <= n_bins
    assert bins.count.min() > 0
    assert bins.count.sum() == len(rows)
    assert bins.weight.sum() == pytest.approx(1)
    assert (bins.lower <= bins.upper).all()
    assert (bins.upper[:-1] < bins.lower[1:]).all()  # a score shared by two bins would break this


def test_tied_scores_go_where_the_middle_of_their_weight_falls():
    scores = np.repeat([0.2, 0.5, 0.8], [40, 30, 30])  # middles at 0.2, 0.55 and 0.85 of the weight
    assert reliability_bins(scores, scores, n_bins=2, strategy="quantile").count.tolist() == [40, 60]
    assert reliability_bins(scores, 1 - scores, n_bins=2, strategy="quantile").count.tolist() == [60, 40]


def test_mce_looks_past_bins_with_too_few_rows():
    scores = np.concatenate([np.full(100, 0.1), np.full(49, 0.9)])
    labels = np.concatenate([np.full(100, 0.3), np.full(49, 0.0)])
    assert maximum_calibration_error(labels, scores) == pytest.approx(0.2)
    assert maximum_calibration_error(labels, scores, min_count=49) == pytest.approx(0.9)


def test_mce_without_any_bin_large_enough_looks_at_all_filled_bins(rows):
    labels, scores = rows[0][:30], rows[1][:30]
    assert maximum_calibration_error(labels, scores) == expected_calibration_error(labels, scores, norm="max")


def test_errors_are_ordered_l1_l2_max(rows):
    l1, l2, largest = (expected_calibration_error(*rows, norm=norm) for norm in ("l1", "l2", "max"))
    assert 0 < l1 < l2 < largest


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number"),
        ({"strategy": "kmeans"}, "strategy must be one of 'uniform', 'quantile', got 'kmeans'"),
        ({"norm": "l3"}, "norm must be one of 'l1', 'l2', 'max'"),
    ],
)
def test_unknown_settings_are_refused(options, sentence, rows):
    with pytest.raises(ParameterError, match=sentence):
        expected_calibration_error(*rows, **options)


def test_scores_outside_the_unit_interval_are_refused_with_row_and_value():
    with pytest.raises(DataError, match=r"y_prob\[1\] = 1\.2 lies outside \[0, 1\]"):
        reliability_bins([0, 1], [0.5, 1.2])
