"""The search asks for the same whatever runs it, and gives every method as many trials."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import unskew
from unskew.bench import Judging, tune
from unskew.bench.jobs import opened
from unskew.bench.judge import Judge
from unskew.bench.search import Search, search, searches_of
from unskew.errors import DataError, ParameterError
from unskew.methods.settings import Choice, LogUniform, TimesDensity, defaults_of, with_chosen

METHODS = {"naive": unskew.Naive(), "cvib": unskew.CVIB()}


@pytest.fixture
def verdicts(monkeypatch):
    """Judges that answer at once, and a list of what they were asked."""
    asked = []

    def verdict(self, method, chosen):
        asked.append((type(method).__name__, self.number, dict(chosen)))
        score = (chosen.get("l2", 0.1) - 0.05) ** 2 + chosen.get("net.n_factors", 64) / 1000
        return {"failure": "It left."} if score > 0.4 else {"validation": {"log_loss": score + self.number}}

    monkeypatch.setattr(Judge, "verdict", verdict)
    return asked


def test_every_method_has_as_many_trials_the_first_as_it_is(world, plain, verdicts, tmp_path):
    searches = searches_of(METHODS, world.log, plain)
    with opened(tmp_path / "r.jsonl") as records:
        search(searches, 7, records)
    assert [len(each.trials) for each in searches] == [7, 7]
    for each in searches:
        first, *others = each.trials
        assert first.method == METHODS[each.name]
        assert len({trial.method for trial in others}) == len(others)
    keys = [json.loads(line)["key"] for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert sorted(keys) == sorted(f"trial/{name}/{t}/{f}" for name in METHODS for t in range(7) for f in range(2))


def test_a_longer_search_begins_with_the_shorter_one_and_repeats_nothing(world, plain, verdicts, tmp_path):
    short = tune(world.log, "naive", 6, judging=plain, records=tmp_path / "r.jsonl")
    asked = len(verdicts)
    long = tune(world.log, "naive", 18, judging=plain, records=tmp_path / "r.jsonl")
    assert long.trials[:6] == short.trials
    assert (asked, len(verdicts)) == (12, 36)
    assert long.score <= short.score
    assert tune(world.log, "naive", 18, judging=plain) == long


def test_the_best_is_the_lowest_score_or_the_highest_auc_and_failures_are_neither(world, plain, verdicts):
    found = tune(world.log, "naive", 20, judging=plain)
    scores = [trial.score for trial in found.trials]
    assert found.score == min(score for score in scores if score is not None)
    failed = [trial for trial in found.trials if trial.score is None]
    assert failed
    assert all(trial.failure == "It left." for trial in failed)
    assert found.method == next(trial.method for trial in found.trials if trial.score == found.score)
    by_auc = Search("naive", unskew.Naive(), world.log, replace(plain, criterion="auc"))
    for trial in by_auc.ask(3, 0):
        by_auc.tell(trial, [{"validation": {"auc": 0.5 + trial.number / 10}}])
    assert by_auc.best is not None
    assert by_auc.best.number == 2


def test_another_seed_asks_for_other_trials(world, plain, verdicts):
    one, other = (tune(world.log, "naive", 5, judging=replace(plain, seed=seed)) for seed in (0, 1))
    assert one.trials[0].method == other.trials[0].method
    assert all(a.chosen != b.chosen for a, b in zip(one.trials[1:], other.trials[1:], strict=True))


def test_the_search_learns(world, plain, verdicts):
    """What it asks for later is better than the ten trials it begins with at random."""
    scores = [
        9.0 if trial.score is None else trial.score for trial in tune(world.log, "naive", 40, judging=plain).trials
    ]
    assert np.median(scores[20:]) - min(scores) < 0.5 * (np.median(scores[1:10]) - min(scores))


def test_a_search_in_which_every_trial_fails_says_why(world, plain, monkeypatch):
    monkeypatch.setattr(Judge, "verdict", lambda self, method, chosen: {"failure": "It left."})
    with pytest.raises(DataError, match="All 5 trials of naive failed, the first because: It left"):
        tune(world.log, "naive", 5, judging=plain)


def test_a_judge_that_cannot_judge_ends_the_search_with_its_sentence(world, plain):
    liked = world.log.take(world.log.ratings == 1)
    with pytest.raises(DataError, match=r"Trials cannot be judged by auc \(trial/naive/0/0\), .*: .*both classes"):
        tune(liked, "naive", 1, judging=replace(plain, criterion="auc"))


def test_a_log_that_changed_since_is_noticed_and_nothing_is_run(world, plain, verdicts, tmp_path):
    tune(world.log, "naive", 1, judging=plain, records=tmp_path / "r.jsonl")
    asked = len(verdicts)
    with pytest.raises(DataError, match="holds records of another log"):
        tune(world.draw(1), "naive", 1, judging=plain, records=tmp_path / "r.jsonl")
    assert len(verdicts) == asked


def test_without_optuna_there_is_a_sentence(world, plain, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ParameterError, match=r"Tuning needs Optuna, .* pip install 'unskew\[tune\]'"):
        tune(world.log, "naive", 2, judging=plain)


@dataclass(frozen=True, kw_only=True)
class Untunable(unskew.Naive):
    def space(self):
        return {}


def test_a_method_without_a_space_is_refused(world):
    with pytest.raises(ParameterError, match="Untunable declares no settings to tune"):
        tune(world.log, Untunable(), 2, judging=Judging())


@pytest.mark.parametrize("name", [entry.name for entry in unskew.registered()])
def test_every_registered_method_has_a_space_and_every_corner_of_it_makes_a_method(name, world):
    method = unskew.make(name)
    space = method.space()
    if isinstance(method, unskew.DCEBayes):
        assert space == {}  # all shrinkage is learned: there is nothing to tune
        return
    assert "l2" in space or "base.l2" in space
    defaults = defaults_of(method, space, world.log)
    assert defaults is not None or "published" in name
    ends = {key: (d.values if isinstance(d, Choice) else (d.low, d.high)) for key, d in space.items()}
    for corner in ({key: values[0] for key, values in ends.items()}, {key: values[-1] for key, values in ends.items()}):
        changed = with_chosen(method, space, corner, world.log)
        assert type(changed) is type(method)
        assert changed.plan().roles.keys() == method.plan().roles.keys()
        assert changed.space().keys() == space.keys()
    if defaults is not None:
        same = with_chosen(method, space, defaults, world.log)
        assert with_chosen(same, space, {}, world.log).plan().roles.keys() == method.plan().roles.keys()


def test_settings_are_written_shortly_and_a_clip_is_a_probability(world):
    density = len(world.log) / world.n_pairs
    assert LogUniform(0.01, 1).setting(0.123456, world.log) == 0.1235
    clip = TimesDensity((0.5, 1.0, 100.0))
    assert clip.setting(0.5, world.log) == pytest.approx(density / 2, rel=1e-3)
    assert clip.setting(1.0, world.log) is None
    assert clip.setting(100.0, world.log) == 1.0
    assert (clip.shown(0.5), Choice((8,)).shown(8), LogUniform(1, 2).shown(1.23456)) == ("0.5 x density", "8", "1.235")
