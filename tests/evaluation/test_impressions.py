"""Impressions judge models and policies: by logged, given and learned chances, in funnels whose truth is known."""

from types import SimpleNamespace

import numpy as np
import pytest

import unskew
from unskew.datasets import simulate_funnel
from unskew.errors import DataError, ParameterError
from unskew.evaluation import compare, fits, gain, impressions, judge, policy
from unskew.evaluation.evaluate import LIKE_THE_LOG
from unskew.evaluation.policy import estimate_value
from unskew.metrics import find

N_USERS, N_ITEMS = 150, 30


@pytest.fixture(scope="module")
def funnel():
    return simulate_funnel(
        N_USERS, N_ITEMS, 8000, click_rate=0.3, conversion_rate=0.4, random_share=0, decay=0, n_positions=3, seed=2
    )


@pytest.fixture(scope="module")
def pairs():
    return tuple(np.asarray(codes).ravel() for codes in np.indices((N_USERS, N_ITEMS)))


@pytest.fixture(scope="module")
def log(funnel):
    return unskew.read_log(funnel.rows, target="click")


def uniform(users, items):
    return np.full(len(users), 1 / N_ITEMS)


def off(interval, truth):
    """Return standard errors from the truth."""
    return 1.96 * abs(interval.value - truth) / (interval.high - interval.value)


def test_the_value_of_another_policy_is_found_whatever_the_log_showed(funnel, pairs, log):
    truth = funnel.chance_clicked(*pairs).mean()
    logged = unskew.estimate_risk(uniform, log, metrics=["value"])
    naive = logged["value", "naive"]
    assert off(naive, truth) > 4
    bare = unskew.read_log(funnel.rows.drop_columns("pscore"), target="click")
    learned = unskew.estimate_risk(uniform, bare, metrics=["value"])
    for estimator in ("ips", "snips", "dr"):
        assert off(logged["value", estimator], truth) < 3
        assert abs(learned["value", estimator].value - truth) < 0.33 * (naive.value - truth)


def test_a_column_of_chances_is_that_policy_and_all_rows_judge_where_nothing_is_learned(funnel, log):
    by = ["naive", "ips", "snips"]
    found = unskew.estimate_risk(np.full(len(log), 1 / N_ITEMS), log, metrics=["value"], estimators=by)
    users, p, clicked = (funnel.rows[name].to_numpy() for name in ("user_id", "pscore", "clicked"))
    plain = estimate_value(clicked, p.astype(np.float32), np.full(len(p), 1 / N_ITEMS), groups=users)
    assert found.n_ratings == len(log)
    for estimator in by:
        assert found["value", estimator][:3] == pytest.approx(plain[estimator][:3], rel=1e-6)


def test_answers_and_best_items_of_a_model_are_judged_over_all_pairs(funnel, pairs, log):
    def scores(users, items):  # not trained on the log
        return np.clip(funnel.chance_clicked(users, items) + np.where(items % 2, 0.1, -0.05), 0.01, 0.99)

    found, p, q = unskew.estimate_risk(scores, log), scores(*pairs), funnel.chance_clicked(*pairs)
    best = np.argsort(-p.reshape(N_USERS, -1), axis=1)[:, :10]
    truth = {
        "mse": (q * (1 - p) ** 2 + (1 - q) * p**2).mean(),
        "log_loss": -(q * np.log(p) + (1 - q) * np.log(1 - p)).mean(),
        "precision@10": np.take_along_axis(q.reshape(N_USERS, -1), best, axis=1).mean(),
    }
    for metric, value in truth.items():
        assert off(found[metric, "dr"], value) < 3
        assert off(found[metric, "snips"], value) < 3
    assert off(found["mse", "naive"], truth["mse"]) > 4
    assert "Over all pairs" in repr(found)


def test_conversions_are_judged_over_everything_shown(funnel):
    log = unskew.read_log(funnel.rows)
    users, items = (funnel.rows[name].to_numpy() for name in ("user_id", "item_id"))
    late = np.arange(len(users)) >= round(0.7 * len(users))
    p, q = np.full(late.sum(), 0.4), funnel.chance_converted(users, items)[late]
    truth = (q * (1 - p) ** 2 + (1 - q) * p**2).mean()
    given = {"metrics": ["mse"], "propensity": lambda u, i: funnel.chance_clicked(u, i)}
    learned = unskew.estimate_risk(lambda u, i: np.full(len(u), 0.4), log, metrics=["mse"])
    known = unskew.estimate_risk(lambda u, i: np.full(len(u), 0.4), log, **given)
    assert off(learned["mse", "naive"], truth) > 2.5
    for found in (learned, known):
        assert off(found["mse", "dr"], truth) < 3
        assert off(found["mse", "ips"], truth) < 3
    widths = [known["mse", estimator].high - known["mse", estimator].low for estimator in ("dr", "snips", "ips")]
    assert widths == sorted(widths)  # imputed outcomes take the noise away


