"""Conversions over everything shown, learned from what was clicked: every claim against a funnel that is known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import logit
from scipy.stats import ttest_rel

import unskew
from unskew import DataError, Known
from unskew.data.impressions import contexts
from unskew.data.population import ListedRows
from unskew.datasets import simulate_funnel
from unskew.metrics import calibration_error
from unskew.posterior.factors import Problem, sample
from unskew.propensity.clicks import Clicks, examined, in_context
from unskew.special import expit

QUICK = unskew.BayesianFactors(sweeps=25)


@pytest.fixture(scope="module")
def funnel():
    return simulate_funnel(250, 60, 3500, click_rate=0.2, conversion_rate=0.25, random_share=0.0, seed=5)


@pytest.fixture(scope="module")
def log(funnel):
    return unskew.read_log(funnel.rows)


@pytest.fixture(scope="module")
def shown(funnel):
    return funnel.rows["user_id"].to_numpy(), funnel.rows["item_id"].to_numpy()


@pytest.fixture(scope="module")
def model(log):
    return unskew.make("dce-bayes", factors=QUICK).fit(log)


def bias(model, funnel, shown):
    return model.predict(*shown).mean() - funnel.chance_converted(*shown).mean()


def test_the_default_has_less_than_half_the_bias_of_clicks_and_orders_better(model, log, funnel, shown):
    truth, plain = funnel.chance_converted(*shown), unskew.fit(log, "naive")
    of_clicks = log.positive_rate - truth.mean()
    assert of_clicks > 0.05
    assert abs(bias(model, funnel, shown)) < 0.5 * of_clicks
    assert bias(model, funnel, shown) < bias(plain, funnel, shown)
    order = [np.corrcoef(each.predict(*shown), truth)[0, 1] for each in (plain, model)]
    assert order[1] > order[0]


def test_the_chance_of_a_click_is_calibrated_and_its_positions_found(model, log, funnel, shown):
    p, found = model.scores("propensity", log.listed.users, log.listed.items), model.part("propensity")
    truth = funnel.chance_clicked(*shown, funnel.rows["position"].to_numpy())
    assert p.mean() == pytest.approx(log.density, abs=0.01)
    assert calibration_error(truth, p, bins="mass", n_bins=10) < 0.02
    assert found.positions.tolist() == [0, 1, 2, 3, 4]
    assert found.examination / found.examination[0] == pytest.approx(funnel.examination, rel=0.2)


def test_random_rows_tell_of_positions_where_a_policy_orders():
    """Good rows stand first: over all rows position 0 looks better than it is, over random ones it does not."""
    rng = np.random.default_rng(1)
    good, random = rng.random(40_000) < 0.5, rng.random(40_000) < 0.4
    position = np.where(random, rng.random(40_000) < 0.5, ~good).astype(int)
    p = np.where(good, 0.4, 0.1)
    seen = rng.random(40_000) < p * np.where(position == 0, 1.0, 0.5)
    rows = ListedRows(*np.zeros((2, 40_000), np.int32), seen, None, {"position": position, "is_random": random})
    _, _, found = examined(rows, np.full(40_000, 0.2), np.ones(40_000))
    assert found[1] / found[0] == pytest.approx(0.5, rel=0.06)
    del rows.columns["is_random"]
    assert examined(rows, np.full(40_000, 0.2), np.ones(40_000))[2][1] / found[0] < 0.4


@pytest.fixture(scope="module")
def by_device():
    """A funnel whose clicks depend on the device too, by known effects on the log-odds, and its chances of clicks."""
    found, rng = simulate_funnel(60, 20, 3000, click_rate=0.1, conversion_rate=0.3, random_share=0.0, seed=7), RNG(1)
    users, items, position = (found.rows[name].to_numpy() for name in ("user_id", "item_id", "position"))
    device = rng.integers(3, size=len(items))
    p = expit(logit(found.chance_clicked(users, items)) + EFFECTS[device]) * found.examination[position]
    clicked = rng.random(len(p)) < p
    bought = clicked & (rng.random(len(p)) < found.chance_converted(users, items))
    columns = {"clicked": clicked.astype(int), "converted": bought.astype(int)}
    rows = found.rows.drop_columns([*columns, "pscore"])
    for name, values in {**columns, "device": np.array(["phone", "tablet", "desk"])[device]}.items():
        rows = rows.append_column(name, pa.array(values))
    return found, rows, device, p


RNG, EFFECTS = np.random.default_rng, np.array([1.0, 0.0, -1.0])


def test_a_context_adds_to_the_odds_of_a_click(by_device):
    _, rows, device, p = by_device
    log = unskew.read_log(rows, context=["device"])
    clicks = Clicks().fit(log)
    assert clicks.examination / clicks.examination[0] == pytest.approx(by_device[0].examination, rel=0.2)
    level = log.listed.columns["context.device"]
    names = [level[device == k][0] for k in range(3)]
    found = clicks.terms["device"][names]
    assert found[:2] - found[1:] == pytest.approx(EFFECTS[:2] - EFFECTS[1:], abs=0.3)
    assert np.average(clicks.terms["device"][level]) == pytest.approx(0, abs=1e-9)
    plain = Clicks().fit(unskew.read_log(rows))
    for k in range(3):
        own = device == k
        assert clicks.at(log.listed)[own].mean() == pytest.approx(p[own].mean(), abs=0.015)
    errors = [np.square(each.at(log.listed) - p).mean() for each in (clicks, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_what_rows_left_out_contradict_is_flat_and_never_reversed():
    rng, codes = RNG(0), np.zeros(4000, np.int32)
    logits = rng.normal(size=4000)
    rows = ListedRows(codes, codes, rng.random(4000) < expit(-1 - logits), None, {})
    a, b, _, added = in_context(rows, logits, np.ones(4000))
    assert b == pytest.approx(1e-3)
    assert expit(a + b * logits + added).mean() == pytest.approx(rows.seen.mean(), rel=1e-3)


def test_examination_may_be_given(by_device):
    found, rows, _, _ = by_device
    given = pa.array(found.examination[rows["position"].to_numpy()])
    rows = rows.append_column("examination", given)
    log = unskew.read_log(rows)
    _, place, ratio = examined(log.listed, np.full(len(rows), 0.2), np.ones(len(rows)))
    assert ratio[place] / ratio[place][0] == pytest.approx(given.to_numpy() / given[0].as_py(), rel=1e-5)
    assert (ratio[place] * 0.2).mean() == pytest.approx(0.2)


def test_down_sampled_rows_leave_the_level_of_clicks(log, funnel):
    clicked = funnel.rows["clicked"].to_numpy() == 1
    rates = pa.array(np.where(clicked, 1.0, 0.2))
    kept = pa.array(clicked | (np.random.default_rng(0).random(len(clicked)) < 0.2))
    few = unskew.read_log(funnel.rows.append_column("sample_rate", rates).filter(kept))
    p = Clicks().fit(few).pair(few.listed.users, few.listed.items)
    assert p[~few.listed.seen].mean() == pytest.approx(log.density, abs=0.04)
    assert few.density == pytest.approx(log.density, rel=0.03)


def test_a_model_of_impressions_is_saved_with_what_was_shown(model, log, shown, tmp_path):
    model.save(tmp_path / "model")
    again = unskew.load(tmp_path / "model")
    assert (again.predict(*shown) == model.predict(*shown)).all()
    assert again.log.n_pairs == log.n_pairs
    assert again.log.target == "conversion"
    assert (again.log.listed.columns["pscore"] == log.listed.columns["pscore"]).all()
    assert (again.scores("propensity", *shown) == model.scores("propensity", *shown)).all()


@pytest.mark.parametrize("name", ["naive", "ips", "dr-jl", "dce-dr", "dce-tdr", "multi-dr", "escm2-dr", "esmm", "dcmt"])
def test_methods_of_gradients_learn_from_listed_rows(log, shown, name):
    found = unskew.make(name).fit(log, training=unskew.Training(max_epochs=3)).predict(*shown)
    assert np.isfinite(found).all()
    assert found.std() > 0


def test_a_learned_chance_of_clicks_serves_any_method(log, funnel, shown):
    found = unskew.make("ips", propensity=Clicks(), clip=0.02).fit(log)
    assert abs(bias(found, funnel, shown)) < log.positive_rate - funnel.chance_converted(*shown).mean()


def test_what_a_log_does_not_hold_is_asked_for(log, funnel):
    world = unskew.simulate(n_users=40, n_items=30, density=0.3, seed=0)
    with pytest.raises(DataError, match=r"Clicks\(\) learns from rows that were listed and not seen"):
        Clicks().fit(world.log)
    positives = unskew.read_log(funnel.rows, target="implicit")
    with pytest.raises(DataError, match="Naive learns from what differs, and all rows are positive: take 'dce-bayes'"):
        unskew.fit(positives, "naive")


@pytest.fixture(scope="module")
def clicks():
    """A funnel whose policy shows what is wanted, with random traffic, and its log of clicks."""
    found = simulate_funnel(
        300, 60, 5000, click_rate=0.3, policy_strength=2.0, random_share=0.2, decay=0.0, n_positions=3, seed=2
    )
    return found, unskew.read_log(found.rows, target="click")


@pytest.fixture(scope="module")
def without_random(clicks):
    """The default fitted to clicks without what random traffic tells."""
    return unskew.fit(replace(clicks[1], random=None), sweeps=25)


def everything(funnel):
    users, items = (np.asarray(codes).ravel() for codes in np.indices((funnel.n_users, funnel.n_items)))
    return users, items


@pytest.mark.parametrize("name", ["dce-bayes", "naive"])
def test_random_traffic_corrects_what_is_learned_of_all_pairs(clicks, without_random, name, tmp_path):
    funnel, log = clicks
    truth, settings = funnel.chance_clicked(*everything(funnel)).mean(), {"sweeps": 25} if name == "dce-bayes" else {}
    plain = without_random if name == "dce-bayes" else unskew.fit(replace(log, random=None), name)
    model = unskew.fit(log, name, **settings)
    assert model.random_ratings.n_ratings == len(log.random_ratings)
    assert plain.random_ratings is None
    of_model, of_plain = (abs(each.predict(*everything(funnel)).mean() - truth) for each in (model, plain))
    assert of_plain > 0.03
    assert of_model < 0.5 * of_plain
    model.save(tmp_path / "model")
    again = unskew.load(tmp_path / "model")
    assert (again.log.random.ratings == log.random.ratings).all()
    assert (again.log.random_test.users == log.random_test.users).all()
    assert (again.log.chances == log.chances).all()


def test_logged_propensities_weigh_what_was_shown(clicks, tmp_path):
    funnel, log = clicks
    alone = replace(log, random=None)
    truth = funnel.chance_clicked(*everything(funnel)).mean()
    p = log.chances
    weighted = (log.ratings * log.cells / p).sum() / log.n_pairs
    assert abs(weighted - truth) < 0.25 * (log.positive_rate - truth)
    model = unskew.make("snips", propensity=Known(), clip=0.02).fit(alone)
    assert model.weights.mean_over_pairs is None
    assert abs(model.predict(*everything(funnel)).mean() - truth) < 0.5 * abs(
        unskew.fit(alone, "naive").predict(*everything(funnel)).mean() - truth
    )
    model.save(tmp_path / "model")
    users, items = log.users[:9], log.items[:9]
    assert unskew.load(tmp_path / "model").scores("propensity", users, items) == pytest.approx(p[:9], rel=1e-5)
    with pytest.raises(DataError, match=r"Known\(\) reads the propensities of impressions by one policy"):
        unskew.make("ips", propensity=Known()).fit(unskew.simulate(n_users=40, n_items=30, density=0.3, seed=0).log)


def test_models_of_clicks_take_in_new_users(clicks, without_random):
    log, new = clicks[1], pa.table({"user_id": [9999, 9999], "item_id": [0, 1], "clicked": [1, 0]})
    more = without_random.fold_in(new).log
    assert len(more) == len(more.cells) == len(log) + 2
    assert more.chances is None
    assert more.take(np.arange(3)).cells.tolist() == log.cells[:3].tolist()


def test_where_a_click_was_shown_is_one_additive_term_of_its_score():
    """A policy puts some items first whatever is liked: what these win by their place is not taken for liking."""
    found, rng = simulate_funnel(300, 60, 6000, click_rate=0.15, decay=1.0, random_share=0.0, seed=3), RNG(0)
    users, items, request, position = (
        found.rows[name].to_numpy() for name in ("user_id", "item_id", "request", "position")
    )
    items = items[np.lexsort((rng.normal(size=60)[items], request))]
    clicked = rng.random(len(items)) < found.chance_clicked(users, items, position)
    rows = pa.table({"user_id": users, "item_id": items, "clicked": clicked.astype(int), "position": position})
    truth, order = found.chance_clicked(*everything(found)), []
    for table in (rows, rows.drop_columns("position")):
        log = unskew.read_log(table, target="click")
        model = sample(Problem.of(log, replace(QUICK, exposure=False, history=False), 0)).posterior
        codes = log.user_ids.codes(everything(found)[0]), log.item_ids.codes(everything(found)[1])
        p = zip(model.probability(*codes).reshape(300, 60), truth.reshape(300, 60), strict=True)
        order.append(np.mean([np.corrcoef(*each)[0, 1] for each in p]))
        moved = "5 contexts of rows move their score by -" in " ".join(model.notes)
        assert moved == ("position" in table.column_names)
    assert order[0] > order[1] + 0.03
    spread = {"position": rng.integers(1500, size=3000)}
    with pytest.raises(DataError, match=r"shown in 1,\d+ contexts by position: leave some of these out"):
        contexts(spread)


def test_rare_conversions_are_answered_at_their_level():
    """A handful of conversions cannot tell what was not clicked: answers keep to the level of clicks."""
    found = simulate_funnel(150, 30, 2500, click_rate=0.3, conversion_rate=0.005, random_share=0.0, seed=1)
    log, shown = unskew.read_log(found.rows), [found.rows[name].to_numpy() for name in ("user_id", "item_id")]
    n, truth = float(log.ratings.sum()), found.chance_converted(*shown).mean()
    assert n < 0.01 * len(log)
    p = unskew.make("dce-bayes", factors=QUICK).fit(log).predict(*shown)
    clicked = found.rows["clicked"].to_numpy() == 1
    assert p[clicked].sum() == pytest.approx(n, abs=2 * np.sqrt(n))
    assert p.max() < 0.1
    assert abs(p.mean() - truth) < abs(log.positive_rate - truth) + np.sqrt(n) / len(log)


def test_the_records_of_twenty_shops_bear_out_what_the_guide_says():
    """Where clicks tell: at most half of their bias, the best AUC, two thirds of naive's calibration error."""
    records = [json.loads(line) for line in Path("benchmarks/records/funnel.jsonl").read_text().splitlines()]

    def by_seed(case, method, metric):
        own = {r["seed"]: r["metrics"][metric] for r in records if (r["case"], r["method"]) == (case, method)}
        return np.array([own[seed] for seed in range(20)])

    ours, others = "dce-bayes", ("naive", "dr-jl", "dce-dr", "esmm", "escm2-ips", "escm2-dr")
    assert by_seed("clicks tell", ours, "bias").mean() < 0.3 * by_seed("clicks tell", ours, "clicks").mean()
    calibration = [by_seed("clicks tell", method, "calibration").mean() for method in (ours, "naive")]
    assert calibration[0] < 2 / 3 * calibration[1]
    for method in others:
        assert ttest_rel(by_seed("clicks tell", ours, "auc"), by_seed("clicks tell", method, "auc")).pvalue < 1e-12
        own, other = (by_seed("clicks do not tell", each, "calibration").mean() for each in (ours, method))
        assert own < other


