"""Settings that are "auto" are searched for on the hold-out, and what was tried is told."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.errors import ParameterError
from unskew.methods.auto import GRIDS, Trials, open_settings
from unskew.recipe import from_plain, to_plain
from unskew.training.history import Tried
from unskew.training.rules import usual_l2

NET = unskew.MF(n_factors=4)
SHORT = unskew.Training(max_epochs=3, progress=False)
METHOD = unskew.DoublyCalibrated(
    unskew.DRJL(net=NET, propensity=unskew.Additive(), l2="auto", clip="auto"),
    propensity=unskew.GlobalPlatt(),
    imputation=None,
)


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(n_users=60, n_items=40, density=0.2, seed=3).log


@pytest.fixture(scope="module")
def model(log):
    return METHOD.fit(log, seed=4, training=SHORT)


def test_every_value_of_the_grid_is_tried_and_one_is_chosen(model, log):
    tried = {name: [one for one in model.history.tried if one.setting == name] for name in ("base.l2", "base.clip")}
    density = len(log) / log.n_pairs
    for (name, found), usual in zip(tried.items(), (usual_l2(log), density), strict=True):
        multiples = GRIDS[name.removeprefix("base.")][0]
        np.testing.assert_allclose([one.value for one in found], np.multiply(multiples, usual), rtol=1e-3)
        assert sum(one.chosen for one in found) == 1
        assert all(np.isfinite((one.log_loss, one.pair_loss)).all() for one in found)
    values = [next(one.value for one in found if one.chosen) for found in tried.values()]
    assert [model.method.base.l2, model.method.base.clip] == values
    assert "base.l2: " in str(model.history)
    assert "by log-loss and pairwise loss on parts held out" in str(model.history)


def test_the_model_is_the_one_that_the_chosen_numbers_give_and_its_recipe_has_them(model, log, tmp_path):
    assert not list(open_settings(model.method))
    again = from_plain(to_plain(model.method)).fit(log, seed=4, training=SHORT)
    pairs = np.divmod(np.arange(log.n_pairs), log.n_items)
    assert (again.predict_codes(*pairs) == model.predict_codes(*pairs)).all()
    assert not again.history.tried
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    assert loaded.method == model.method
    assert loaded.history.tried == model.history.tried


def test_an_ensemble_searches_once_for_all_its_members(log):
    method = unskew.Ensemble(unskew.Naive(net=NET, l2="auto"), 3)
    model = method.fit(log, training=SHORT)
    assert {member.method.l2 for member in model.members} == {model.method.base.l2}
    assert len({one.value for one in model.history.tried}) == 5
    assert not any(member.history.tried for member in model.members)


def test_the_value_of_the_lowest_sum_of_both_losses_is_chosen(model):
    for name in ("base.l2", "base.clip"):
        found = [one for one in model.history.tried if one.setting == name]
        best = min(found, key=lambda one: one.log_loss + one.pair_loss)
        assert best.chosen


def test_values_that_diverge_are_passed_over_and_nothing_is_chosen_if_all_do(log, monkeypatch):
    def judged(self, method, name, value, judge=Trials.judged):
        return judge(self, method, name, value) if value in fine else Tried(name, value, np.inf, np.inf)

    monkeypatch.setattr(Trials, "judged", judged)
    method = unskew.Naive(net=NET, l2="auto")
    fine = {float(f"{2 * usual_l2(log):.4g}")}
    assert method.fit(log, training=SHORT).method.l2 in fine
    fine = set()
    with pytest.raises(unskew.DivergedError, match="give a number instead"):
        method.fit(log, training=SHORT)


def test_the_search_finds_more_l2_without_interactions_and_less_with_strong_ones_and_lowers_the_true_risk():
    """`benchmarks/auto.py` has more worlds; here the mean risk may exceed that of the rule by 0.001 at most."""
    risks, times_usual = [], []
    for interaction in (0.01, 2.5):
        law = {"interaction": interaction, "n_factors": 2, "selection": "uniform"}
        world = unskew.simulate(100, 80, density=0.25, seed=1, **law)
        training = unskew.Training(progress=False)
        fits = [
            unskew.Naive(net=unskew.MF(n_factors=8), l2=l2).fit(world.log, training=training) for l2 in (None, "auto")
        ]
        risks.append([world.risk(fit.predict_codes) for fit in fits])
        times_usual.append(fits[1].method.l2 / usual_l2(world.log))
    assert times_usual[0] > 1.2
    assert times_usual[1] < 0.8
    rule, auto = np.mean(risks, axis=0)
    assert auto <= rule + 0.001


def test_other_words_than_auto_are_refused():
    with pytest.raises(ParameterError, match="l2 of Naive must be a number at least 0"):
        unskew.Naive(l2="automatic")
    assert replace(unskew.IPS(), clip="auto").plan().roles["propensity"].clip is None
