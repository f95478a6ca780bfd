"""What `diagnose` answers: one record for every question, a decision that follows the rule, and refusals."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.diagnosis.bias import bias
from unskew.diagnosis.calibration import calibration, with_residuals
from unskew.diagnosis.diagnose import known_already
from unskew.diagnosis.lists import lists
from unskew.evaluation.compare import ASSUMPTION
from unskew.evaluation.judge import Corner
from unskew.findings import Interval
from unskew.selection.slope import Slope

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


def test_text_and_json_hold_the_same_answers_and_the_assumption(found, model):
    assert ASSUMPTION in found["gain"].rests_on
    assert " ".join(ASSUMPTION.split()) in " ".join(found.text().split())
    facts = json.loads(found.json())
    assert [one["key"] for one in facts["findings"]] == KEYS
    assert all(one["headline"].split()[0] in found.text() for one in facts["findings"])
    assert len(repr(found).splitlines()) <= 40
    assert model.diagnose(called="my model").json() == found.json()  # the same seed, the same findings


def test_no_number_of_random_ratings_would_decide_between_equals(world):
    found = unskew.make("naive").fit(world.log, seed=1).diagnose()
    assert "Both order alike; of random ratings, no affordable number would decide." in found["gain"].meaning
    assert "An A/B test would" in found.why
    assert not any("would decide" in step for step in found.next_steps)


def test_next_steps_name_the_source_as_it_is_called(found, world):
    assert any("unskew diagnose 'my model' --random-ratings random.csv" in step for step in found.next_steps)
    assert "`unskew fit ratings.csv --out model`" in unskew.diagnose(world.log).next_steps[0]


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
    assert str(found["calibration"].numbers["found in random ratings"]) == f"{world.test.positive_rate:.1%}"
    level = found["bias"].numbers["random ratings"]
    assert level.low < world.test.positive_rate < level.high


def test_one_random_rating_a_user_orders_nothing(model, world):
    few = world.test.take(np.unique(world.test.users, return_index=True)[1][:60])
    found = unskew.diagnose(model, random_ratings=few)
    assert found["gain"].table.rows[0][1:] == ("cannot tell",) * 3
    even = lambda users, items: np.full(len(users), 0.5)  # noqa: E731
    alone = unskew.compare(even, even, world.log.take(np.arange(90)), random_ratings=few)  # which cannot judge itself
    assert "no user has ratings that are liked and disliked, to order" in str(alone)
    assert not re.search(r"\b(inf|nan)\b", found.text() + str(alone) + repr(alone))


def test_a_log_is_biased_where_liking_drives_seeing_and_a_frame_is_a_log():
    world = unskew.simulate(300, 120, density=0.25, selection="taste", strength=0.5, interaction=1.5, seed=3)
    found = unskew.diagnose(world.log)
    assert [one.key for one in found] == ["data", "bias", "reach", "assumption"]
    band = found["bias"].numbers["over all pairs"]
    assert np.isnan(band.value)  # a band, never a point
    assert band.low <= band.high < world.log.positive_rate
    assert (found["bias"].answer, found.decision, found.label) == ("yes", "use", "Correct it")
    assert unskew.diagnose(world.log.to_arrow()).decision == "use"


def test_a_log_without_selection_shows_no_sign_of_it():
    even = unskew.simulate(200, 80, density=0.2, selection="uniform", interaction=1.5, seed=0)
    found = unskew.diagnose(even.log)
    assert found["bias"].answer in ("no", "cannot tell")
    assert found.decision in ("stop", "test")


WORDS = {  # a slope, its error, the highest level over unseen pairs: answer, headline, meaning
    (0.8, 0.1, 0.3): ("yes", "Yes, by", "People rate what they like"),
    (0.1, 0.1, 0.3): ("yes", "Yes, by", "which makes the difference; that people also choose what they like is not"),
    (0.1, 0.9, 0.3): ("yes", "Yes, by", "which makes the difference; whether people also choose what they like, the"),
    (0.1, 0.1, 0.9): ("no", "No sign of it", "does not rise with how much it is liked"),
    (0.1, 0.9, 0.9): ("cannot tell", "This log cannot tell", "too small, or too even, to tell"),
}


@pytest.mark.parametrize("known", WORDS, ids=str)
def test_answer_headline_and_meaning_of_bias_are_one_statement(world, known):
    slope, error, highest = known
    level = Interval(highest, highest - 0.1, highest)
    evidence = SimpleNamespace(slope=Slope(slope, error, 1.0), level=level)
    found = bias(world.log, evidence)
    answer, headline, meaning = WORDS[known]
    assert (found.answer, found.headline[: len(headline)]) == (answer, headline)
    assert meaning in found.meaning
    same, other = (bias(world.log, evidence, random=log) for log in (world.log, world.test))
    assert (same.answer, same.meaning) == (
        "no",
        "What people chose to rate is liked as much as pairs drawn at random, whatever they chose by.",
    )
    assert other.answer == "yes"  # and nothing beside it says that there is no sign of it
    assert other.meaning.startswith("People rate what they like" if slope > 0.5 else "What people chose to rate is")


@pytest.mark.parametrize(("says", "answer"), [(0.9, "no"), (0.1, "no"), (0.5, "cannot tell")])
def test_chances_are_off_only_if_on_the_same_side_at_both_ends(says, answer, world):
    y, n = np.tile([1.0, 1.0, 1.0, 0.0], 500), 2000  # 75% as it stands, 25% if liking drives rating
    corners = {"alike": Corner(y, 0 * y, np.ones(n)), "low, alike": Corner(y, 0 * y, np.where(y == 1, 1 / 9, 1.0))}
    evidence = SimpleNamespace(log=world.log, held=np.ones(n, bool), y=y, corners=corners)
    found = calibration(evidence, {"it": np.full(n, says)})
    assert found.answer == answer
    expected = f"Of left-out ratings it says {says:.0%} where 25% to 75% is found, depending on what drives seeing"
    assert found.meaning.startswith(expected)


def test_items_have_their_titles_and_people_letters_or_ids(world, model):
    titles = pa.array([f"Title {i}" if i % 2 else None for i in range(80)])
    log = replace(world.log, titles=titles)
    titled, plain = (replace(model, log=log) for _ in range(2))
    shown, with_ids = (lists(titled, plain, plain, show_ids=ids).table for ids in (False, True))
    named = {cell for row in shown.rows for cell in row[1:]}
    assert any(name.startswith("Title ") for name in named)
    assert {name for name in named if not name.startswith("Title ")} <= {str(i) for i in range(0, 80, 2)}
    assert [row[0] for row in shown.rows[::5]] == ["person A, 1", "person B, 1", "person C, 1"]
    assert with_ids.rows[0][0].split()[1].rstrip(",").isdigit()


def test_what_a_fit_knows_is_data_lists_and_steps(model):
    data, shown, steps = known_already(model)
    assert data.startswith(f"{len(model.log):,} ratings by 150 people on 80 items")
    assert shown.startswith("lists of 10 show")
    assert steps == "\n".join(f"- {step}" for step in str(model.history).splitlines())


def test_graded_logs_are_told_on_their_scale(world):
    log = unskew.RatingLog.from_arrays(
        world.log.users, world.log.items, 1 + 4 * world.log.ratings, positive=None, rating_scale=(1, 5)
    )
    found = unskew.make("naive").fit(log, training=QUICK).diagnose()
    assert 1 < found["bias"].numbers["over all pairs"].low < 5
    assert 1 < found["calibration"].numbers["says of left-out ratings"].value < 5
    assert not re.search(r"\d% (of what|is found|on average)|liked on average|is liked", found.text())


def test_residuals_of_the_correction_are_told_by_chance_and_by_group(world, found):
    rows = np.tile([0.01, 0.02, 200.0], (12, 1))
    rows[4], rows[11] = (-0.2, 0.02, 150.0), (0.9, 0.001, 5.0)
    residuals = {"off": rows, "even": np.tile([0.01, 0.02, 200.0], (15, 1)), "none": np.zeros((0, 3))}
    told = {
        name: with_residuals(found["calibration"], SimpleNamespace(residuals=each, applied=name == "off"))
        for name, each in residuals.items()
    }
    assert (
        ", which acts, the model is off most in tenth 5 of chances to be rated: ratings are 20.0 points lower"
        in told["off"].meaning
    )
    assert len(told["off"].table.rows) == 11  # five ratings tell nothing
    assert "(it does not act) the model is off by no more than chance" in told["even"].meaning
    assert told["even"].table.rows[-1][0] == "group 5 of people with like histories"
    assert told["none"] is found["calibration"]
    model = unskew.fit(world.log, seed=1, factors=unskew.BayesianFactors(sweeps=40, n_factors=2))
    assert "ratings" in model.diagnose()["calibration"].table.header