def test_positives_alone_give_an_order_that_exposure_does_not_bend():
    """Items are exposed by chances from .1 to 1, whatever is liked: odds divided by exposure order better."""
    rng, shape = np.random.default_rng(3), (400, 50)
    v, w = rng.normal(size=(400, 2)), rng.normal(size=(50, 2))
    truth = expit(1.5 * v @ w.T - 0.5)
    positive = rng.random(shape) < truth * rng.permutation(np.geomspace(0.1, 1, 50))
    users, items = np.nonzero(positive)
    log = unskew.read_log(pa.table({"user_id": users, "item_id": items}), target="implicit")
    everybody = np.indices(shape).reshape(2, -1)
    codes = log.user_ids.codes(everybody[0]), log.item_ids.codes(everybody[1])

    def order(scores):
        return np.mean([np.corrcoef(*rows)[0, 1] for rows in zip(scores.reshape(shape), truth, strict=True)])

    model = unskew.fit(log, sweeps=60)
    own = order(model.predict(*everybody, on_unknown="fallback"))
    assert own > order(model.part("prediction").probability(*codes)) + 0.03
    assert own > order(unskew.fit(log, "rel-mf").predict(*everybody, on_unknown="fallback")) + 0.05
    assert any("answers tell an order and no level" in note for note in model.part("prediction").notes)
    with pytest.raises(unskew.UnskewError, match="fit it again"):
        model.part("prediction").continued(log, 5)
