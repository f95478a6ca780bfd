"""What a trial is judged by, against a computation by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.bench import Judging
from unskew.bench.judge import OF_JUDGES, Panel
from unskew.errors import ParameterError
from unskew.files.logs import fingerprint


def test_the_criterion_is_the_self_normalised_weighted_log_loss_on_the_fold_left_out(judging):
    world = unskew.simulate(120, 60, density=0.3, strength=1.0, seed=1)
    judging = replace(judging, training=unskew.Training(max_epochs=8, progress=False))
    verdict = Panel(world.log, judging).judge(1).verdict(unskew.Naive(), {})
    split = unskew.folds(world.log, 3, seed=0)[1]
    train, held_out = split.train, split.holdout
    model = unskew.Naive().fit(train, seed=1, training=judging.training)
    said = model.predict_codes(held_out.users, held_out.items)
    loss = -np.where(held_out.ratings == 1, np.log(said), np.log(1 - said))
    p = unskew.Factors().fit(train, seed=OF_JUDGES + 1, training=judging.training)
    weight = 1 / np.maximum(p.pair(held_out.users, held_out.items), len(train) / world.n_pairs)
    found = verdict["validation"]
    assert found["weighted_log_loss"] == pytest.approx((weight * loss).sum() / weight.sum(), rel=1e-9)
    assert found["log_loss"] == pytest.approx(loss.mean(), rel=1e-9)
    assert weight.std() > 0.1 * weight.mean(), "weights that are all the same would prove nothing"


def test_auc_is_judged_as_it_is_and_higher_is_better(world, plain):
    judging = replace(plain, criterion="auc")
    verdicts = [Panel(world.log, judging).judge(fold).verdict(unskew.Naive(), {}) for fold in (0, 1)]
    assert judging.higher_is_better
    assert judging.score(verdicts) == pytest.approx(np.mean([verdict["validation"]["auc"] for verdict in verdicts]))
    assert "weighted_log_loss" not in verdicts[0]["validation"]


def test_a_fit_that_fails_is_a_finding_but_a_judge_that_cannot_judge_is_not(world, judging):
    class Diverges(unskew.Naive):
        def fit(self, log, **arguments):
            raise unskew.DivergedError("It left.")

    assert Panel(world.log, judging).judge(0).verdict(Diverges(), {}) == {"failure": "It left."}
    one_class = world.log.take(world.log.ratings == 1)
    with pytest.raises(unskew.DataError, match="both classes"):
        Panel(one_class, replace(judging, criterion="auc")).judge(0).metrics(np.full(len(one_class) // 3 + 1, 0.5))


def test_a_clip_is_a_multiple_of_the_density_of_what_the_fit_sees(world, plain, monkeypatch):
    seen = []
    monkeypatch.setattr(unskew.SNIPS, "fit", lambda self, log, **_: seen.append((self.clip, log)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Panel(world.log, plain).judge(0).verdict(unskew.SNIPS(), {"clip": 0.5})
    ((clip, log),) = seen
    assert clip == pytest.approx(0.5 * len(log) / world.n_pairs, rel=1e-3)
    assert len(log) < len(world.log)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"criterion": "accuracy"}, "criterion must be one of"),
        ({"judges": 0}, "judges must be a whole number"),
        ({"folds": 1, "judges": 1}, "There must be at least 2 folds, not 1"),
        ({"judges": 11}, "There cannot be 11 judges of 10 folds"),
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Judging(**wrong)


def test_a_fingerprint_tells_any_two_logs_apart_and_the_same_log_always(world):
    log = world.log
    again = unskew.RatingLog(log.users, log.items, log.ratings, log.user_ids, log.item_ids, log.scale)
    flipped = log.ratings.copy()
    flipped[7] = 1 - flipped[7]
    others = (
        unskew.RatingLog(log.users, log.items, flipped, log.user_ids, log.item_ids, log.scale),
        log.take(np.arange(len(log) - 1)),
        log.take(np.arange(len(log))[::-1]),
        world.draw(1),
    )
    assert fingerprint(again) == fingerprint(log)
    assert len({fingerprint(each) for each in (log, *others)}) == 5
