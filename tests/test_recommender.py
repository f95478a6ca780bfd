"""The fitted thing: ids in, ids out, bounded memory, and sentences for what it does not know."""

import numpy as np
import pytest

import unskew
from unskew import topk
from unskew.errors import DataError, ParameterError

SHORT = unskew.Training(max_epochs=3, progress=False)


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    pairs = rng.choice(30 * 20, size=240, replace=False)
    users, items = np.divmod(pairs, 20)
    names = np.array([f"user-{n:02d}" for n in range(30)])
    return unskew.RatingLog.from_arrays(
        names[users], items * 7, rng.integers(1, 6, 240), user_ids=names, item_ids=np.arange(20) * 7
    )


@pytest.fixture(scope="module")
def model(log):
    return unskew.Naive().fit(log, training=SHORT)


def test_predictions_follow_external_ids_in_any_order(model, log):
    together = model.predict(["user-03", "user-07"], [14, 0])
    np.testing.assert_allclose(model.predict(["user-07", "user-03"], [0, 14]), together[::-1], rtol=1e-6)
    np.testing.assert_allclose(model.predict("user-03", 14), together[:1], rtol=1e-6)
    np.testing.assert_allclose(model.predict_codes(np.array([3]), np.array([2])), together[:1], rtol=1e-6)


def test_unknown_ids_are_refused_by_name_or_answered_for_the_average(model):
    with pytest.raises(DataError, match=r"user 'nobody' is not in the log \(1 of 2"):
        model.predict(["user-01", "nobody"], [0, 0])
    answer = model.predict(["nobody", "user-01"], [0, 999], on_unknown="fallback")
    assert ((answer > 0) & (answer < 1)).all()
    net = model.parts["prediction"]
    u, i, offset = net.value("users")[:-1], net.value("items"), net.value("offset")[0, 0]
    by_hand = u.mean(0)[:-1] @ i[0, :-1] + u.mean(0)[-1] + i[0, -1] + offset
    assert answer[0] == pytest.approx(1 / (1 + np.exp(-by_hand.item())), rel=1e-5)


def test_pairs_of_unequal_length_and_wrong_policies_are_refused(model):
    with pytest.raises(DataError, match="2 users for 1 items"):
        model.predict(["user-01", "user-02"], [0])
    with pytest.raises(ParameterError, match="'ignore'"):
        model.predict(["user-01"], [0], on_unknown="ignore")


def full_ranking(model, log, user, filter_seen=True):
    scores = model.predict_codes(np.full(20, user), np.arange(20))
    if filter_seen:
        scores[log.items[log.users == user]] = -np.inf
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > -np.inf]


@pytest.mark.parametrize("cells_at_once", [25, 1 << 21])
def test_recommend_agrees_with_a_full_sort_whatever_the_chunk(model, log, monkeypatch, cells_at_once):
    monkeypatch.setattr(topk, "CELLS_AT_ONCE", cells_at_once)
    table = model.recommend(k=4).to_pydict()
    for user in range(30):
        rows = [n for n, name in enumerate(table["user_id"]) if name == f"user-{user:02d}"]
        expected = full_ranking(model, log, user)[:4]
        assert [table["item_id"][n] for n in rows] == [7 * item for item in expected]
        assert [table["rank"][n] for n in rows] == list(range(1, len(expected) + 1))


def test_recommend_can_keep_seen_items_and_limit_the_candidates(model, log):
    table = model.recommend(["user-05"], k=50, filter_seen=False).to_pydict()
    assert table["item_id"] == [7 * item for item in full_ranking(model, log, 5, filter_seen=False)]
    limited = model.recommend(["user-05"], k=3, filter_seen=False, items=[0, 7, 14]).to_pydict()
    assert set(limited["item_id"]) == {0, 7, 14}
    assert limited["score"] == sorted(limited["score"], reverse=True)


def test_a_user_who_has_rated_everything_gets_no_rows():
    users, items = np.divmod(np.arange(40), 10)
    log = unskew.RatingLog.from_arrays(users[:30], items[:30], np.arange(30) % 2, positive=1, item_ids=range(10))
    model = unskew.Naive().fit(log, training=SHORT)
    assert model.recommend([0]).num_rows == 0
    assert model.recommend([]).num_rows == 0


def test_ties_go_by_the_order_of_the_catalogue(log):
    found = topk.top_items(lambda u, i: np.full(len(u), 0.5), log, np.array([0, 1]), np.arange(20), 3, False)
    assert found.items.tolist() == [0, 1, 2, 0, 1, 2]


def test_an_unknown_user_can_be_recommended_the_average_users_items(model):
    table = model.recommend(["nobody"], k=3, on_unknown="fallback").to_pydict()
    assert table["user_id"] == ["nobody"] * 3
    with pytest.raises(DataError, match="'nobody'"):
        model.recommend(["nobody"])


def test_a_method_without_propensity_says_so(model):
    with pytest.raises(ParameterError, match="Naive has no propensity"):
        model.propensity(["user-01"], [0])
    with pytest.raises(ParameterError, match="k must be at least 1, not 0"):
        model.recommend(k=0)


def test_propensities_are_answered_by_external_ids(log):
    model = unskew.IPS(propensity=unskew.Popularity()).fit(log, training=SHORT)
    counts = np.bincount(log.items, minlength=20)
    p = model.propensity(["user-00", "user-00"], [0, 7])
    assert p[0] / p[1] == pytest.approx(np.sqrt(counts[0] / counts[1]), rel=1e-5)


def test_the_history_tells_each_stage_and_the_kept_epoch(log):
    model = unskew.IPS(propensity=unskew.Factors(n_folds=2)).fit(log, training=SHORT)
    assert set(model.history.kept) == {
        "propensity propensity",
        "prediction",
    }
    assert "prediction: 3 epochs" in str(model.history)


def test_users_and_items_nobody_met_in_training_are_answered_for_as_the_average_and_counted():
    """A random start would otherwise rank an item that nobody rated anywhere."""
    rng = np.random.default_rng(1)
    users, items = np.divmod(rng.choice(20 * 10, size=120, replace=False), 10)
    log = unskew.RatingLog.from_arrays(
        users, items, rng.integers(0, 2, 120), positive=1, user_ids=range(22), item_ids=range(13)
    )
    model = unskew.Naive().fit(log, training=SHORT)
    answers = model.predict_codes(np.array([3, 3, 3, 3]), np.array([10, 11, 12, -1]))
    np.testing.assert_allclose(answers, answers[0], rtol=1e-4)
    assert "5 users or items had nothing to teach the prediction" in str(model.history)
