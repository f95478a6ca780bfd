"""What the page says is what the model, the log and the estimators say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.diagnosis.rival import naive_like
from unskew.diagnosis.verdicts import Verdict
from unskew.recipe import read_recipe
from unskew.report import changes, plain, remedy, summary, versus
from unskew.report import material as making
from unskew.report.comparison import comparison_of
from unskew.report.data import Spread, data_of
from unskew.report.limits import limits_of
from unskew.report.material import Material
from unskew.report.names import Level
from unskew.report.plain import plainly
from unskew.report.reproduce import reproduce_of

SHORT = unskew.Training(max_epochs=1, holdout=0.2, progress=False)


def everywhere(log: unskew.RatingLog) -> tuple[np.ndarray, np.ndarray]:
    return np.divmod(np.arange(log.n_pairs), log.n_items)


def test_the_naive_model_shares_settings_seed_and_split(material: Material) -> None:
    own, naive = material.model, material.naive
    assert naive.method == unskew.Naive(net=own.method.base.net, l2=own.method.base.l2)
    assert np.array_equal(naive.split.holdout_rows, own.split.holdout_rows)
    assert naive.training.max_epochs == own.training.max_epochs == 3
    assert material.debiased is own
    assert not material.is_naive


def test_a_naive_model_gets_a_debiased_counterpart(log: unskew.RatingLog) -> None:
    method = unskew.Naive(net=unskew.MF(n_factors=3), l2=0.3)
    counterpart = making._debiased_like(method)
    assert isinstance(counterpart, unskew.DoublyCalibrated)
    assert (counterpart.base.net, counterpart.base.l2) == (method.net, method.l2)
    assert naive_like(counterpart) == method


def test_the_table_is_what_compare_says(material: Material) -> None:
    found = unskew.compare(
        material.debiased, material.naive, metric="mse", estimator="snips", propensity=unskew.Additive()
    )
    line = versus.weighted(material)["mse"]
    assert line.found.difference == pytest.approx(found.difference)
    assert line.found.first == pytest.approx(found.first)
    naive = unskew.estimate_risk(material.naive, estimators="naive", metrics="auc").to_pylist()[0]
    assert versus._versus(material, material.evidence, "naive")["auc"].found.second.value == naive["value"]


def test_words_of_the_table_follow_the_interval(material: Material) -> None:
    line = versus.versus(material)["mse"]
    found = line.found
    for low, high, word in ((-0.2, -0.1, "better"), (0.1, 0.2, "worse"), (-0.1, 0.1, "cannot tell")):
        moved = replace(found, difference=found.difference._replace(value=(low + high) / 2, low=low, high=high))
        assert replace(line, found=moved).verdict == word


def test_where_weights_cannot_be_trusted_the_table_is_of_ratings_as_they_are_and_says_why(material: Material) -> None:
    bare = replace(material, evidence=replace(material.evidence, weighing=None), refusal="Overlap fails: so it is.")
    found = comparison_of(bare)
    assert found.main.unweighted
    assert found.second is found.hidden is found.verdict is None
    told = summary.summary_of(bare, found, data_of(bare.model))
    assert "on what people chose to rate" in told.lede


def test_a_model_with_users_folded_in_is_refused(model: unskew.Recommender) -> None:
    with pytest.raises(unskew.ParameterError, match="report on the model as it was fitted"):
        making.material_of(replace(model, n_fitted_users=3), random_ratings=None, propensity=None, announce=print)


def test_random_ratings_are_believed_before_the_log(material: Material, log: unskew.RatingLog) -> None:
    users, items = (codes[::7] for codes in everywhere(log))
    ratings = (material.naive.predict_codes(users, items) > 0.5).astype(np.float32)
    columns = {"users": users.astype(np.int32), "items": items.astype(np.int32), "ratings": ratings}
    random = unskew.RatingLog.proved(**log.__dict__ | columns)
    kept, left_out = making._unseen_ratings(random, log)
    assert len(kept) + left_out == len(random)
    seen = set(zip(log.users.tolist(), log.items.tolist(), strict=True))
    assert not seen & set(zip(kept.users.tolist(), kept.items.tolist(), strict=True))
    found = comparison_of(replace(material, random=kept, n_random_left_out=left_out))
    assert found.believed is found.random
    error = (material.naive.predict_codes(kept.users, kept.items) - kept.ratings) ** 2
    assert found.random["mse"].found.second.value == pytest.approx(error.mean())
    assert "on random ratings" in summary.summary_of(material, found, data_of(material.model)).lede


def test_items_and_users_that_change_most_are_those_of_a_full_search(material: Material) -> None:
    log = material.log
    users, items = everywhere(log)
    naive, debiased = (
        model.predict_codes(users, items).reshape(log.n_users, log.n_items)
        for model in (material.naive, material.debiased)
    )
    found = changes.changes_of(material)
    change = (debiased - naive).mean(0)
    assert found.items.mean_change == pytest.approx(change.mean())
    assert [entry.change for entry in found.items.up] == pytest.approx(np.sort(change)[::-1][:5])
    assert [entry.change for entry in found.items.down] == pytest.approx(np.sort(change)[:5])
    worst = int(np.argmin(change))
    rated = log.ratings[log.items == worst]
    assert (found.items.down[0].n_ratings, found.items.down[0].rated) == (len(rated), pytest.approx(rated.mean()))
    assert found.users.up[0].change == pytest.approx((debiased - naive).mean(1).max())
    assert found.items.n_looked_at == found.items.n_all == log.n_items


def test_replaced_places_are_those_that_the_other_list_lacks(material: Material) -> None:
    log, k = material.log, 10
    tables = [model.recommend(k=k).to_pylist() for model in (material.naive, material.debiased)]
    before, after = (
        {user: {row["item_id"] for row in table if row["user_id"] == user} for user in {r["user_id"] for r in table}}
        for table in tables
    )
    shares = [len(before[user] - after[user]) / len(before[user]) for user in before]
    found = changes.changes_of(material).lists
    assert found.replaced == pytest.approx(np.mean(shares))
    assert found.n_users == log.n_users
    assert found.examples[0].replaced == max(len(before[user] - after[user]) for user in before)
    marked = sum(alone for _, alone in found.examples[0].naive)
    assert marked == found.examples[0].replaced


def test_large_catalogues_are_sampled_and_the_page_says_so(material: Material, monkeypatch) -> None:
    monkeypatch.setattr(changes, "MOST", 12)
    monkeypatch.setattr(changes, "LIST_CELLS", 20 * material.log.n_items)
    found = changes.changes_of(material)
    assert (found.items.n_looked_at, found.users.n_looked_at) == (12, 12)
    assert found.lists.n_users == 20
    said = " ".join(limits_of(material, data_of(material.model), versus.versus(material), found))
    assert f"12 random ones of {material.log.n_items:,}" in said
    assert f"20 random users of {material.log.n_users:,}" in said


def test_the_spread_of_ratings_is_counted() -> None:
    codes = np.repeat([0, 1, 2], [1, 4, 15]).astype(np.int32)
    found = Spread.of("items", codes, 10)
    assert (found.n_without, found.n_few, found.largest) == (7, 2, 15)
    assert found.share_of_top_tenth == pytest.approx(15 / 20)
    assert Spread.of("users", np.repeat(np.arange(4), 3).astype(np.int32), 4).even
    assert sum(float(row[1].rstrip("%")) for row in found.figure.data.rows) == pytest.approx(30, abs=0.1)


def test_levels_are_told_on_the_scale_of_the_log(log: unskew.RatingLog) -> None:
    binary, graded = Level(log), Level(replace_scale(log))
    assert (binary(0.5), binary.change(-0.031), binary.size(-0.031)) == ("50.0%", "−3.1 points", "3.1 points")
    assert (graded(0.5), graded.change(-0.5), graded.size(-0.5)) == ("3.00", "−2.00", "2.00")


def replace_scale(log: unskew.RatingLog) -> unskew.RatingLog:
    scale = replace(log.scale, low=1.0, high=5.0, positive=None)
    return unskew.RatingLog.proved(**{**log.__dict__, "scale": scale})


def test_every_kind_of_verdict_has_plain_words() -> None:
    kinds = {
        "needed": ("none", "popularity", "liking", "taste", "rating"),
        "works": ("good", "thin", "no overlap", "overconfident", "collapsed", "constant"),
        "believed": ("calibrated", "miscalibrated", "miscalibrated by group"),
        "overturned": ("prediction", "rival", "undecided"),
    }
    for question, names in kinds.items():
        assert set(plain._OF[question]) == set(names)
        for kind in names:
            told = plainly(question, Verdict("Q?", kind, "caution", "words"))
            assert told.headline.endswith(".")
            assert told.words == "words"


@pytest.mark.parametrize(
    ("replaced", "words"), [(0.3, "no more than"), (0.4, "not much more than"), (0.6, "well beyond")]
)
def test_a_change_of_lists_is_told_beside_what_chance_does(material: Material, replaced: float, words: str) -> None:
    found = changes.changes_of(material)
    told = replace(found, lists=replace(found.lists, replaced=replaced, by_chance=0.35))
    assert f"{replaced:.0%} of the places in people's top 10 go to other items, {words} what chance does." in (
        told.headline(Level(material.model.log))
    )


def test_the_name_of_a_method_is_the_registered_one() -> None:
    def name(method: unskew.Method) -> str:
        return remedy.name_of(type("Model", (), {"method": method})())

    assert name(unskew.make("dce-tdr")) == "dce-tdr"
    assert name(unskew.IPS(clip=0.5)) == "ips, with settings of its own"


def test_how_to_reproduce_is_a_recipe_that_gives_the_method_back(model: unskew.Recommender, tmp_path) -> None:
    how = reproduce_of(model)
    (tmp_path / "recipe.toml").write_text(how.recipe)
    method, training = read_recipe(tmp_path / "recipe.toml")
    assert method == model.method
    assert training.max_epochs == 3
    assert "--positive 3 --seed 0" in how.commands