def test_two_models_of_impressions_are_compared_on_the_rows_that_neither_saw(log, monkeypatch):
    flat, own = (unskew.make("naive", l2=l2).fit(log) for l2 in (100.0, 0.1))
    found = unskew.compare(flat, own, names=("flat", "own"))
    assert (found.decision, found.better) == ("use", "own")
    assert found.gains["mse"].low > 0
    assert "by 7,200 rows that were shown" in str(found)
    for name, one in (("mse", found.by_log.squared[0]), ("precision@10", found.by_log.order)):
        assert one.interval()[:3] == pytest.approx(found.gains[name][:3], rel=1e-3)
    back = unskew.compare(own, flat, names=("own", "flat"))
    assert back.better == "own"
    assert back.gains["precision@10"].value == pytest.approx(-found.gains["precision@10"].value)
    alone = repr(unskew.estimate_risk(own, metrics=["mse"], estimators=["ips"]))
    assert "The model was trained on these rows, so its method is fitted again without those that judge" in alone
    monkeypatch.setattr(compare, "FEW", 1e9)  # equal rows: weights that leave fewer decide nothing
    assert unskew.compare(own, flat).decision == "test"
    same = unskew.compare(own, own)
    assert same.decision == "test"
    assert same.to_dict()["better"] is None


def test_random_rows_of_the_log_overrule_its_impressions_if_they_can_tell():
    rows = simulate_funnel(N_USERS, N_ITEMS, 4000, click_rate=0.3, random_share=0.5, n_positions=3, seed=2).rows
    log = unskew.read_log(rows, target="click")
    flat, own = (unskew.make("naive", l2=l2).fit(log) for l2 in (100.0, 0.1))
    found = unskew.compare(flat, own, log, names=("flat", "own"))
    assert found.deciding is found.by_random
    assert found.n_random == len(log.random_test)  # that nothing was trained on
    assert (found.better, found.finding().answer) == ("own", "yes")
    assert "clicked items ranked above not clicked ones; squared error" in str(found)
    assert "random rows" in str(found)
    assert "random rows" in found.finding().rests_on
    assert {"mse", "precision@10", "order, by random rows"} <= found.finding().numbers.keys()
    few = unskew.compare(flat, own, log, random_ratings=log.random_test.take(np.arange(40)))
    assert few.by_random.decision == "test"
    assert "rows that were shown" in str(few)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metrics": ["auc"]}, "impressions cannot tell auc; ask for mse"),
        ({"metrics": ["value"], "source": [0.5, 0.5]}, "has 2 chances for 24,000 rows"),
        ({"metrics": ["value"], "source": lambda u, i: [0.5]}, "gave 1 values for 24,000 pairs"),
        ({"metrics": ["value"], "source": lambda u, i: np.full(len(u), 1.5)}, "target chance of row 1 is 1.5"),
        ({"propensity": [0.5]}, "1 propensities for 24,000"),
        ({"propensity": np.zeros(24_000)}, "the propensity"),
    ],
)
def test_what_cannot_be_judged_gets_a_sentence(log, change, sentence):
    given = {"source": uniform, "metrics": ["mse"], "estimators": ["ips"]} | change
    with pytest.raises((DataError, ParameterError), match=sentence):
        unskew.estimate_risk(given.pop("source"), log, **given)


