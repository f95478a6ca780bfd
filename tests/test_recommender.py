"""The fitted thing: ids in, ids out, bounded memory, and sentences for what it does not know."""

import re
import warnings
from dataclasses import replace
from functools import partial

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.special

import unskew
from unskew import DataError, ParameterError, topk
from unskew.losses.columns import sigmoid
from unskew.nets.base import Linear
from unskew.nets.near import Products, by_logits
from unskew.topk import contributions

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
    assert repr(model) == f"Recommender(Naive fitted by seed 0 on {log!r})"  # one line


def test_unknown_ids_are_answered_for_the_average(model):
    answer = model.predict(["nobody", "user-01"], [0, 999], on_unknown="fallback")
    assert ((answer > 0) & (answer < 1)).all()
    np.testing.assert_array_equal(answer, model.predict_codes(np.array([-1, 1]), np.array([0, -1])))
    assert model.recommend(["nobody"], k=3, on_unknown="fallback")["user_id"].to_pylist() == ["nobody"] * 3


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda m: m.predict(["user-01", "user-02"], [0]), "2 users for 1 items"),
        (lambda m: m.predict(["user-01"], [0], on_unknown="ignore"), "'ignore'"),
        (lambda m: m.predict(["a", "a", "b", "user-03"], [0, 7, 14, 0]), "'a' is not in the log (2 of 3 different u"),
        (lambda m: m.recommend(k=0), "k must be a whole number from 1 to"),
        (lambda m: m.propensity(["user-01"], [0]), "Naive has no propensity"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_a_sentence(model, ask, sentence):
    with pytest.raises(unskew.UnskewError, match=re.escape(sentence)):
        ask(model)


@pytest.mark.parametrize(("cells_at_once", "exclude_seen"), [(25, True), (25, False), (1 << 21, True)])
def test_recommend_agrees_with_a_full_sort_whatever_the_chunk(model, log, monkeypatch, cells_at_once, exclude_seen):
    monkeypatch.setattr(topk, "CELLS_AT_ONCE", cells_at_once)
    table = model.recommend(k=50, exclude_seen=exclude_seen).to_pydict()
    for user in range(30):
        scores = model.predict_codes(np.full(20, user), np.arange(20))
        if exclude_seen:
            scores[log.items[log.users == user]] = -np.inf
        order = np.argsort(-scores, kind="stable")
        expected = order[scores[order] > -np.inf]
        rows = [n for n, name in enumerate(table["user_id"]) if name == f"user-{user:02d}"]
        assert [table["item_id"][n] for n in rows] == [7 * item for item in expected]
        assert [table["rank"][n] for n in rows] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize("size", [0.0, 0.01, 1.0, 9.0, 300.0])
def test_lists_by_inner_products_are_those_by_all_answers(size):
    """Also where answers are equal: of no size, near 1, and of items that are twice in the catalogue."""
    rng, n = np.random.default_rng(3), 700
    drawn = rng.choice(20 * n, 900, replace=False)
    log = unskew.RatingLog.from_arrays(
        *np.divmod(drawn, n), drawn % 2, positive=1, user_ids=range(20), item_ids=range(n)
    )
    users, items = (rng.standard_normal((rows + 1, 5)).astype(np.float32) * size**0.5 for rows in (20, n))
    items[200:400] = items[:200]
    form = Linear(users, items, rng.standard_normal(n + 1).astype(np.float32) * np.float32(size))
    form.offsets[200:400] = form.offsets[:200]

    def score(u, i):
        return sigmoid((users[u] * items[i]).sum(axis=1) + form.offsets[i])

    products = Products(np.column_stack([items, form.offsets])[:n])

    def ranked(u):
        return by_logits(products(np.column_stack([users[u], np.ones(len(u))])))

    asked = topk.Candidates(log, np.arange(-1, 20), without=np.arange(0, n, 7))
    for k in (1, 10):
        found = topk.top_items(score, asked, k), topk.top_items(score, asked, k, ranked=ranked)
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


FRAME = {
    "userId": [user for user in range(24) for _ in range(5)],
    "movieId": [(user + 3 * place) % 15 for user in range(24) for place in range(5)],
    "stars": [1 + (user * place) % 5 for user in range(24) for place in range(5)],
}
TITLES = {item: f"Film {item}" for item in range(15)}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(scope="module", params=KINDS)
def framed(request):
    """A model of a frame, and the kind of frame that it came in."""
    kind = KINDS[request.param]
    log = unskew.RatingLog.from_frame(kind(FRAME), item_names=TITLES)
    return unskew.make("naive", net=unskew.MF(n_factors=3)).fit(log, training=SHORT), kind


def test_answers_come_in_the_users_library_with_names_and_titles(framed, tmp_path):
    model, kind = framed
    model.save(tmp_path / "model")
    for one in (model, unskew.load(tmp_path / "model")):
        for frame in (one.recommend(3, k=2), one.recommend([3], 2)):
            assert isinstance(frame, type(kind(FRAME)))
            found = nw.from_native(frame)
            assert found.columns == ["userId", "movieId", "title", "score", "rank"]
            assert found["title"].to_list() == [f"Film {item}" for item in found["movieId"].to_list()]
        pairs = one.predict(kind({"movieId": [1, 2], "userId": [3, 4], "note": ["a", "b"]}))
        assert isinstance(pairs, type(kind(FRAME)))
        expected = one.predict([3, 4], [1, 2])
        np.testing.assert_array_equal(nw.from_native(pairs)["prediction"].to_numpy(), expected)


@pytest.mark.parametrize("library", KINDS)
def test_lists_come_in_another_library_where_asked_for(framed, library):
    for ask in (framed[0].recommend, framed[0].similar, partial(framed[0].explain, 3)):
        assert isinstance(ask(3, k=2, library=library), type(KINDS[library](FRAME)))
        with pytest.raises(ParameterError, match="library must be 'pandas', 'polars' or 'pyarrow', not 'excel'"):
            ask(3, library="excel")


def test_lists_can_be_limited_filtered_and_given_candidates(framed):
    model, kind = framed
    both = nw.from_native(model.recommend(3, k=15, exclude_seen=False))["movieId"].to_list()
    limited = nw.from_native(model.recommend(3, k=15, exclude_seen=False, items=both[3:9]))["movieId"].to_list()
    assert limited == both[3:9]
    some = nw.from_native(model.recommend(3, k=15, exclude_seen=False, filter_items=both[:2]))["movieId"].to_list()
    assert some == both[2:]
    offered = kind({"userId": [3, 3, 5, 3], "movieId": [both[4], both[1], both[0], both[1]]})
    found = nw.from_native(model.recommend(candidates=offered, exclude_seen=False))
    assert (found["userId"].to_list(), found["movieId"].to_list()) == ([3, 3, 5], [both[1], both[4], both[0]])
    seen = nw.from_native(model.recommend(candidates=kind({"userId": [0, 0], "movieId": [0, 1]})))
    assert seen["movieId"].to_list() == [1]
    with pytest.raises(ParameterError, match="leave users and items out"):
        model.recommend(3, candidates=offered)


def test_alike_is_what_goes_up_and_down_together_over_all_users(framed):
    model, _ = framed
    logits = np.array([scipy.special.logit(model.predict_codes(np.full(15, u), np.arange(15))) for u in range(24)])
    alike = np.corrcoef((logits - logits.mean(1, keepdims=True)).T)
    items, users = nw.from_native(model.similar(items=2, k=14)), nw.from_native(model.similar(users=2, k=23))
    for found, places in ((items, items[items.columns[2]].to_list()), (users, users[users.columns[1]].to_list())):
        assert len({2, *places}) == len(places) + 1
        assert (np.diff(found["similarity"].to_numpy()) <= 1e-12).all()
    rows = model.log.item_ids.codes([2, *items[items.columns[2]]])
    np.testing.assert_allclose(items["similarity"].to_numpy(), alike[rows[0], rows[1:]], atol=2e-4)
    with pytest.raises(ParameterError, match="give one of the two"):
        model.similar()


def test_items_that_are_not_in_the_log_are_refused_or_left_out_and_counted(framed):
    model, _ = framed
    with pytest.raises(DataError, match=r"The item 99 is not in the log .* pass on_unknown='fallback' to leave it out"):
        model.recommend(3, items=[1, 99])
    with pytest.warns(UserWarning, match=r"^1 items that the log does not know were left out\.$"):
        found = model.recommend(3, items=[1, 99], exclude_seen=False, on_unknown="fallback")
    assert nw.from_native(found)["movieId"].to_list() == [1]


def test_a_title_in_the_place_of_an_id_is_answered_with_the_id(framed):
    model, _ = framed
    for ask in (
        lambda: model.similar("film 1"),
        lambda: model.explain(3, "Film 1"),
        lambda: model.recommend(items="Film 1"),
    ):
        with pytest.raises(DataError, match=r"is the title of an item: give its id, such as 1 \(Film 1\), "):
            ask()
    with pytest.raises(DataError, match=r"The item 'Film 99' is not in the log; give ids as its columns have them"):
        model.similar("Film 99")


def test_what_speaks_for_an_answer_is_what_the_user_has_rated(framed):
    model, _ = framed
    found = nw.from_native(model.explain(3, 2, k=3))
    assert found.columns == ["movieId", "title", "stars", "contribution"]
    rated = dict(zip(FRAME["movieId"][15:20], FRAME["stars"][15:20], strict=True))
    assert all(rated[item] == stars for item, stars in zip(found["movieId"], found["stars"], strict=True))
    sizes = found["contribution"].abs().to_list()
    assert sizes == sorted(sizes, reverse=True)


def test_contributions_sum_to_the_row_that_ratings_give_a_new_user():
    """Where the first order is all there is: nearly no spread of users, so that no rating moves any probability."""
    rng = np.random.default_rng(0)
    form = Linear(1 + 1e-3 * rng.normal(size=(500, 3)), rng.normal(size=(20, 3)), rng.normal(size=20))
    rated, ratings = np.arange(8), rng.integers(0, 2, 8).astype(float)
    mean = form.users.mean(0)
    covariance = np.cov(form.users.T, bias=True)
    p = scipy.special.expit(form.items[rated] @ mean + form.offsets[rated])
    moved = covariance @ (form.items[rated].T @ (ratings - p))
    expected = [form.items[item] @ moved for item in range(20)]
    found = [contributions(form, rated, ratings, item).sum() for item in range(20)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-9)


def test_lists_that_are_the_same_for_everybody_are_warned_of(framed):
    model, _ = framed
    flat = replace(model, log=model.log)
    object.__setattr__(flat, "ranking", lambda by, seed=0: lambda users, items: -items.astype(float))
    with pytest.warns(UserWarning, match=r"'Film 0' is in 24 of 24 lists, and all lists together hold 2 of 15 items"):
        flat.recommend(k=2, exclude_seen=False)
    with warnings.catch_warnings(action="error"):  # who may choose of two has no choice
        flat.recommend(k=2, exclude_seen=False, items=flat.log.item_ids.arrow[:2])
        flat.recommend(k=10, exclude_seen=False)
