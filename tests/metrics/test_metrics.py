"""Metrics against closed forms, plain one-user definitions and scikit-learn, and what they refuse."""

import itertools
from itertools import pairwise, permutations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from unskew.errors import DataError, ParameterError
from unskew.metrics import find
from unskew.metrics.calibration import calibration_error, calibration_interval, reliability_curve
from unskew.metrics.intervals import interval_in, normal_interval
from unskew.metrics.ranking import TopLists, UserLists
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
    if total:
        assert roc_auc(labels, scores, sample_weight=weights) == pytest.approx(won / total)


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize(
    ("labels", "scores", "weights", "sentence"),
    [
        ([], [], None, "y_true is empty"),
        ([0, 1], [0.5], None, "y_pred has 1 rows but y_true has 2"),
        ([0, 1], [0.5, 0.5], [1.0], "sample_weight has 1 rows but y_true has 2"),
        ([0, np.nan], [0.5, 0.5], None, r"y_true\[1\] = nan is not a finite number \(1 such rows\)"),
        ([0, 1], [0.5, 0.5], [1.0, -2.0], r"sample_weight\[1\] = -2\.0 is negative"),
        ([0, 1], [0.5, 0.5], [0.0, 0.0], r"sample_weight sums to 0\.0"),
        ([[0, 1]], [0.5, 0.5], None, r"y_true must be one-dimensional, got shape \(1, 2\)"),
        (["a", "b"], [0.5, 0.5], None, "y_true must be a sequence of numbers"),
    ],
)
def test_bad_columns_are_refused_in_one_sentence(name, labels, scores, weights, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        METRICS[name].of(labels, scores, sample_weight=weights)
    assert "\n" not in str(caught.value)


REFUSED = [
    (lambda: roc_auc([1, 1], [0.1, 0.2]), "no negative row"),
    (lambda: roc_auc([0, 1], [0.1, 0.2], sample_weight=[1, 0]), "no positive row"),
    (lambda: roc_auc([0, 0.5], [0.1, 0.2]), r"y_true\[1\] = 0\.5 is neither 0 nor 1"),
    (lambda: log_loss([0, 1], [0.5, 1.5]), r"y_pred\[1\] = 1.5 lies outside \[0, 1\]"),
    (lambda: log_loss([0, 2], [0.5, 0.5]), r"y_true\[1\] = 2.0 lies outside \[0, 1\]"),
    (lambda: calibration_error([1], [1], n_bins=0), "n_bins must be a whole number"),
    (lambda: calibration_error([1], [1], bins="kmeans"), "bins must be 'width' or 'mass', not 'kmeans'"),
    (lambda: calibration_error([1], [1], norm="l3"), "norm must be 'mean' or 'max'"),
    *((lambda k=k: two_rows([0, 0]).ndcg(k), "k must be a whole number from 1 to") for k in (0, 2.5, True, "5")),
    (lambda: UserLists.from_rows([1, 3], [0.1, 0.2], [0, 0]), r"y_true\[1\] = 3\.0 lies outside \[0, 1\]"),
    (lambda: two_rows([0]), r"users are int64 of shape \(1,\): give 2 integer codes"),
    (lambda: two_rows(["a", "b"]), "give 2 integer codes"),
]


def two_rows(users):
    return UserLists.from_rows([1, 0], [0.1, 0.2], users)


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_what_a_metric_is_not_defined_for_is_refused(call, sentence):
    with pytest.raises((DataError, ParameterError), match=sentence):
        call()


@pytest.fixture
def rows():
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


@pytest.mark.parametrize("high", [1.0, np.inf])
def test_an_interval_ends_inside_the_range_of_its_metric_and_covers(high):
    for value, error in ((0.99, 0.02), (0.01, 0.02), (0.5, 0.4)):
        found = interval_in((0, high), value, error)
        assert 0 < found.low < value < found.high < high
    assert interval_in((0, high), 0.4, 1e-4)[:3] == pytest.approx(normal_interval(0.4, 1e-4)[:3], abs=1e-6)
    assert interval_in((0, high), 0.0, 0.0)[:3] == (0, 0, 0)
    rng = np.random.default_rng(0)  # a share of .97 in 100 draws, or a mean error of 1
    samples = [rng.random(100) < 0.97 if high == 1 else rng.exponential(size=100) for _ in range(1000)]
    found = [interval_in((0, high), float(s.mean()), float(s.std(ddof=1) / 10)) for s in samples if s.std() > 0]
    assert np.mean([each.covers(0.97 if high == 1 else 1.0) for each in found]) > 0.93


def test_intervals_cover_what_they_claim():
    truth = calibration_error(*(lambda s: (0.7 * s, s))(np.linspace(0.0005, 0.9995, 1000)))
    covered = [
        calibration_interval(*drawn(seed, 1500, lambda s: 0.7 * s), seed=seed).covers(truth) for seed in range(60)
    ]
    assert np.mean(covered) > 0.85


def plain_ndcg(ratings, k):
    def dcg(order):
        return sum(rating / np.log2(place + 2) for place, rating in enumerate(order[:k]))

    return dcg(ratings) / dcg(sorted(ratings, reverse=True)) if any(ratings) else np.nan


def plain_auc(ratings, _):
    places = [(a, b) for a, upper in enumerate(ratings) for b, lower in enumerate(ratings) if upper >= 0.5 > lower]
    return float(np.mean([a < b for a, b in places])) if places else np.nan


def of_liked(function):
    """A function of whether pairs are liked and of k; undefined without any."""

    def plain(ratings, k):
        liked = [rating >= 0.5 for rating in ratings]
        return float(function(liked, k)) if any(liked) else np.nan

    return plain


PLAIN = {
    "ndcg": plain_ndcg,
    "user_auc": plain_auc,
    "recall": of_liked(lambda liked, k: sum(liked[:k]) / sum(liked)),
    "precision": of_liked(lambda liked, k: sum(liked[:k]) / min(k, len(liked))),
    "hit": of_liked(lambda liked, k: any(liked[:k])),
    "mrr": of_liked(lambda liked, _: 1 / (liked.index(True) + 1)),
}
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-1.0, 0.3, 0.7])),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("name", PLAIN)
@settings(deadline=None, max_examples=30)
@given(rows=ROWS, k=st.integers(1, 7))
def test_metric_is_the_mean_over_all_orders_of_tied_pairs(name, rows, k):
    """Every permutation that sorts the scores is one way to break the ties; all are equally likely."""
    users, ratings, scores = (list(column) for column in zip(*rows, strict=True))
    lists = UserLists.from_rows(ratings, scores, users)
    for user, value in zip(lists.users, METRICS[name].of(lists, k), strict=True):
        own = [row for row, owner in enumerate(users) if owner == user]
        if len(own) > 7:  # too many permutations: leave the longest lists to other examples
            continue
        orders = [o for o in permutations(own) if all(scores[a] >= scores[b] for a, b in pairwise(o))]
        expected = np.mean([PLAIN[name]([ratings[row] for row in order], k) for order in orders])
        assert value == pytest.approx(float(expected), nan_ok=True)


def test_figures_of_what_is_shown_by_hand():
    shown = TopLists(np.array([0, 0, 1, 1, 2, 2]), np.array([4, 1, 4, 2, 0, 4]), np.array([1, 2] * 3), np.arange(5))
    assert (shown.coverage(1), shown.coverage(2), shown.same_first()) == (2 / 5, 4 / 5, 2 / 3)
    assert shown.novelty(1) == pytest.approx(-np.log2(np.array([5, 5, 1]) / 15).mean())


def test_a_metric_is_found_by_its_name_and_length():
    assert (find("ndcg@5").k, find("ndcg@5").label) == (5, "nDCG@5")
    assert find("mse") is METRICS["mse"]
    for wrong in ("ndcg", "mse@5", "ndcg@0", "ndcg@x", "loss"):
        with pytest.raises(ParameterError, match=f"there is no metric '{wrong}'; choose from mse, mae"):
            find(wrong)
