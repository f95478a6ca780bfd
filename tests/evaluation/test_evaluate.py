"""`evaluate`: every metric by its own rule, every omission noted."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.evaluation import evaluate
from unskew.metrics import METRICS, UserLists, mean_over_users
from unskew.metrics import table as accuracy

USERS = ["ann", "ann", "ann", "bob", "bob", "cy", "cy", "dee"]
ITEMS = ["x", "y", "z", "x", "y", "y", "z", "z"]
STARS = [5, 1, 3, 2, 1, 4, 4, 1]
SCORES = np.array([0.8, 0.3, 0.2, 0.4, 0.4, 0.7, 0.9, 0.1])


@pytest.fixture
def binary() -> RatingLog:
    return RatingLog.from_arrays(USERS, ITEMS, STARS)  # bob and dee are empty; only ann has both classes


@pytest.fixture
def graded() -> RatingLog:
    return RatingLog.from_arrays(USERS, ITEMS, STARS, positive=None, rating_scale=(1, 5))


def random_log(n_rows: int) -> tuple[RatingLog, np.ndarray]:
    generator = np.random.default_rng(0)
    pairs = generator.choice(n_rows * 10, n_rows, replace=False)
    scores = generator.random(n_rows)
    return RatingLog.from_arrays(pairs // 200, pairs % 200, generator.random(n_rows) < scores, positive=1), scores


def test_metrics_come_in_reading_order(binary):
    assert list(evaluate(SCORES, binary).metrics) == [
        *("mse", "mae", "log_loss", "auc", "user_auc", "mrr"),
        *("ndcg@5", "recall@5", "precision@5", "hit@5", "ndcg@10", "recall@10", "precision@10", "hit@10"),
    ]
    assert list(evaluate(SCORES, binary, k=3).metrics)[6:] == ["ndcg@3", "recall@3", "precision@3", "hit@3"]


@pytest.mark.parametrize("rule", ["skip", "one", "zero"])
def test_every_metric_is_the_plain_function_of_that_name(rule):
    test, scores = random_log(2000)
    found = evaluate(scores, test, k=(2, 5), empty_users=rule)
    labels = test.ratings
    expected = {
        "mse": accuracy.mean_squared_error(labels, scores),
        "mae": accuracy.mean_absolute_error(labels, scores),
        "log_loss": accuracy.log_loss(labels, scores),
        "auc": accuracy.roc_auc(labels, scores),
    }
    lists = UserLists.from_rows(labels, scores, test.users)
    for name in ("user_auc", "mrr"):
        expected[name] = mean_over_users(METRICS[name].of(lists, 0), "skip" if name == "user_auc" else rule)
    for k in (2, 5):
        for name in ("ndcg", "recall", "precision", "hit"):
            expected[f"{name}@{k}"] = mean_over_users(METRICS[name].of(lists, k), rule)
    assert found.metrics == expected
    assert found["auc"] == expected["auc"]


def test_counts_and_rules_are_stated(binary):
    found = evaluate(SCORES, binary, empty_users="one")
    assert (found.n_pairs, found.n_users, found.n_empty_users, found.empty_users) == (8, 4, 2, "one")
    shown = str(found)
    assert "rating of at least 3" in shown
    assert "2 users without a positive pair are counted as 1" in shown
    assert "mean over 1 users" in shown
    assert f"{found['ndcg@10']:.4f}" in shown


def test_rules_for_empty_users_differ_by_their_share(binary):
    one, zero, skip = (evaluate(SCORES, binary, empty_users=rule) for rule in ("one", "zero", "skip"))
    for name in ("ndcg@5", "recall@5", "precision@5"):
        assert one[name] - zero[name] == pytest.approx(2 / 4)
        assert skip[name] == pytest.approx(2 * zero[name])
    assert one["user_auc"] == zero["user_auc"] == skip["user_auc"] == 0.5


def test_model_function_and_array_give_the_same_answer(binary):
    table = dict(zip(zip(USERS, ITEMS, strict=True), SCORES, strict=True))

    class Model:
        def predict(self, users, items, on_unknown="error"):
            return [table[user.as_py(), item.as_py()] for user, item in zip(users, items, strict=True)]

    def function(users, items):
        assert isinstance(users, np.ndarray)
        return np.array([table[pair] for pair in zip(users, items, strict=True)])

    shuffled = binary.take(np.array([5, 2, 7, 0, 1, 6, 4, 3]))
    expected = evaluate(SCORES, binary).metrics
    for source in (Model(), function):
        found = evaluate(source, shuffled).metrics
        assert found == pytest.approx(expected)


def test_per_user_table_lists_users_with_null_where_undefined(binary):
    found = evaluate(SCORES, binary, k=2)
    table = found.per_user.to_arrow()
    assert table.column_names == [
        "user_id",
        "n_ratings",
        "n_positives",
        "auc",
        "ndcg@2",
        "recall@2",
        "precision@2",
        "hit@2",
        "mrr",
    ]
    assert table["user_id"].to_pylist() == ["ann", "bob", "cy", "dee"]
    assert table["n_ratings"].to_pylist() == [3, 2, 2, 1]
    assert table["n_positives"].to_pylist() == [2, 0, 2, 0]
    assert table["auc"].to_pylist() == [0.5, None, None, None]
    assert table["recall@2"].to_pylist() == [0.5, None, 1.0, None]
    assert np.isnan(found.per_user["recall@2"]).tolist() == [False, True, False, True]
    assert np.nanmean(found.per_user["ndcg@2"]) == found["ndcg@2"]


def test_users_without_test_pairs_are_not_counted(binary):
    found = evaluate(SCORES[:3], binary.take(np.arange(3)))
    assert (found.n_users, len(found.per_user)) == (1, 1)


def test_scores_that_are_no_probabilities_leave_log_loss_out_and_say_so(binary):
    raw = evaluate(SCORES * 10 - 4, binary)
    assert "log_loss" not in raw.metrics
    assert raw["mse"] == pytest.approx(np.mean((SCORES * 10 - 4 - binary.ratings) ** 2))
    assert any("6 of 8 scores lie outside [0, 1]: log_loss is left out" in note for note in raw.notes)
    calm = evaluate(SCORES, binary)
    assert calm.notes == ()
    assert {name: raw[name] for name in ("auc", "user_auc", "ndcg@5")} == {
        name: calm[name] for name in ("auc", "user_auc", "ndcg@5")
    }


def test_clamped_probabilities_are_counted(binary):
    scores = SCORES.copy()
    scores[:3] = [0.0, 1.0, 1e-7]
    assert any("clamped 3 probabilities" in note for note in evaluate(scores, binary).notes)


def test_graded_logs_are_judged_on_their_own_scale(graded):
    predictions = 1 + 4 * SCORES
    found = evaluate(predictions, graded, k=2)
    unit = (np.array(STARS) - 1) / 4
    assert found["mse"] == pytest.approx(np.mean((predictions - STARS) ** 2))
    assert found["mae"] == pytest.approx(np.mean(np.abs(predictions - STARS)))
    assert found["auc"] == accuracy.roc_auc(np.array(STARS) >= 3, SCORES)
    lists = UserLists.from_rows(unit, SCORES, graded.users)
    assert found["ndcg@2"] == pytest.approx(mean_over_users(lists.ndcg(2)))
    assert "log_loss" not in found.metrics
    assert found.positive_from == 3
    assert any("graded from 1 to 5" in note for note in found.notes)


def test_graded_predictions_outside_the_scale_are_counted(graded):
    assert any("8 of 8 scores lie outside [1, 5]" in note for note in evaluate(SCORES, graded).notes)


@pytest.mark.parametrize(("rows", "kind"), [([0, 2, 5], "positive"), ([1, 3, 7], "negative")])
def test_a_test_of_one_class_has_no_auc_and_says_so(binary, rows, kind):
    found = evaluate(SCORES[rows], binary.take(np.array(rows)))
    assert not {"auc", "user_auc"} & found.metrics.keys()
    assert any(f"every test pair is {kind}" in note for note in found.notes)
    assert any("defined for no user: user_auc" in note for note in found.notes)
    assert ("ndcg@5" in found.metrics) == (kind == "positive")
    assert not np.isnan(list(found.metrics.values())).any()
    assert str(found)


def test_one_row_is_enough(binary):
    found = evaluate([0.4], binary.take(np.array([0])))
    assert found["ndcg@5"] == found["recall@5"] == found["precision@5"] == 1


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (SCORES[:3], "there are 3 scores for 8 test rows"),
        (np.full(8, np.nan), r"scores\[0\] = nan is not a finite number \(8 such rows\)"),
        (SCORES[:, None], "scores must be one-dimensional"),
        ("best", "scores must be a sequence of numbers"),
    ],
)
def test_unusable_scores_are_refused_in_one_sentence(binary, scores, sentence):
    with pytest.raises(DataError, match=sentence):
        evaluate(scores, binary)


def test_an_empty_test_is_refused(binary):
    with pytest.raises(DataError, match="the test log has no ratings"):
        evaluate([], binary.take(np.array([], dtype=int)))


@pytest.mark.parametrize("options", [{"k": 0}, {"k": (5, 2.5)}, {"empty_users": "none"}])
def test_bad_settings_are_refused_before_the_model_is_asked(binary, options):
    def never(users, items):
        raise AssertionError("the model was asked")

    with pytest.raises(ParameterError):
        evaluate(never, binary, **options)


def test_unknown_metric_names_the_known_ones(binary):
    found = evaluate(SCORES, binary)
    with pytest.raises(ParameterError, match=r"no metric 'ndcg@7' here; choose from mse, mae, "):
        found["ndcg@7"]
    with pytest.raises(ParameterError, match="no column 'x'"):
        found.per_user["x"]


def test_a_large_test_is_evaluated_at_once():
    test, scores = random_log(200_000)
    found = evaluate(lambda users, items: scores, test)
    assert found["auc"] == pytest.approx(
        5 / 6, abs=0.01
    )  # P(s > s') for densities 2s of positives, 2 - 2s of negatives
    assert found["mse"] == pytest.approx(1 / 6, abs=0.01)  # E s (1 - s)
