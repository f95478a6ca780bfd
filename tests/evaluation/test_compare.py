"""Comparing two models and estimating one by a log alone: estimators by formula, verdicts in worlds, refusals."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.data.pairs import SeenPairs
from unskew.evaluation import fits, gain, judge
from unskew.evaluation.compare import MOST_ASKED as MOST
from unskew.evaluation.estimators import ESTIMATORS, LISTS_NEED_ALL, corner_of, estimate, interval_of
from unskew.evaluation.gain import hull
from unskew.evaluation.scores import known_propensity, scores_of
from unskew.metrics import find, roc_auc

QUICK = unskew.Training(max_epochs=5, progress=False)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_is_its_formula(evidence, scores, estimator):
    s = evidence.scores([scores[1]])
    held, corner = evidence.held, evidence.corners["alike"]
    w, q, y = corner.weight[held], corner.q, evidence.y
    errors = (s - y) ** 2
    imputed = q * (1 - s) ** 2 + (1 - q) * s**2
    expected = {
        "naive": errors[held].mean(),
        "ips": (w @ errors[held]) / corner.base.sum(),
        "snips": (w @ errors[held]) / w.sum(),
        "dr": np.average(imputed, weights=corner.base) + (w @ (errors - imputed)[held]) / w.sum(),
    }
    assert estimate(evidence, find("mse"), estimator, s).value == pytest.approx(expected[estimator])
    if estimator in ("naive", "snips"):
        one = replace(evidence, fold=np.zeros(len(evidence.fold), np.int64))
        weights = corner_of(one, estimator).base
        found = estimate(one, find("auc"), estimator, s).value
        assert found == pytest.approx(roc_auc(y[held], s[held], sample_weight=weights[held]))
        of_probabilities = find("log_loss").of(y[held], s[held], sample_weight=weights[held])
        assert estimate(one, find("log_loss"), estimator, s).value == pytest.approx(of_probabilities)
        ends = interval_of(one, find("auc"), estimator, y)[:3]
        assert ends == pytest.approx((1, 1, 1), abs=1e-12)  # the ends of the range belong to it
        assert interval_of(one, find("auc"), estimator, -y)[:3] == pytest.approx((0, 0, 0), abs=1e-12)
        assert np.isfinite(estimate(one, find("log_loss"), estimator, y).value)  # 0 and 1 are probabilities
        with pytest.raises(unskew.DataError, match="log_loss needs probabilities of a binary log"):
            estimate(one, find("log_loss"), estimator, s - 0.5)


def test_with_true_propensities_dr_finds_the_truth(world, scores):
    assert np.all(known_propensity(np.ones(len(world.log)), world.log) == 1)  # what is surely seen may be known too
    p = world.propensity(world.log.users, world.log.items)
    found = unskew.estimate_risk(scores[1], world.log, propensity=p, metrics=("mse",))
    evidence = judge.gather(world.log, propensity=p)
    unseen = ~evidence.held
    s, y = scores[1](evidence.users, evidence.items), world.rating(evidence.users, evidence.items)
    truth = ((s - y) ** 2)[unseen].mean()
    assert found["mse", "dr"].value == pytest.approx(truth, abs=0.012)
    assert found.to_dict()["estimates"]["mse"]["dr"]["low"] < truth + 0.02
    flat = unskew.estimate_risk(lambda u, i: np.full(len(u), 0.4), world.log, metrics=("mse", "user_auc"))
    assert [flat["user_auc", estimator].value for estimator in ESTIMATORS] == pytest.approx([0.5] * 4)
    names = ["popularity", "item means", "user means", "plain training"]
    assert list(flat.to_dict()["baselines"]["user_auc"]) == names
    assert list(flat.to_dict()["baselines"]["mse"]) == names[1:]  # popularity is no chance
    assert flat.baselines["user_auc", "plain training"].value > 0.5
    assert all(name in repr(flat) for name in names)


def test_the_better_model_is_named_and_equal_ones_are_not(world, scores):
    good, poor = scores
    found = unskew.compare(poor, good, world.log, names=("poor", "good"))
    assert (found.better, found.decision) == ("good", "use")
    assert str(found).startswith(f"good is better than poor: {100 * found.by_log.order.value:+.1f} points")
    turned = unskew.compare(good, poor, world.log, names=("good", "poor"))
    assert turned.decision == "stop"
    assert str(turned).startswith("poor is worse than good: -")
    level = unskew.compare(good, good, world.log)
    assert found.by_log == unskew.compare(poor, good, world.log, seed=0).by_log
    assert (level.better, level.needed) == (None, None)
    assert (found.finding().action, level.finding().action) == ("", "An A/B test")
    asked = [replace(found, by_log=found.by_log._replace(needed=n)) for n in (1.0, MOST - 9, MOST, MOST + 1)]
    assert [each.needed for each in asked] == [50, MOST, MOST, None]
    assert str(level).startswith("This log cannot tell B from A")
    tied = {"order": gain.Estimate(0.001, 0.002), "squared": (gain.Estimate(0.0, 1.0),), "aligned": ()}
    unsure = replace(found, by_log=found.by_log._replace(**tied, needed=501.0))
    assert str(unsure).endswith("It can show a gain of 0.6 points or more; of random ratings, 510 would decide.")
    assert "no log can show this; about 250 random ratings" in found.finding().rests_on
    assert "an evaluation counts all unseen pairs alike" in found.finding().rests_on


def test_a_comparison_tells_by_how_much_the_error_changes(world, scores):
    found = unskew.compare(scores[1], scores[0], world.log)
    for what, (_, low, high, *_) in (
        ("squared error", found.deciding.band),
        ("with one mean", hull(found.deciding.aligned)),
    ):
        assert f"{what} {-high:+.4f} to {-low:+.4f}" in found.sentence()


def test_random_ratings_decide_where_the_log_cannot(world, scores, capsys):
    good, poor = scores
    few = world.log.take(np.arange(80))
    with pytest.raises(unskew.DataError, match="80 ratings cannot judge anything"):
        unskew.compare(poor, good, few)
    found = unskew.compare(poor, good, few, random_ratings=world.test)
    assert found.decision == "use"
    assert "Random ratings alone judge: 80 ratings cannot judge anything" in capsys.readouterr().err
    rated = judge.Evidence.rated(world.log, world.test, world.test.ratings)
    assert rated.level.value == pytest.approx(world.test.positive_rate)
    assert not len(rated.fold_of_ratings)
    before, after = ((rated.y - of(rated.users, rated.items)) ** 2 for of in (poor, good))
    gained, needed = before - after, found.by_random.needed
    decides = (found.by_random.threshold + gain.POWER) ** 2
    assert needed == pytest.approx(decides * gained.var() / gained.mean() ** 2)  # nothing is imputed
    assert found.finding().rests_on == "3,000 random ratings, 15 of pairs that the log holds."
    others = world.test.take(~SeenPairs(few)(world.test.users, world.test.items))
    rests_on = unskew.compare(poor, good, few, random_ratings=others).finding().rests_on
    assert rests_on == "2,985 random ratings, none of pairs that the log holds."
    with pytest.raises(unskew.DataError, match="The log holds the pairs of all 80 random ratings"):
        unskew.compare(poor, good, few, random_ratings=few)
    strange = unskew.RatingLog.from_arrays([0, 0, 999], [70, 71, 0], [1, 0, 1], positive=1)
    unskew.compare(poor, good, few, random_ratings=strange)
    assert "1 of 3 random ratings are of unknown users or items: left out" in capsys.readouterr().err


def test_a_frame_and_a_function_are_judged_alike(world, scores, capsys):
    users, items = np.divmod(np.arange(world.n_pairs), 80)
    frame = pa.table({"user_id": users, "item_id": items, "score": scores[1](users, items)})
    more = pa.table({"user_id": [998, 999], "item_id": [0, 1], "score": [0.5, 0.5]})
    listed = unskew.compare(pa.concat_tables([frame, more]), scores[0], world.log)
    assert "2 of 12,002 rows of A are of users or items that the log does not know" in capsys.readouterr().err
    assert listed.by_log.order.value == pytest.approx(
        unskew.compare(scores[1], scores[0], world.log).by_log.order.value
    )
    with pytest.raises(unskew.DataError, match="pairs are missing"):
        unskew.compare(frame.slice(0, 500), scores[0], world.log)


def test_models_of_one_log_are_fitted_again_without_what_judges_them(world):
    models = [unskew.make(name).fit(world.log, seed=0, training=QUICK) for name in ("naive", "snips")]
    found = unskew.compare(*models, names=("plain", "snips"))
    assert found.witnesses.evidence.n_held == len(world.log)
    alone = repr(unskew.estimate_risk(models[0], metrics=("mse",)))
    for form in (alone, unskew.estimate_risk(models[0], metrics=("mse",))._repr_html_()):
        assert "The model was trained on these ratings, so its method is fitted again without each of five fo" in form
    assert "was trained on" not in repr(
        unskew.estimate_risk(lambda u, i: np.zeros(len(u)), world.log, metrics=("mse",))
    )
    with pytest.raises(unskew.DataError, match="was trained on"):
        unskew.compare(*models, world.draw(0).take(np.arange(2000)))
    with pytest.raises(unskew.ParameterError, match="these are not two models of one log: give the log"):
        unskew.compare(models[0], lambda u, i: np.zeros(len(u)))
    other = unskew.make("naive").fit(unskew.simulate(40, 20, density=0.5, seed=9).log, training=QUICK)
    with pytest.raises(unskew.DataError, match="The model does not know 110 of the log's 150 users"):
        unskew.estimate_risk(other, world.log)


def test_graded_logs_are_judged_on_their_scale(monkeypatch):
    world = unskew.simulate(120, 60, density=0.3, selection="popularity", interaction=1.5, seed=3)
    stars = 1 + 4 * np.clip(world.preference(world.log.users, world.log.items) * 0.6 + 0.4 * world.log.ratings, 0, 1)
    log = unskew.RatingLog.from_arrays(
        world.log.users, world.log.items, np.round(stars), positive=None, rating_scale=(1, 5)
    )
    good = lambda u, i: 1 + 4 * world.preference(np.asarray(u), np.asarray(i))  # noqa: E731
    poor = lambda u, i: np.full(len(u), 3.0)  # noqa: E731
    assert unskew.compare(poor, good, log).decision == "use"
    assert scores_of(poor, log)(log.users[:2], log.items[:2]).tolist() == [0.5, 0.5]
    assert 0 < unskew.estimate_risk(good, log, metrics=("mse",))["mse", "dr"].value < 4
    imputed = fits.imputation_of(log, 0)
    expected = imputed.posterior.expected(log.users[:9], log.items[:9])
    np.testing.assert_allclose(imputed.expected(log.users[:9], log.items[:9]), (expected - 1) / 4)
    asked = []
    monkeypatch.setattr(fits, "estimate_slope", lambda pairs, liked, *more: asked.append(liked))
    fits.slope_of(log, np.zeros(len(log)), [], 0)
    assert asked[0].tolist() == (np.round(stars) >= 3).tolist()  # the middle of the scale is liked


def test_lists_of_a_large_catalogue_are_left_out_with_a_note_and_refused_where_asked_for(world, scores, monkeypatch):
    monkeypatch.setattr(judge, "MOST_UNSEEN", 3000)
    found = unskew.estimate_risk(scores[0], world.log)
    assert found.notes == (f"precision@10 is left out: {LISTS_NEED_ALL}",)
    assert found["mse", "dr"].value > 0
    with pytest.raises(unskew.DataError, match="Leave out precision@5, or give a test"):
        unskew.estimate_risk(scores[0], world.log, metrics=("mse", "precision@5"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"metrics": ("ndcg@5",)}, "a log cannot tell ndcg@5 of unseen pairs"),
        ({"metrics": ("rmse",)}, "there is no metric 'rmse'"),
        ({"estimators": ("best",)}, "there is no estimator 'best'"),
    ],
)
def test_unknown_names_are_refused(world, scores, settings, sentence):
    with pytest.raises(unskew.ParameterError, match=sentence):
        unskew.estimate_risk(scores[0], world.log, **settings)
    with pytest.raises(unskew.DataError, match="log_loss needs probabilities of a binary log"):
        unskew.estimate_risk(lambda u, i: 2 * scores[0](u, i), world.log, metrics=("log_loss",))
