"""New users by their few ratings: as near to the truth as the model allows, and nobody else is touched."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import unskew
from unskew.errors import DataError, ParameterError
from unskew.selection.random_ratings import Line

SHORT = unskew.Training(max_epochs=25, progress=False)
N_KNOWN, N_ITEMS = 120, 60


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(160, N_ITEMS, density=0.25, seed=3)


@pytest.fixture(scope="module")
def known(world):
    """The ratings of the first users, whose ids are texts, and of all items."""
    part = world.log.take(world.log.users < N_KNOWN)
    users = np.array([f"u{code}" for code in range(N_KNOWN)])
    return unskew.RatingLog.from_arrays(
        users[part.users], part.items, part.ratings, positive=1, user_ids=users, item_ids=range(N_ITEMS)
    )


@pytest.fixture(scope="module")
def frame(world):
    """The ratings of all others."""
    part = world.log.take(world.log.users >= N_KNOWN)
    return pd.DataFrame({"user_id": [f"u{code}" for code in part.users], "item_id": part.items, "rating": part.ratings})


@pytest.fixture(scope="module")
def models(known):
    methods = {"naive": unskew.Naive(), "ips": unskew.IPS(propensity=unskew.Additive())}
    return {name: method.fit(known, training=SHORT) for name, method in methods.items()}


@pytest.fixture(scope="module")
def joined(models, frame):
    return {name: model.fold_in(frame) for name, model in models.items()}


def all_items(model, users, **settings):
    answers = model.predict(np.repeat(users, N_ITEMS), np.tile(np.arange(N_ITEMS), len(users)), **settings)
    return answers.reshape(len(users), N_ITEMS)


@pytest.mark.parametrize("name", ["naive", "ips"])
def test_folding_in_brings_new_users_nearer_to_the_truth_than_the_average_user_is(world, models, joined, name):
    codes = np.arange(N_KNOWN, 160)
    truth = world.preference(codes[:, None], np.arange(N_ITEMS)[None])
    ids = [f"u{code}" for code in codes]
    folded = ((all_items(joined[name], ids) - truth) ** 2).mean()
    fallback = ((all_items(models[name], ids, on_unknown="fallback") - truth) ** 2).mean()
    assert folded < 0.95 * fallback


def test_every_answer_about_known_users_stays_bit_for_bit(models, joined, known):
    users = list(known.user_ids)
    for name, model in models.items():
        assert all_items(joined[name], users).tobytes() == all_items(model, users).tobytes()
    pairs = known.user_ids.take(known.users), known.item_ids.take(known.items)
    assert joined["ips"].propensity(*pairs).tobytes() == models["ips"].propensity(*pairs).tobytes()
    before, after = models["naive"].split, joined["naive"].split
    assert after.holdout_rows.tolist() == before.holdout_rows.tolist()  # what was held out stays so too


def test_new_users_are_recommended_what_they_have_not_rated_and_come_back_from_a_file(joined, frame, tmp_path):
    model = joined["ips"]
    table = model.recommend(["u130"], k=N_ITEMS).to_pydict()
    rated = set(frame.loc[frame["user_id"] == "u130", "item_id"])
    assert set(table["item_id"]) == set(range(N_ITEMS)) - rated
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    ids = sorted(set(frame["user_id"]))
    assert all_items(loaded, ids).tobytes() == all_items(model, ids).tobytes()
    assert loaded.n_fitted == N_KNOWN
    assert "40 new users were folded in from" in str(loaded.history)


def test_a_user_without_ratings_is_the_average_user_and_is_counted(models):
    log = unskew.RatingLog.from_arrays(
        ["new", "new"], [1, 2], [0, 1], positive=1, user_ids=["new", "empty"], item_ids=range(N_ITEMS)
    )
    folded = models["ips"].fold_in(log)
    fallback = all_items(models["ips"], ["nobody"], on_unknown="fallback")
    np.testing.assert_allclose(all_items(folded, ["empty"]), fallback, atol=1e-6)
    assert np.abs(all_items(folded, ["new"]) - fallback).max() > 0.001
    assert "1 of them have no rating" in folded.history.notes[-1]


def test_what_random_ratings_have_corrected_stays_corrected_and_holds_for_new_users(models, frame):
    model = replace(models["naive"], corrections={"prediction": Line(1.0, -1.0)})
    folded, plain = model.fold_in(frame), models["naive"].fold_in(frame)
    users = list(model.log.user_ids)
    assert all_items(folded, users).tobytes() == all_items(model, users).tobytes()
    expected = expit(logit(all_items(plain, ["u130"])) - 1)
    np.testing.assert_allclose(all_items(folded, ["u130"]), expected, rtol=1e-6)


def test_users_may_come_in_portions_or_together(models, frame):
    early, late = frame[frame["user_id"] < "u140"], frame[frame["user_id"] >= "u140"]
    model = models["ips"]
    together, ids = model.fold_in(frame), sorted(set(frame["user_id"]))
    np.testing.assert_allclose(all_items(model.fold_in(early).fold_in(late), ids), all_items(together, ids), rtol=1e-5)


@pytest.mark.parametrize("error", ["log", "squared"])
def test_a_new_user_has_the_row_that_minimises_the_weighted_risk_and_the_penalty(known, frame, error):
    """By another minimiser, with weights and covariance by hand."""
    model = unskew.IPS(propensity=unskew.Popularity(), net=unskew.MF(n_factors=2), error=error).fit(
        known, training=unskew.Training(max_epochs=5, progress=False)
    )
    folded, rated = model.fold_in(frame), frame[frame["user_id"] == "u125"]
    users, items = (folded.part("prediction").linear()[side].astype(float) for side in (0, 1))
    offsets = folded.part("prediction").linear().offsets.astype(float)
    clip = len(known) / known.n_pairs
    own = 1 / np.maximum(model.scores("propensity", known.users, known.items), clip)
    weight = 1 / np.maximum(folded.propensity(rated["user_id"], rated["item_id"]), clip) / own.mean()
    mean, precision = users[:N_KNOWN].mean(0), np.linalg.inv(np.cov(users[:N_KNOWN].T, bias=True))
    x, c, r = items[rated["item_id"]], offsets[rated["item_id"]], rated["rating"].to_numpy()

    def objective(theta):
        z = x @ theta + c
        e = (expit(z) - r) ** 2 if error == "squared" else np.logaddexp(0, z) - r * z
        return weight @ e + 0.5 * (theta - mean) @ precision @ (theta - mean)

    expected = minimize(objective, mean, tol=1e-10).x
    found = users[folded.log.user_ids.codes(["u125"])[0]]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_graded_ratings_are_folded_in_on_their_scale(world):
    part = world.log.take(world.log.users < 40)
    ratings = 1 + 4 * part.ratings
    log = unskew.RatingLog.from_arrays(
        part.users, part.items, ratings, positive=None, rating_scale=(1, 5), item_ids=range(N_ITEMS)
    )
    model = unskew.Naive().fit(log, training=unskew.Training(max_epochs=3, progress=False))
    new = pd.DataFrame({"user_id": ["good", "bad"], "item_id": [1, 1], "rating": [5.0, 1.0]})
    good, bad = model.fold_in(new).predict(["good", "bad"], [1, 1])
    assert 1 <= bad < good <= 5


def bad(**columns):
    return pd.DataFrame({"user_id": ["new", "new"], "item_id": [1, 2], "rating": [0, 1]} | columns)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (bad(user_id=["new", "u3"]), r"The user 'u3' is in the log already \(1 of 2 are\)"),
        (bad(item_id=[1, 999]), r"The item 999 is not in the log \(1 of 2 ratings .* pass on_unknown='fallback'"),
        (bad(item_id=[1, 1]), "user 'new' rated item 1 twice"),
        (bad().head(0), "there are no ratings"),
        ([1, 2], "the frame must be a pandas, polars or pyarrow one"),
    ],
)
def test_what_cannot_be_folded_in_is_one_sentence(models, given, sentence):
    with pytest.raises(DataError, match=sentence):
        models["naive"].fold_in(given)


def test_models_that_new_users_do_not_fit_are_refused(models, known, world, tmp_path):
    log = unskew.RatingLog.from_arrays(["new", "old"], [1, 2], [1, 4], positive=3)
    with pytest.raises(ParameterError, match="read them in the same way"):
        models["naive"].fold_in(log)
    brief = unskew.Training(max_epochs=1, progress=False)
    with pytest.raises(ParameterError, match="cannot be folded into a ConcatenationNet"):
        unskew.Naive(net=unskew.NCF(n_factors=2)).fit(known, training=brief).fold_in(bad())
    by_function = unskew.IPS(propensity=unskew.Known(world.propensity)).fit(known, training=brief)
    with pytest.raises(ParameterError, match="Known propensities do not cover new users"):
        by_function.fold_in(bad())
    by_function.save(tmp_path / "model")
    with pytest.raises(ParameterError, match="propensity of this model is not in its file"):
        unskew.load(tmp_path / "model").fold_in(bad())
