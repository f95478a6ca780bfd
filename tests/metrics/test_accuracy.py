"""Accuracy metrics against closed forms and scikit-learn, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import DataError
from unskew.metrics.table import METRICS, PROBABILITY_FLOOR, roc_auc

SKLEARN = {
    "mse": sklearn.metrics.mean_squared_error,
    "mae": sklearn.metrics.mean_absolute_error,
    "log_loss": sklearn.metrics.log_loss,
    "auc": sklearn.metrics.roc_auc_score,
}
log_loss = METRICS["log_loss"].of


@pytest.mark.parametrize("name", SKLEARN)
def test_metric_equals_scikit_learn_whatever_the_weights(name):
    metric = METRICS[name].of
    generator = np.random.default_rng(1)
    scores = generator.integers(1, 20, 400) / 20  # many ties
    labels, weights = (generator.random(400) < scores).astype(float), generator.exponential(size=400)
    for given_weights in (None, weights):
        expected = SKLEARN[name](labels, scores, sample_weight=given_weights)
        assert metric(labels, scores, sample_weight=given_weights) == pytest.approx(expected, abs=1e-12)
    small = metric(labels, scores, sample_weight=weights * 1e-200)
    assert small == pytest.approx(metric(labels, scores, sample_weight=weights), abs=1e-12)
    times = generator.integers(0, 4, 400)
    twice = metric(np.repeat(labels, times), np.repeat(scores, times))
    assert metric(labels, scores, sample_weight=times) == pytest.approx(twice, abs=1e-12)


def test_log_loss_takes_soft_labels_and_stops_at_the_floor():
    assert log_loss([0.3], [0.3]) == pytest.approx(-(0.3 * np.log(0.3) + 0.7 * np.log(0.7)))
    assert log_loss([0.3], [0.3]) < min(log_loss([0.3], [0.29]), log_loss([0.3], [0.31]))
    assert log_loss([1.0], [0.0]) == pytest.approx(-np.log(PROBABILITY_FLOOR))
    assert log_loss([0.0], [1.0]) == pytest.approx(-np.log(PROBABILITY_FLOOR))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 0.5, 2.0])), min_size=1, max_size=25)
)
def test_auc_is_the_weighted_share_of_pairs_in_the_right_order(rows):
    positives, negatives = ([(s, w) for label, s, w in rows if label is kind] for kind in (True, False))
    won = sum(v * w * ((s > t) + 0.5 * (s == t)) for s, v in positives for t, w in negatives)
    total = sum(v * w for _, v in positives for _, w in negatives)
    labels, scores, weights = zip(*rows, strict=True)
    if total == 0:
        with pytest.raises(DataError):
            roc_auc(labels, scores, sample_weight=weights)
    else:
        assert roc_auc(labels, scores, sample_weight=weights) == pytest.approx(won / total)


@pytest.mark.parametrize(
    ("labels", "weights", "sentence"),
    [
        ([1, 1], None, "no negative row"),
        ([0, 0], None, "no positive row"),
        ([0, 1], [1, 0], "no positive row"),
        ([0, 0.5], None, r"y_true\[1\] = 0\.5 is neither 0 nor 1"),
    ],
)
def test_auc_needs_both_classes_and_nothing_between(labels, weights, sentence):
    assert roc_auc([0, 0, 1], [-1e12, 3.0, 7e9]) == 1.0
    with pytest.raises(DataError, match=sentence):
        roc_auc(labels, [0.1, 0.2], sample_weight=weights)


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize(
    ("labels", "scores", "weights", "sentence"),
    [
        ([], [], None, "y_true is empty"),
        ([0, 1], [0.5], None, "y_pred has 1 rows but y_true has 2"),
        ([0, 1], [0.5, 0.5], [1.0], "sample_weight has 1 rows but y_true has 2"),
        ([0, np.nan], [0.5, 0.5], None, r"y_true\[1\] = nan is not a finite number \(1 such rows\)"),
        ([0, 1], [np.inf, 0.5], None, r"y_pred\[0\] = inf is not a finite number"),
        ([0, 1], [0.5, 0.5], [1.0, -2.0], r"sample_weight\[1\] = -2\.0 is negative"),
        ([0, 1], [0.5, 0.5], [0.0, 0.0], r"sample_weight sums to 0\.0"),
        ([0, 1], [0.5, 0.5], [1e308, 1e308], "sample_weight sums to inf"),
        ([[0, 1]], [0.5, 0.5], None, r"y_true must be one-dimensional, got shape \(1, 2\)"),
        (["a", "b"], [0.5, 0.5], None, "y_true must be a sequence of numbers"),
    ],
)
def test_bad_columns_are_refused_in_one_sentence(name, labels, scores, weights, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        METRICS[name].of(labels, scores, sample_weight=weights)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("labels", "scores", "name"), [([0, 1], [0.5, 1.5], "y_pred"), ([0, 2], [0.5, 0.5], "y_true")])
def test_probability_metrics_refuse_values_outside_the_unit_interval(labels, scores, name):
    with pytest.raises(DataError, match=rf"{name}\[1\] = .* lies outside \[0, 1\]"):
        log_loss(labels, scores)
