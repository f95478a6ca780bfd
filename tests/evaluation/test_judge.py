"""The judge: its sums by hand, its decision by rule, its evidence in a world whose truth is known, its refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from unskew.errors import DataError
from unskew.evaluation import fits, judge, kept
from unskew.evaluation import gain as gains
from unskew.evaluation.estimators import estimate, interval_of
from unskew.evaluation.gain import Estimate, Gain
from unskew.evaluation.judge import Corner, Evidence
from unskew.metrics import find
from unskew.selection.slope import Slope

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([0.1, 0.4, 0.4, 0.8]), st.floats(0.05, 0.95), st.booleans(), st.booleans()
    ),
    min_size=4,
    max_size=12,
)


def evidence_of(users, q, held, y, weight=2.0) -> Evidence:
    """Rows by hand: unseen ones count once, held ones weigh `weight`."""
    held = np.asarray(held, bool)
    order = np.argsort(users, kind="stable")
    users, q, held, y = np.asarray(users)[order], np.asarray(q)[order], held[order], np.asarray(y, float)[order]
    log = unskew.RatingLog.from_arrays([0, 1, 2], [0, 1, 2], [1, 0, 1], positive=1)
    corner = Corner(q, np.where(held, 0.0, 1.0), np.where(held, weight, 0.0))
    nothing, level = Slope(0.0, np.inf, 0.0), judge.Interval(0.5)
    zero = np.zeros(len(users), np.int64)
    corners = dict.fromkeys(("activity", "alike", "low, activity", "low, alike"), corner)
    items = np.arange(len(users))
    return Evidence(log, zero[:0], zero, users.astype(np.int64), items, held, y, corners, True, nothing, level)


@settings(deadline=None, max_examples=60)
@given(rows=ROWS)
def test_order_is_the_sum_over_pairs_of_a_user_one_step_from_the_imputation(rows):
    users, scores, q, held, liked = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(users, kind="stable")
    evidence = evidence_of(users, q, held, liked)
    users, scores, q, held, liked = (c[order] for c in (users, scores, q, held, liked))
    base, weight = (~held).astype(float), 2.0 * held
    x = base.sum() / max(weight.sum(), 1e-300) * weight * (liked - q)
    right = total = 0.0
    for a in range(len(users)):
        for b in range(len(users)):
            if a == b or users[a] != users[b]:
                continue
            above = float(scores[a] > scores[b]) + 0.5 * float(scores[a] == scores[b])
            first = base[a] * q[a] * base[b] * (1 - q[b])
            step = x[a] * base[b] * (1 - q[b]) - base[a] * q[a] * x[b]
            right, total = right + above * (first + step), total + first + step
    found = gains.order_of(evidence, scores.astype(float), evidence.corners["alike"])
    assert found.right == pytest.approx(right, abs=1e-9)
    assert found.all == pytest.approx(total, abs=1e-9)


def test_of_random_ratings_order_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(400)[:150], 20)
    random = unskew.RatingLog.from_arrays(users, items, rng.random(150) < 0.4, positive=1, user_ids=range(20))
    evidence = judge.random_evidence(random, random)
    scores = rng.random(len(evidence.users))
    wins = [
        scores[a] > scores[b]
        for a in range(150)
        for b in range(150)
        if evidence.users[a] == evidence.users[b] and evidence.y[a] == 1 > evidence.y[b]
    ]
    assert gains.order_of(evidence, scores, evidence.corners["activity"]).value == pytest.approx(np.mean(wins))


def test_the_squared_gain_is_doubly_robust_and_self_normalised():
    rng = np.random.default_rng(1)
    users, q, held = rng.integers(0, 3, 60), rng.uniform(0.1, 0.9, 60), rng.random(60) < 0.4
    y, weight = (rng.random(60) < q).astype(float), 3.0
    evidence = evidence_of(users, q, held, y, weight)
    a, b = rng.random(60), rng.random(60)
    gain = (evidence.y - a) ** 2 - (evidence.y - b) ** 2
    here = evidence.corners["alike"]
    imputed = here.q * ((1 - a) ** 2 - (1 - b) ** 2) + (1 - here.q) * (a**2 - b**2)
    expected = imputed[~evidence.held].mean() + (gain - imputed)[evidence.held].mean()
    assert gains.squared_gain(evidence, a, b, "alike").value == pytest.approx(expected)
    truth = replace(evidence, y=here.q)  # ratings that are what the imputation says: weights have no part
    assert gains.squared_gain(truth, a, b, "alike").value == pytest.approx(imputed[~evidence.held].mean())


def gain_of(order: float, *squared: float) -> Gain:
    return Gain(Estimate(order, 1.0), tuple(Estimate(each, 1.0) for each in squared), 1.0)


@pytest.mark.parametrize(
    ("order", "squared", "decision"),
    [
        (2.3, (0, 0, 0), "use"),
        (2.2, (3, 3, 3), "use"),
        (2.2, (3, 3, 2.2), "test"),
        (2.3, (-3, -3, 0), "use"),
        (2.3, (-3, -3, -3), "test"),
        (-2.3, (0, 0, 0), "stop"),
        (0, (-3, -3, -3), "stop"),
        (-2.3, (3, 3, 3), "test"),
        (0, (3, -3, 3), "test"),
    ],
)
def test_the_rule_decides_by_order_or_by_error_at_all_corners(order, squared, decision):
    assert gain_of(order, *squared).decision == decision


@pytest.mark.parametrize(
    ("log", "random", "decision"),
    [
        ((3, 0, 0, 0), (-3, 0), "stop"),
        ((3, 0, 0, 0), (0.5, 0.5), "use"),
        ((3, 0, 0, 0), (-1.5, 0), "test"),
        ((0, 0, 0, 0), (3, 0), "use"),
        (None, (0, 0), "test"),
    ],
)
def test_random_ratings_overrule_the_log(log, random, decision):
    by_log = None if log is None else gain_of(*log)
    assert gains.together(by_log, gain_of(*random)) == decision


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(150, 80, density=0.2, selection="popularity", interaction=1.5, seed=4)


@pytest.fixture(scope="module")
def evidence(world):
    return judge.gather(world.log, seed=0)


def test_rows_are_left_out_ratings_once_and_all_unseen_pairs_a_fold(world, evidence, monkeypatch):
    log = world.log
    assert evidence.n_held == len(log)
    assert (~evidence.held).sum() == 5 * (log.n_pairs - len(log))
    keys = evidence.users[evidence.held] * log.n_items + evidence.items[evidence.held]
    assert len(np.unique(keys)) == len(log)
    fold = dict(zip(log.users.astype(int) * log.n_items + log.items, evidence.fold_of_ratings, strict=True))
    assert [fold[key] for key in keys] == evidence.fold[evidence.held].tolist()
    counts = np.bincount(log.users, minlength=log.n_users)
    in_first = np.bincount(log.users, evidence.fold_of_ratings == 0, log.n_users)
    assert np.abs(in_first - counts / 5).max() < 1
    corner = evidence.corners["alike"]
    assert 0.7 < corner.weight.sum() / corner.base.sum() < 1.4  # ratings stand for about all unseen pairs
    assert 0.1 * len(log) < evidence.effective < len(log)
    trained, own = [], judge.imputation_of
    monkeypatch.setattr(judge, "imputation_of", lambda log, seed: trained.append(log) or own(log, seed))
    found = judge.gather(log, seed=1)
    assert [len(each) for each in trained] == [(found.fold_of_ratings != k).sum() for k in range(5)]


def test_the_same_log_has_the_same_evidence_at_once(world, evidence, monkeypatch):
    copy = world.log.take(np.arange(len(world.log)))
    monkeypatch.setattr(judge, "imputation_of", None)
    np.testing.assert_array_equal(judge.gather(copy, seed=0).corners["alike"].q, evidence.corners["alike"].q)
    assert kept.fingerprint(world.draw(1)) != kept.fingerprint(world.log)


def test_a_loaded_model_keeps_what_was_fitted_in_its_folder(world, tmp_path, monkeypatch, capsys):
    unskew.make("snips").fit(world.log, training=unskew.Training(max_epochs=2, progress=False)).save(tmp_path / "m")
    asked = {"metrics": ("mse",), "estimators": ("dr",)}

    def found():
        monkeypatch.setattr(kept, "_KNOWN", {})
        return unskew.estimate_risk(unskew.load(tmp_path / "m"), **asked)["mse", "dr"]

    first = found()
    with monkeypatch.context() as nothing:
        nothing.setattr(judge, "imputation_of", None)
        nothing.setattr(unskew.SNIPS, "fit", None)
        assert found() == first  # to the bit
    file = tmp_path / "m" / "judge.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert found() == first
    assert "judge.bin is damaged" in capsys.readouterr().err
    unskew.load(tmp_path / "m").save(tmp_path / "m")  # what the judge has kept there is no foreign file


@pytest.mark.parametrize("seed", [2**63 - 1, 2**31])
def test_any_seed_is_one(world, seed):
    assert len(judge.gather(world.log.take(np.arange(400)), seed=seed).fold)
    model = unskew.make("naive").fit(world.log, seed=seed, training=unskew.Training(max_epochs=1, progress=False))
    assert unskew.compare(model, model).decision == "test"
    with pytest.raises(unskew.ParameterError, match="seed must be a whole number"):
        judge.gather(world.log, seed=-1)


def test_a_sampler_is_judged_with_the_columns_that_it_has_chosen(world):
    log = world.log.take(np.arange(600))
    model = unskew.fit(log, "bayes", training=unskew.Training(progress=False))
    asked = fits.for_folds(model)
    chosen = bool(model.part("prediction").chain["settings.exposure"])
    assert (asked.factors.exposure, asked.factors.history, asked.factors.sweeps) == (chosen, False, 60)
    given = unskew.make("bayes", factors=unskew.BayesianFactors(sweeps=20))
    assert fits.for_folds(replace(model, method=given)) is given


def test_the_band_of_squared_error_reaches_from_one_reading_to_the_other():
    rng = np.random.default_rng(2)
    evidence = evidence_of(np.sort(rng.integers(0, 3, 60)), rng.random(60), rng.random(60) < 0.4, rng.random(60) < 0.5)
    low = evidence.corners["alike"]._replace(q=evidence.corners["alike"].q * 0.5)
    evidence = replace(evidence, corners=evidence.corners | {"low, alike": low})
    a, b = rng.random(60), rng.random(60)
    ends = [gains.squared_gain(evidence, a, b, name).interval() for name in ("alike", "low, alike")]
    band = gains.gain(evidence, a, b).band
    assert band[:3] == (ends[0].value, min(e.low for e in ends), max(e.high for e in ends))
    mse = [estimate(evidence, find("mse"), "dr", a, end).interval() for end in ("alike", "low, alike")]
    assert interval_of(evidence, find("mse"), "dr", a)[1:3] == (min(e.low for e in mse), max(e.high for e in mse))


def test_a_better_model_is_used_a_worse_one_stopped_and_itself_undecided(world, evidence):
    truth = world.preference(evidence.users, evidence.items)
    noisy = np.clip(truth + np.random.default_rng(0).normal(0, 0.25, len(truth)), 0.01, 0.99)
    found = gains.gain(evidence, noisy, truth)
    assert found.decision == "use"
    assert gains.gain(evidence, truth, noisy).decision == "stop"
    assert gains.gain(evidence, truth, truth).decision == "test"
    right = (truth - noisy)[~evidence.held]
    assert found.squared[0].value == pytest.approx((right**2).mean(), abs=4 * found.squared[0].error)


def test_a_sample_of_unseen_pairs_tells_the_same(world, evidence, monkeypatch):
    truth = world.preference
    before = lambda u, i: np.clip(truth(u, i) + 0.3 * np.sin(7.0 * u + 3.0 * i), 0.01, 0.99)  # noqa: E731
    whole = gains.gain(evidence, *(evidence.scores([f]) for f in (before, truth)))
    monkeypatch.setattr(judge, "MOST_UNSEEN", 4000)
    monkeypatch.setattr(kept, "_KNOWN", {})
    few = judge.gather(world.log, seed=0)
    assert not few.whole
    assert (~few.held).sum() < 5 * 4000
    some = gains.gain(few, *(few.scores([f]) for f in (before, truth)))
    assert some.order.value == pytest.approx(whole.order.value, abs=whole.order.error)
    assert some.squared[0].value == pytest.approx(whole.squared[0].value, abs=whole.squared[0].error)
    base, all_of = few.corners["alike"].base, evidence.corners["alike"].base
    assert base.sum() == pytest.approx(all_of.sum(), rel=1e-9)


def test_known_propensities_weigh_by_their_odds(world):
    p = world.propensity(world.log.users, world.log.items)
    found = judge.gather(world.log, seed=0, propensity=p)
    known = dict(zip(world.log.users.astype(int) * 80 + world.log.items, (1 - p) / p, strict=True))
    rows = np.flatnonzero(found.held)
    expected = [known[key] for key in found.users[rows] * 80 + found.items[rows]]
    np.testing.assert_allclose(found.corners["alike"].weight[rows], expected)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (lambda log: log.take(np.arange(50)), "50 ratings cannot judge anything: at least 100 are needed"),
        (lambda log: log.take(log.users == np.bincount(log.users).argmax()), "ratings"),
        (lambda log: log.take(log.ratings == 1), "are of one class"),
    ],
)
def test_what_cannot_judge_is_refused_in_a_sentence(world, rows, sentence):
    with pytest.raises(DataError, match=sentence):
        judge.gather(rows(world.log))


def test_propensities_that_are_none_are_refused(world):
    p = np.full(len(world.log), 0.3)
    p[7] = 0.0
    with pytest.raises(DataError, match=r"the propensity\[7\] = 0.0 is none of a seen pair"):
        unskew.estimate_risk(lambda u, i: np.zeros(len(u)), world.log, propensity=p)
