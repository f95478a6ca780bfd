"""What `estimate_risk` takes, refuses and says; and that a large catalogue needs no matrix."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unskew
from unskew.estimation.risk import COLUMNS
from unskew.testing.worlds import graded

FAST = unskew.Training(progress=False, max_epochs=5)
OF_SEEN = {"estimators": ("naive", "ips", "snips"), "metrics": ("mse", "log_loss", "auc")}


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture(scope="module")
def listed(known):
    """The scores of all pairs, as a frame."""
    users, items = np.divmod(np.arange(known.world.n_pairs), known.world.n_items)
    return pd.DataFrame({"user_id": users, "item_id": items, "score": known.score(users, items)})


def test_a_frame_a_file_a_function_an_object_and_an_array_say_the_same(known, listed, tmp_path):
    log = known.world.log
    settings = {"propensity": known.propensity, "imputation": known.imputation, "estimators": ("snips", "dr")}
    expected = unskew.estimate_risk(known.score, log, **settings)
    listed.sample(frac=1, random_state=0).to_csv(tmp_path / "scores.csv", index=False)
    listed.to_parquet(tmp_path / "scores.parquet")
    asks = type("Model", (), {"predict": staticmethod(known.score)})()
    for source in (listed, pl.from_pandas(listed), tmp_path / "scores.csv", str(tmp_path / "scores.parquet"), asks):
        assert rows_of(unskew.estimate_risk(source, log, **settings)) == rows_of(expected)
    of_rows = unskew.estimate_risk(known.score(log.users, log.items), log, propensity=known.propensity, **OF_SEEN)
    seen_only = unskew.estimate_risk(known.score, log, propensity=known.propensity, **OF_SEEN)
    assert rows_of(of_rows) == rows_of(seen_only)


def test_the_table_has_the_columns_and_the_order_that_were_asked_for(known):
    table = unskew.estimate_risk(known.score, known.world.log, propensity=known.propensity, **OF_SEEN)
    assert tuple(table.column_names) == COLUMNS
    assert table["estimator"].to_pylist() == ["naive"] * 3 + ["ips"] * 3 + ["snips"] * 3
    assert table["metric"].to_pylist() == ["mse", "log_loss", "auc"] * 3
    assert float(table.schema.metadata[b"coverage"]) == pytest.approx(1, abs=0.2)


def test_a_known_column_a_fitted_propensity_a_recipe_and_a_frame_weigh_alike(known):
    log = known.world.log
    p = known.propensity(log.users, log.items)
    listed = pd.DataFrame({"user_id": log.users, "item_id": log.items, "propensity": p})
    fitted = unskew.Known(p).fit(log)
    tables = [
        rows_of(unskew.estimate_risk(known.score, log, propensity=source, **OF_SEEN))
        for source in (known.propensity, p, fitted, unskew.Known(p), listed)
    ]
    assert all(table == tables[0] for table in tables)


def test_a_share_of_the_log_with_propensities_of_the_whole_gives_the_same_answer_with_a_wider_interval(known):
    whole = known.world.log
    part = whole.take(np.random.default_rng(0).random(len(whole)) < 0.5)
    settings = {"propensity": known.propensity, "imputation": known.imputation, "estimators": "dr", "metrics": "mse"}
    (full,) = unskew.estimate_risk(known.score, whole, **settings).to_pylist()
    (half,) = unskew.estimate_risk(known.score, part, share=len(part) / len(whole), **settings).to_pylist()
    assert half["low"] < known.truth["mse"] < half["high"]
    assert half["standard_error"] > 1.2 * full["standard_error"]
    with pytest.raises(unskew.DataError, match=r"stand for \d+% of all pairs only"):
        unskew.estimate_risk(known.score, part, **settings)


def test_confidence_sets_the_width(known):
    settings = {"propensity": known.propensity, "estimators": "ips", "metrics": "mse"}
    (wide,), (narrow,) = (
        unskew.estimate_risk(known.score, known.world.log, confidence=level, **settings).to_pylist()
        for level in (0.99, 0.5)
    )
    assert (wide["high"] - wide["low"]) / (narrow["high"] - narrow["low"]) == pytest.approx(2.5758 / 0.6745, rel=1e-3)


def test_propensities_that_know_the_rating_weigh_by_it():
    world = unskew.simulate(120, 60, density=0.25, selection="rating", strength=1.5, seed=2)
    log = world.log
    settings = {"estimators": "snips", "metrics": "mse"}
    constant = lambda users, items: np.full(len(users), 0.2)  # noqa: E731
    of_pairs, of_ratings = (
        unskew.estimate_risk(constant, log, propensity=propensity, **settings).to_pylist()[0]
        for propensity in (unskew.Known(world.propensity), unskew.Known(world.propensity, world.propensity))
    )
    truth = world.risk(constant)
    assert of_ratings["low"] < truth < of_ratings["high"]
    assert not of_pairs["low"] < truth < of_pairs["high"]


def test_a_model_is_judged_by_what_it_held_out_and_never_by_what_it_was_trained_on():
    world = unskew.simulate(80, 50, density=0.3, seed=4)
    model = unskew.IPS(propensity=unskew.Popularity()).fit(world.log, training=FAST, seed=3)
    settings = {"propensity": model, "estimators": ("naive", "snips"), "metrics": ("mse", "auc")}
    table = unskew.estimate_risk(model, **settings)
    assert table.schema.metadata[b"ratings"].decode() == str(len(model.holdout)) == str(round(0.1 * len(world.log)))
    share = len(model.holdout) / len(world.log)
    assert rows_of(unskew.estimate_risk(model, model.holdout, share=share, **settings)) == rows_of(table)
    trained = len(world.log) - len(model.holdout)
    with pytest.raises(unskew.DataError, match=f"was trained on {trained:,} of these {len(world.log):,} ratings"):
        unskew.estimate_risk(model, world.log, **settings)
    with pytest.raises(unskew.ParameterError, match="log is missing; only unskew models know"):
        unskew.estimate_risk(model.predict, **settings)


def test_the_held_out_ratings_survive_saving(tmp_path):
    world = unskew.simulate(60, 40, density=0.3, seed=4)
    training = replace(FAST, holdout=0.25, holdout_by="user")
    model = unskew.Naive().fit(world.log, training=training, seed=3)
    model.save(tmp_path / "model")
    again = unskew.load(tmp_path / "model")
    np.testing.assert_array_equal(again.split.holdout_rows, model.split.holdout_rows)
    assert again.training == training.lasting


def test_a_recipe_is_fitted_and_calibrated_and_the_default_needs_nothing_but_the_log():
    world = unskew.simulate(70, 40, density=0.3, selection="popularity", seed=5)
    score = world.preference
    raw, calibrated = (
        unskew.estimate_risk(score, world.log, calibrate=flag, training=FAST, estimators="ips", metrics="mse")
        for flag in (False, True)
    )
    assert raw.schema.metadata[b"calibrated"] == b"slope 1.0000, intercept 0.0000"
    off = [abs(float(table.schema.metadata[b"coverage"]) - 1) for table in (raw, calibrated)]
    assert off[1] < max(off[0], 0.05)
    table = unskew.estimate_risk(score, world.log, training=FAST).to_pandas().set_index(["metric", "estimator"])
    truth = world.risk(score)
    for estimator in ("ips", "snips", "dr", "tdr"):
        assert table.loc["mse", estimator]["low"] - 0.02 < truth < table.loc["mse", estimator]["high"] + 0.02


def test_graded_ratings_are_judged_on_their_own_scale():
    log, _ = graded()
    score = lambda users, items: np.full(len(users), 3.0)  # noqa: E731
    (row,) = unskew.estimate_risk(
        score, log, propensity=np.full(len(log), len(log) / log.n_pairs), estimators="ips", metrics="mse"
    ).to_pylist()
    assert row["value"] == pytest.approx(np.mean((log.scale.from_unit(log.ratings) - 3) ** 2), rel=1e-5)
    with pytest.raises(unskew.DataError, match="log_loss needs a binary log"):
        unskew.estimate_risk(score, log, estimators="naive", metrics="log_loss")


def refused(sentence, known, *, scores=None, log=None, error=unskew.DataError, **settings):
    with pytest.raises(error, match=sentence):
        unskew.estimate_risk(
            known.score if scores is None else scores,
            known.world.log if log is None else log,
            **{"propensity": known.propensity, "imputation": 0.4, **settings},
        )


def test_what_cannot_be_estimated_is_refused_with_one_sentence(known, listed):
    log = known.world.log
    seen = listed.merge(pd.DataFrame({"user_id": log.users, "item_id": log.items}))
    refused("lists some pairs only, but dr imputes", known, scores=seen, estimators="dr", metrics="mse")
    refused("ndcg@5 is of lists from the whole catalogue", known, scores=seen, estimators="snips", metrics="ndcg@5")
    refused(r"has no value for user \d+ and item \d+ \(1 of", known, scores=seen[1:], estimators="ips", metrics="mse")
    refused("twice; keep one row", known, scores=pd.concat([seen, seen[:1]]), estimators="ips", metrics="mse")
    refused("no column 'score'", known, scores=seen.rename(columns={"score": "s"}), estimators="ips", metrics="mse")
    refused("there are 3 values", known, scores=[0.1, 0.2, 0.3], estimators="ips", metrics="mse")
    refused("mse compares probabilities", known, scores=lambda u, i: 9.0 + 0 * u, estimators="ips", metrics="mse")
    refused("gave 1 values for", known, scores=lambda u, i: [0.5], estimators="ips", metrics="mse")
    refused("not a finite number", known, scores=lambda u, i: np.nan * u, estimators="ips", metrics="mse")
    refused("The imputation runs from 7 to 7", known, imputation=7, estimators="dr", metrics="mse")
    parameter = {"error": unskew.ParameterError}
    refused("there is no estimator 'magic'", known, estimators="magic", **parameter)
    refused("there is no metric 'rmse'", known, metrics="rmse", **parameter)
    refused("asks for 61 items, but the catalogue has 60", known, metrics="ndcg@61", **parameter)
    refused("confidence must lie between", known, confidence=95, **parameter)
    refused("share must lie above 0", known, share=0, **parameter)
    refused("share is for propensities that are given", known, share=0.5, propensity=unskew.Additive(), **parameter)
    refused("max_pairs must be a whole number", known, max_pairs=0, **parameter)


def test_weights_that_cannot_speak_for_all_pairs_are_refused(known):
    log = known.world.log
    heavy = np.where(np.arange(len(log)) == 0, 1e-6, 0.9)
    refused("leave an effective sample of 1.0", known, propensity=heavy, estimators="ips", metrics="mse")
    refused(r"stand for \d+% of all pairs only", known, propensity=np.full(len(log), 0.9), estimators="ips")
    refused("times the number of pairs", known, propensity=np.full(len(log), 0.02), estimators="ips")
    refused("propensity of rating 1 is 0", known, propensity=np.zeros(len(log)), estimators="ips")
    refused("known of seen pairs only", known, propensity=known.propensity(log.users, log.items), estimators="tdr")
    table = unskew.estimate_risk(known.score, log, propensity=np.full(len(log), 0.9), estimators="naive", metrics="mse")
    assert len(table) == 1  # the naive estimate asks for no weights


def test_no_weight_speaks_for_pairs_that_nobody_could_see():
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.arange(110 * 60), 60)
    seen = (rng.random(len(users)) < 0.5) & (users % 2 == items % 2)  # everybody sees half of the items only
    ratings = (rng.random(len(users)) < 0.4).astype(float)
    log = unskew.RatingLog.from_arrays(
        users[seen], items[seen], ratings[seen], positive=1, user_ids=range(110), item_ids=range(60)
    )
    training, two = unskew.Training(progress=False, max_epochs=25), unskew.Factors(n_folds=2)
    with pytest.raises(unskew.DataError, match=r"Overlap fails: .* stand for \d+% of all pairs only"):
        unskew.estimate_risk(lambda u, i: 0.4 + 0 * u, log, propensity=two, estimators="snips", training=training)


def test_what_was_clipped_is_counted(known):
    table = unskew.estimate_risk(
        known.score, known.world.log, propensity=known.propensity, estimators="ips", metrics="mse", clip=0.1
    )
    log = known.world.log
    count = int((known.propensity(log.users, log.items) < 0.1).sum())
    assert count > 0
    assert (
        f"{count:,} of {len(log):,} propensities were raised to the clip 0.1."
        in table.schema.metadata[b"notes"].decode()
    )


def test_a_sampled_catalogue_agrees_with_the_whole_within_the_error_it_reports(known):
    settings = {
        "propensity": known.propensity,
        "imputation": known.imputation,
        "estimators": ("dr", "tdr"),
        "metrics": ("mse", "auc", "recall@5"),
    }
    whole = unskew.estimate_risk(known.score, known.world.log, **settings).to_pylist()
    sampled = unskew.estimate_risk(known.score, known.world.log, max_pairs=1500, **settings)
    assert "1,500 random pairs stand for the catalogue's 7,200." in sampled.schema.metadata[b"notes"].decode()
    for one, other in zip(whole, sampled.to_pylist(), strict=True):
        assert abs(one["value"] - other["value"]) < 4 * other["standard_error"]


def test_a_hundred_thousand_items_need_no_matrix():
    """4,000 users x 100,000 items would be 3.2 GB; the peak stays below 300 MB."""
    rng = np.random.default_rng(0)
    n_users, n_items, n = 4000, 100_000, 40_000
    users, items = np.divmod(np.unique(rng.integers(n_users * n_items, size=n)), n_items)
    pairs = {(u, i) for u, i in zip(users.tolist(), items.tolist(), strict=True) if i >= 5}
    pairs |= {(u, u % 5) for u in range(n_users)}  # everybody is shown one of the best five as well
    users, items = np.array(sorted(pairs)).T
    log = unskew.RatingLog.from_arrays(
        users, items, rng.integers(0, 2, len(users)), positive=1, user_ids=range(n_users), item_ids=range(n_items)
    )
    quality = np.concatenate([np.full(5, 0.99), 0.98 * rng.random(n_items - 5)])
    rate = np.where(np.arange(n_items) < 5, 0.2, n / (n_users * n_items))
    tracemalloc.start()
    table = unskew.estimate_risk(
        lambda u, i: quality[i],
        log,
        propensity=lambda u, i: rate[i],
        imputation=0.5,
        max_pairs=100_000,
        metrics=("mse", "auc", "ndcg@5"),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6
    found = {(row["estimator"], row["metric"]): row for row in table.to_pylist()}
    assert found["dr", "mse"]["value"] == pytest.approx(1 / 3, abs=0.02)
    assert found["dr", "auc"]["value"] == pytest.approx(0.5, abs=0.02)
    assert "of 4,000 users, drawn at random" in table.schema.metadata[b"notes"].decode()
