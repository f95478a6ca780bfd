"""Calibration errors against closed forms and scikit-learn's reliability curve."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from unskew.errors import ParameterError
from unskew.metrics.calibration import calibration_error, calibration_interval, reliability_curve


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    scores = generator.beta(2, 3, 3000)
    return (generator.random(3000) < scores**1.5).astype(float), scores


@pytest.mark.parametrize("strategy", ["width", "mass"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_bins_equal_scikit_learn(strategy, n_bins, rows):
    labels, scores = rows
    bins = reliability_curve(labels, scores, n_bins=n_bins, bins=strategy)
    filled = bins.count > 0
    mean_label, mean_score = calibration_curve(
        labels, scores, n_bins=n_bins, strategy={"width": "uniform", "mass": "quantile"}[strategy]
    )
    np.testing.assert_allclose(bins.mean_label[filled], mean_label)
    np.testing.assert_allclose(bins.mean_score[filled], mean_score)


def test_ece_is_the_weighted_mean_gap_written_out():
    labels, scores = [0, 1, 1, 0.5], [0.1, 0.15, 0.9, 1.0]
    # bin 1 of 2: label 0.5, score 0.125; bin 2 of 2: label 0.75, score 0.95
    assert calibration_error(labels, scores, n_bins=2) == pytest.approx(0.5 * 0.375 + 0.5 * 0.2)
    assert calibration_error(labels, scores, n_bins=2, norm="max") == pytest.approx(0.375)


def test_every_edge_belongs_to_the_bin_above_and_one_to_the_last():
    edges = np.linspace(0, 1, 16)
    bins = reliability_curve(np.zeros(16), edges)
    assert bins.count.tolist() == [1] * 14 + [2]
    np.testing.assert_allclose(bins.mean_score[:-1], edges[:-2])


def test_empty_bins_stay_with_nan_means_and_no_weight():
    bins = reliability_curve([1.0, 0.0], [0.05, 0.95], n_bins=3)
    assert bins.count.tolist() == [1, 0, 1]
    assert bins.weight.tolist() == [0.5, 0, 0.5]
    np.testing.assert_array_equal(np.isnan(bins.gap), [False, True, False])


@pytest.mark.parametrize("strategy", ["width", "mass"])
@pytest.mark.parametrize("norm", ["mean", "max"])
def test_a_whole_weight_is_the_row_repeated_and_the_truth_has_no_error(strategy, norm, rows):
    labels, scores = rows
    times = np.random.default_rng(1).integers(0, 4, labels.size)
    weighted = calibration_error(labels, scores, bins=strategy, norm=norm, sample_weight=times)
    repeated = calibration_error(np.repeat(labels, times), np.repeat(scores, times), bins=strategy, norm=norm)
    assert weighted == pytest.approx(repeated)
    assert calibration_error(scores, scores, bins=strategy, norm=norm) == 0


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.5, 1.0, 7.0])), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_quantile_bins_never_split_ties_and_are_never_empty(rows, n_bins):
    scores, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    bins = reliability_curve(np.zeros(len(rows)), scores / 6, n_bins=n_bins, bins="mass", sample_weight=weights)
    assert len(bins.count) <= n_bins
    assert bins.count.min() > 0
    assert bins.count.sum() == len(rows)
    assert bins.weight.sum() == pytest.approx(1)
    bounds = np.r_[0, bins.count.cumsum()]
    spans = [np.sort(scores)[a:b] for a, b in itertools.pairwise(bounds)]
    assert all(one[-1] < after[0] for one, after in itertools.pairwise(spans))  # a score shared by two would break this


def test_tied_scores_go_where_the_middle_of_their_weight_falls():
    scores = np.repeat([0.2, 0.5, 0.8], [40, 30, 30])  # middles at 0.2, 0.55 and 0.85 of the weight
    assert reliability_curve(scores, scores, n_bins=2, bins="mass").count.tolist() == [40, 60]
    assert reliability_curve(scores, 1 - scores, n_bins=2, bins="mass").count.tolist() == [60, 40]


def drawn(seed, n=1500, distort=lambda s: s):
    generator = np.random.default_rng(seed)
    scores = generator.random(n)
    return (generator.random(n) < distort(scores)).astype(float), scores


@pytest.mark.parametrize("norm", ["mean", "max"])
def test_an_interval_is_around_the_error_and_the_same_by_seed(norm):
    rows = drawn(0)
    found = calibration_interval(*rows, norm=norm, seed=3)
    assert found == calibration_interval(*rows, norm=norm, seed=3)
    assert found != calibration_interval(*rows, norm=norm, seed=4)
    assert found.value == calibration_error(*rows, norm=norm)
    assert 0 <= found.low <= found.value <= found.high


def test_intervals_cover_what_they_claim():
    truth = calibration_error(*(lambda s: (0.7 * s, s))(np.linspace(0.0005, 0.9995, 1000)))
    covered = [
        calibration_interval(*drawn(seed, 1500, lambda s: 0.7 * s), seed=seed).covers(truth) for seed in range(60)
    ]
    assert np.mean(covered) > 0.85


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number"),
        ({"bins": "kmeans"}, "bins must be 'width' or 'mass', not 'kmeans'"),
        ({"norm": "l3"}, "norm must be 'mean' or 'max'"),
    ],
)
def test_unknown_settings_are_refused(options, sentence, rows):
    with pytest.raises(ParameterError, match=sentence):
        calibration_error(*rows, **options)
