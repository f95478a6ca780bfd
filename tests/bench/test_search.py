"""The search asks for the same whatever runs it, gives every method as many trials, and goes on where it ended."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import unskew
from unskew.bench import Validation, tune
from unskew.bench import search as module
from unskew.bench.search import search
from unskew.errors import DataError, ParameterError
from unskew.evaluation.estimators import estimate
from unskew.evaluation.judge import gather
from unskew.methods.settings import defaults_of, with_chosen
from unskew.metrics.table import find


@pytest.fixture
def asked(monkeypatch):
    """A judge that answers at once, a method is as good as its settings are near to some, and what was asked."""
    tasks = []

    def counted(method, chosen, fold, given):
        tasks.append(chosen)
        score = (chosen.get("l2", 0.1) - 0.05) ** 2 + chosen.get("net.n_factors", 64) / 1000
        if score > 0.4:
            raise unskew.DivergedError("It left.")
        return {"answers": np.array([score + fold])}

    evidence = SimpleNamespace(fold=None, users=None, items=None, fold_of_ratings=None)
    monkeypatch.setattr(module, "gather", lambda log, seed: evidence)
    monkeypatch.setattr(module, "_answered", counted)
    monkeypatch.setattr(module, "_score", lambda evidence, validation, own: sum(one[0] for one in own) / 5)
    return tasks


def test_every_method_has_as_many_trials_the_first_as_it_is(world, validation, asked):
    searches = search({"naive": unskew.Naive(), "cvib": unskew.CVIB()}, world.log, 7, validation)
    assert [len(each.trials) for each in searches] == [7, 7]
    assert len(asked) == 2 * 7 * 5
    assert all(chosen == {} for chosen in asked[:10])
    for each in searches:
        assert len({tuple(trial.chosen.values()) for trial in each.trials[1:]}) == 6
        assert each.trials[0].chosen == defaults_of(each.method, each.space, world.log)


def test_a_longer_search_begins_with_the_shorter_one(world, validation, asked, tmp_path):
    short = tune(world.log, "naive", 6, validation=validation, journal=tmp_path / "j")
    before = len(asked)
    with (tmp_path / "j").open("ab") as torn:
        torn.write(b'{"op_code": 5, "wor')  # what a crash leaves of a line
    long = tune(world.log, "naive", 18, validation=validation, journal=tmp_path / "j")
    assert long.trials[:6] == short.trials
    assert (before, len(asked)) == (30, 90)
    assert long.score <= short.score
    assert tune(world.log, "naive", 18, validation=validation) == long
    assert tune(world.log, "naive", 6, validation=validation, journal=tmp_path / "j") == short


def test_the_best_is_the_lowest_score_and_no_failure(world, validation, asked):
    found = tune(world.log, "naive", 20, validation=validation)
    scores = [trial.score for trial in found.trials]
    failed = [trial for trial in found.trials if trial.score is None]
    assert found.score == min(score for score in scores if score is not None)
    assert {trial.failure for trial in failed} == {"It left."}
    best = found.trials[scores.index(found.score)]
    assert found.method == with_chosen(unskew.Naive(), unskew.Naive().space(), best.chosen, world.log)
    by_auc = tune(world.log, "naive", 20, validation=replace(validation, criterion="auc"))
    assert by_auc.score == max(trial.score for trial in by_auc.trials if trial.score is not None)


def test_what_ends_a_search_is_said(world, validation, monkeypatch):
    def diverge(self, log, **_):
        raise unskew.DivergedError("It left.")

    monkeypatch.setattr(unskew.CVIB, "fit", diverge)
    with pytest.raises(DataError, match="All 2 trials of cvib failed, the first because: It left"):
        tune(world.log, "cvib", 2)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ParameterError, match=r"Tuning needs Optuna, .* pip install 'unskew\[tune\]'"):
        tune(world.log, "naive", 2, validation=validation)


def test_the_score_is_the_judges_of_fits_without_each_fold(world):
    validation = Validation(training=unskew.Training(max_epochs=2, progress=False))
    found = tune(world.log, "naive", 2, validation=validation, workers=2)
    evidence, log = gather(world.log, seed=0), world.log
    for number, trial in enumerate(found.trials):
        models, chosen = [], trial.chosen if number else {}
        for fold in range(5):
            train = log.take(evidence.fold_of_ratings != fold)
            method = with_chosen(unskew.Naive(), unskew.Naive().space(), chosen, train)
            models.append(method.fit(train, seed=fold, training=validation.training).predict_codes)
        score = estimate(evidence, find("mse"), "dr", evidence.scores(models)).value
        assert trial.score == pytest.approx(score, rel=1e-12)
    assert found.trials[0].score != found.trials[1].score


def test_what_has_no_settings_is_judged_once(world, validation, asked):
    with pytest.raises(ParameterError, match="dce-bayes has no settings to tune"):
        tune(world.log, "dce-bayes", 2)
    fixed, naive = search({"fixed": unskew.DCEBayes(), "naive": unskew.Naive()}, world.log, 3, validation)
    assert (len(fixed.trials), len(naive.trials)) == (1, 3)
    assert fixed.choice()[-1] == "as it is"
    for wrong in ({"criterion": "accuracy"}, {"seed": -1}):
        with pytest.raises(ParameterError, match=r"criterion must be 'mse', |seed must be a whole number"):
            Validation(**wrong)
