"""What `diagnose` answers: one record for every question, a decision that follows the rule, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.diagnosis.diagnose import known_already
from unskew.diagnosis.lists import lists
from unskew.evaluation.compare import ASSUMPTION

QUICK = unskew.Training(max_epochs=8, progress=False)
KEYS = ["data", "bias", "gain", "calibration", "lists", "reach", "assumption"]


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(150, 80, density=0.2, selection="taste", strength=0.6, interaction=1.5, seed=2)


@pytest.fixture(scope="module")
def model(world):
    return unskew.make("naive").fit(world.log, seed=1, training=QUICK)


@pytest.fixture(scope="module")
def found(model):
    return model.diagnose(called="my model")


def test_every_question_is_answered_once(found):
    assert [one.key for one in found] == KEYS
    assert found.subject == "model"
    assert found.decision == "test"  # plain training against itself by another seed
    assert found["gain"].answer == "cannot tell"
    assert "This log cannot tell this model from plain training." in found.why


def test_the_assumption_is_printed_with_every_decision(found):
    assert ASSUMPTION in found["gain"].rests_on
    assert " ".join(ASSUMPTION.split()) in " ".join(found.text().split())


def test_json_and_text_hold_the_same_answers(found):
    facts = json.loads(found.json())
    assert [one["key"] for one in facts["findings"]] == KEYS
    for one in facts["findings"]:
        assert one["headline"].split()[0] in found.text()
    assert len(repr(found).splitlines()) <= 40


def test_the_same_seed_gives_the_same_findings(found, model):
    assert model.diagnose(called="my model").json() == found.json()


def test_next_steps_name_the_source_as_it_is_called(found):
    assert any("unskew diagnose 'my model' --random-ratings random.csv" in step for step in found.next_steps)


def test_lists_of_one_item_are_no_recommendations(model):
    def same(users, items):
        return np.where(items == 3, 0.9, 0.1).astype(float)

    class Same(type(model)):
        def ranking(self, by, seed=0):
            return same

    log = model.log.take(model.log.items != 3)
    alike = Same(**{**{name: getattr(model, name) for name in model.__dataclass_fields__}, "log": log})
    finding = lists(alike, replace(model, log=log), replace(model, log=log))
    assert finding.answer == "no"
    assert finding.numbers["people with the same first item"].value == 1.0


def test_random_ratings_speak_before_the_log(model, world):
    found = unskew.diagnose(model, random_ratings=world.test)
    assert "random ratings" in found["bias"].numbers
    assert f"judged by {len(world.test):,} random ratings" in found.about
    assert found["calibration"].rests_on.endswith("random ratings.")
    level = found["bias"].numbers["random ratings"]
    assert level.low < world.test.positive_rate < level.high


def test_a_log_is_biased_where_liking_drives_seeing_and_a_frame_is_a_log(world):
    found = unskew.diagnose(world.log)
    assert [one.key for one in found] == ["data", "bias", "reach", "assumption"]
    band = found["bias"].numbers["over all pairs"]
    assert np.isnan(band.value)  # a band, never a point
    assert band.low <= band.high < world.log.positive_rate
    assert (found["bias"].answer, found.decision, found.label) == ("yes", "use", "Correct it")
    assert unskew.diagnose(world.log.to_arrow()).decision == "use"


def test_a_log_without_selection_shows_no_sign_of_it():
    even = unskew.simulate(300, 120, density=0.2, selection="uniform", interaction=1.5, seed=0)
    found = unskew.diagnose(even.log)
    assert found["bias"].answer in ("no", "cannot tell")
    assert found.decision in ("stop", "test")


def test_what_a_fit_knows_takes_three_lines(model):
    lines = known_already(model)
    assert len(lines) == 3
    assert lines[0].startswith(f"{len(model.log):,} ratings by 150 people on 80 items")


def test_graded_logs_are_told_on_their_scale(world):
    log = unskew.RatingLog.from_arrays(
        world.log.users, world.log.items, 1 + 4 * world.log.ratings, positive=None, rating_scale=(1, 5)
    )
    found = unskew.diagnose(log)
    assert 1 < found["bias"].numbers["over all pairs"].low < 5


@pytest.mark.parametrize("rows", [20, 60])
def test_too_little_is_refused_in_a_sentence(world, rows):
    with pytest.raises(unskew.DataError, match=f"{rows} ratings cannot judge anything"):
        unskew.diagnose(world.log.take(np.arange(rows)))
