"""The Bayesian model as a method and a part: kept bits, answers by level, orders of lists, new users, refusals."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import unskew
from unskew import BayesianFactors, ParameterError, Training, asked

QUIET = Training(progress=False, max_epochs=3)


@pytest.fixture(scope="module")
def log():
    """Users of two tastes rate mostly what they like, from 1 to 5."""
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(60 * 50)[:1400], 50)
    mean = 3 + 1.2 * np.where(users % 2 == items % 2, 1, -1)
    stars = np.clip(np.rint(mean + rng.normal(0, 0.7, len(users))), 1, 5)
    return unskew.RatingLog.from_arrays(users, items, stars, positive=4, user_ids=range(60), item_ids=range(50))


@pytest.fixture(scope="module")
def model(log):
    return unskew.fit(log, sweeps=40, training=QUIET)


def all_pairs(model):
    return np.divmod(np.arange(model.log.n_pairs), model.log.n_items)


def test_it_learns_tastes_that_no_average_tells(model):
    users, items = all_pairs(model)
    liked = model.predict_codes(users, items)
    same = users % 2 == items % 2
    assert liked[same].mean() > 0.6 > 0.4 > liked[~same].mean()
    for stage in ("Who-saw-what", "sweeps were run", "Exposure:", "The targeted correction", "iking drives seeing"):
        assert stage in " ".join(model.history.notes)
    assert model.weights is None  # its propensity corrects, and no loss is weighed or clipped by it


def test_levels_add_up_and_agree_with_chance_and_mean(model):
    users, items = [0, 1, 2], [3, 4, 5]
    levels, chances = model.predict(users, items, as_="levels")
    np.testing.assert_array_equal(levels, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_allclose(model.predict(users, items, as_="rating"), chances @ levels)
    from_three = model.predict(users, items, liked_from=3)
    np.testing.assert_allclose(from_three, chances[:, 2:].sum(1), atol=1e-12)
    _, std = model.predict(users, items, return_std=True)
    assert ((std > 0) & (std < 0.5)).all()
    part, codes = model.part("prediction"), asked.pairs_of(model.log, users, items, "raise")
    rated, liked = (
        model.predict(users, items, return_std=True, **of)[1] for of in ({"as_": "rating"}, {"liked_from": 5})
    )
    np.testing.assert_array_equal(rated, part.std(*codes, as_rating=True))
    np.testing.assert_array_equal(liked, part.std(*codes, 5.0))
    assert (rated > std).all()  # of stars


def test_scores_by_choice_are_log_chances_of_known_and_of_new_users(model):
    given = pd.DataFrame({"user_id": [900, 900, 901], "item_id": [0, 3, 5], "rating": [5.0, 1.0, 4.0]})
    both, asked = model.fold_in(given), [1, 900, 901]
    listed = pd.DataFrame([(user, item) for user in asked for item in (7, 8, 9)], columns=["user_id", "item_id"])
    for rules in ({"users": asked}, {"users": asked, "explore": 0.0}, {"candidates": listed}):
        found = both.recommend(k=50, by="choice", library="pandas", **rules)
        totals = np.exp(found["score"]).groupby(found["user_id"]).sum()
        assert list(totals.index) == asked
        np.testing.assert_allclose(totals, 1)
    of_new = both.recommend(900, k=50, by="choice", library="pandas")
    weight = both.predict([900] * 48, of_new["item_id"]) * np.bincount(model.log.items)[of_new["item_id"]]
    np.testing.assert_allclose(np.exp(of_new["score"]), weight / weight.sum(), rtol=0.1)  # corrections move liking


def test_lists_name_their_order_and_refuse_one_they_do_not_have(model, log):
    assert model.recommend(k=1).schema.metadata[b"order"] == b"choice"
    naive = unskew.Naive().fit(log, training=QUIET)
    assert naive.recommend(k=1).schema.metadata[b"order"] == b"liking"
    with pytest.raises(ParameterError, match=r"by must be 'liking' for Naive, not 'choice'; .*dce-bayes"):
        naive.recommend(by="choice")
    with pytest.raises(ParameterError, match="knows no levels of ratings; use the method 'dce-bayes'"):
        naive.predict([0], [0], as_="levels")
    one, other = (model.recommend(k=5, by="thompson", seed=seed)["item_id"].to_pylist() for seed in (0, 1))
    assert one != other


def test_somebody_unknown_is_the_average_and_a_new_user_is_learned(model):
    unknown = model.predict(["nobody"] * 50, list(range(50)), on_unknown="fallback")
    assert np.isfinite(unknown).all()
    new = pd.DataFrame({"user_id": "new", "item_id": [0, 2, 4, 6, 1, 3, 5, 7], "rating": [5, 5, 5, 5, 1, 1, 1, 1]})
    folded = model.fold_in(new)
    answers = folded.predict(["new"] * 50, list(range(50)))
    assert answers[::2].mean() > answers[1::2].mean() + 0.2
    pairs = all_pairs(model)
    np.testing.assert_allclose(folded.predict_codes(*pairs), model.predict_codes(*pairs), atol=1e-12)


def test_it_can_be_the_imputation_of_a_doubly_robust_method(log):
    assert BayesianFactors in [entry.cls for entry in unskew.registered("imputation")]
    method = unskew.make("dr-jl", imputation=BayesianFactors(sweeps=20), propensity=unskew.Popularity())
    model = method.fit(log, training=QUIET)
    assert any("imputation is fitted before" in note for note in model.history.notes)
    assert model.imputation([0], [0]).shape == (1,)


def test_a_graded_log_gets_expected_ratings(log):
    scale = {"positive": None, "rating_scale": (1, 5), "user_ids": range(60), "item_ids": range(50)}
    graded = unskew.RatingLog.from_arrays(log.users, log.items, log.stars, **scale)
    model = unskew.fit(graded, sweeps=30, training=QUIET)
    users, items = all_pairs(model)
    rating = model.log.scale.from_unit(model.predict_codes(users, items))
    np.testing.assert_allclose(rating[:9], model.predict(users[:9], items[:9], as_="rating"), atol=1e-3)


def test_a_log_of_zeros_and_ones_is_a_probit():
    world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
    model = unskew.fit(world.log, sweeps=30, training=QUIET)
    levels, _ = model.predict([0], [0], as_="levels")
    np.testing.assert_array_equal(levels, [0, 1])


def test_the_hold_out_does_not_judge_a_model_that_knows_it(model):
    assert model.fitted_on == "all"
    with pytest.raises(unskew.DataError, match="was trained on 140 of the log's 140 ratings"):
        unskew.estimate_risk(model, model.split.holdout)


def test_vectors_are_exported_and_order_as_the_posterior_does(model, tmp_path):
    written = unskew.export.to_parquet(model, tmp_path / "vectors")
    users, items = (pq.read_table(tmp_path / "vectors" / f"{side}.parquet") for side in ("users", "items"))
    product = np.stack(users["vector"].to_pylist()) @ np.stack(items["vector"].to_pylist()).T
    part = model.part("prediction")
    pairs = all_pairs(model)
    np.testing.assert_allclose(product.ravel(), part.scores(*pairs) - part.threshold(), atol=1e-4)
    assert "mapped" in written.notes[0]
    with pytest.raises(ParameterError, match="has no form as ONNX: export its vectors"):
        unskew.export.to_onnx(model, tmp_path / "model.onnx")