def test_numbers_that_the_judge_rests_on_stand_as_figures_were_found_by_them():
    assert (judge.N_FOLDS, judge.MOST_UNSEEN, judge.LEAST_UNSEEN, judge.RAISED, judge.UNKNOWN) == (5, 4e5, 20, 1.64, 1)
    assert (judge.FLOOR, judge.CAP, judge.FEWEST, judge.FEWEST_EQUAL, judge.INSIDE) == (
        0.1,
        0.9,
        100,
        30,
        (1e-4, 0.9999),
    )
    assert (gain.Z, gain.CHANCE, gain.DRAWS, gain.POWER, compare.MOST_ASKED) == (2.47, 0.04, 40_000, 0.84, 1e5)
    assert (policy.FEW, policy.HEAVY, policy.OFF, LIKE_THE_LOG) == (50, 0.05, 3, 0.5)
    assert (fits.FACTORS, fits.SWEEPS, fits.PENALTY, fits.RIDGE_SIDE, fits.SHRUNK) == (6, 70, 500, 1500, 5)
    assert (impressions.SHARE, impressions.DRAWN, impressions.IMPUTATION.sweeps) == (0.3, 1000, 60)
    np.testing.assert_allclose(2 * np.log10(impressions.STRENGTHS), np.arange(-1, 12), atol=1e-12)


def test_shares_by_popularity_are_counts_and_a_half():
    log = unskew.RatingLog.from_arrays([0, 0, 1, 1], [0, 1, 1, 2], [1, 0, 1, 0], positive=1)
    rows = np.array([0, 1, 1]), np.array([0, 0, 2])
    own, total, share = impressions._shares(log, rows, 0, ("popularity",))["popularity"]
    assert own.tolist() == [1, 0, 1]
    assert total.tolist() == [2, 2, 2]
    assert share == pytest.approx(np.array([1.5, 1.5, 1.5]) / 5.5)


def test_means_over_items_are_of_some_users_at_once(monkeypatch):
    monkeypatch.setattr(impressions, "CELLS", 7)
    asked = []
    found = impressions.means_over_items(lambda u, i: asked.append(len(u)) or 10.0 * u + i, np.arange(5), 3, 0)
    assert (found.tolist(), asked) == ([1, 11, 21, 31, 41], [6, 6, 3])


def test_what_the_best_items_would_bring_is_imputed_by_user(log, monkeypatch):
    found, value = {}, impressions.estimate_value
    monkeypatch.setattr(impressions, "estimate_value", lambda *own, **more: found.update(more) or value(*own, **more))
    judge, (users, items) = impressions.Judge.of(log, 0), np.indices((N_USERS, N_ITEMS)).reshape(2, -1)
    scores = np.random.default_rng(0).random((N_USERS, N_ITEMS))
    judge.value(find("precision@10"), lambda u, i: scores[u, i], True)
    best = np.argsort(-scores, axis=1)[:, :10]
    means = np.take_along_axis(judge.reward(users, items).reshape(scores.shape), best, axis=1).mean(axis=1)
    for imputed, expected in zip(found["imputed"], (judge.reward(*judge.shown), means[judge.shown[0]]), strict=True):
        np.testing.assert_allclose(imputed, expected)


def test_shares_are_those_that_make_the_latest_rows_likeliest(log, monkeypatch):
    own, total, shares = (
        np.zeros(2),
        np.array([10.0, 30.0]),
        {"even": np.array([0.3, 0.3]), "own": np.array([0.2, 0.6])},
    )

    def parts(log, rows, seed, kinds=("even", "own")):
        return {kind: (own, total, shares[kind]) for kind in kinds}

    monkeypatch.setattr(impressions, "_shares", parts)  # the more they count for, the likelier
    k = 10**5.5
    assert impressions.learned_shares(log, None, 0) == pytest.approx(k * shares["own"] / (total + k))
    assert impressions._mixed(3.0, 10.0, 0.2, 5.0) == pytest.approx(4 / 15)


def test_shares_by_exposure_are_rates_over_their_sum(monkeypatch):
    """rate = -log(1 - P(shown at all)), finite however sure that is."""
    log = unskew.RatingLog.from_arrays([0, 0, 1, 1], [0, 1, 1, 2], [1, 0, 1, 0], positive=1)
    logits = np.array([[-2.0, 40, 0], [1, -1, 3]])
    exposure = SimpleNamespace(logits=lambda u, i: logits[u, i].astype(np.float32))
    monkeypatch.setattr(impressions, "exposure_of", lambda log, seed: exposure)
    rows, rate = (np.array([0, 0, 1]), np.array([0, 1, 2])), np.log1p(np.exp(logits))
    *_, share = impressions._shares(log, rows, 0, ("exposure",))["exposure"]
    assert share == pytest.approx((rate / rate.sum(axis=1, keepdims=True))[rows])
