"""Findings on impressions: whether what was shown or clicked misleads, and whether a model corrects it."""

import re

import numpy as np
import pytest

import unskew
from unskew.datasets import simulate_funnel
from unskew.diagnosis.diagnose import known_already
from unskew.errors import DataError
from unskew.report.page import page


def funnel(link):
    return simulate_funnel(200, 50, 3000, click_rate=0.2, conversion_rate=0.25, random_share=0.0, link=link, seed=5)


@pytest.fixture(scope="module")
def log():
    return unskew.read_log(funnel(1.0).rows)


@pytest.fixture(scope="module")
def found(log):
    return unskew.diagnose(log)


def test_clicks_that_mislead_are_to_be_corrected_and_others_are_fine(found):
    assert (found.decision, found.subject, found["bias"].answer) == ("use", "log", "yes")
    world = funnel(1.0)
    users, items = (world.rows[name].to_numpy() for name in ("user_id", "item_id"))
    truth, numbers = world.chance_converted(users, items).mean(), found["bias"].numbers
    seen, shown = numbers["of what was clicked"].value, numbers["of everything shown"].value
    assert abs(shown - truth) < 0.5 * abs(seen - truth)
    assert unskew.diagnose(unskew.read_log(funnel(0.0).rows))["bias"].answer == "no"


def test_a_model_is_judged_by_the_latest_rows(log):
    model = unskew.make("naive").fit(log)
    judged = model.diagnose()
    assert "4,500 latest" in judged.about
    assert judged.decision == "test"  # it is plain training itself
    assert all(number.covers(0.0) for number in judged["gain"].numbers.values())
    compared = unskew.compare(unskew.make("naive").fit(log), model, log, names=("plain training", "this model"))
    assert judged["gain"] == compared.finding()  # one question, one answer
    rows = judged["calibration"].table.rows
    assert len(rows) == 10
    assert f"15,000 rows were shown, {len(log):,} clicked" in page(judged)
    stages = [row[:2] for row in judged["data"].chart.table.rows]
    assert stages == [("shown", 1.0), ("clicked", len(log) / 15_000), ("bought", log.ratings.sum() / 15_000)]
    for words in (
        "From shown to the outcome",
        "By policy: of what it shows",
        "By position: places multiply",
        "worst tenth",
    ):
        assert words in page(judged)
    assert len(judged["reach"].chart.table.rows) == len(judged["calibration"].chart.table.rows) == 10


def test_chances_of_clicks_follow_what_was_clicked(found):
    answers, clicked = (np.array([float(row[n].rstrip("%")) for row in found["reach"].table.rows]) for n in (1, 2))
    errors = np.sqrt(answers * (100 - answers) / 450)  # in points, of the tenths of 4,500 rows
    assert (((answers - clicked) / errors) ** 2).sum() < 29.6  # chi-square with 10 degrees, 0.1%
    assert (np.diff(answers) > 0).all()


OF_RATINGS = re.compile(r".*\b(?:rate|rated|ratings?|(?:dis)?lik(?:ed|es|ing))\b.*")
ASKED = {
    "click": ("shown", "clicked"),
    "conversion": ("clicked", "bought"),
    "click-and-conversion": ("shown", "bought"),
}


@pytest.mark.parametrize("target", ASKED)
def test_sentences_call_clicks_and_conversions_by_their_names(target):
    log, (seen, won) = unskew.read_log(funnel(1.0).rows, target=target), ASKED[target]
    model = unskew.make("naive").fit(log)
    lines = known_already(model)[:2]
    text = "\n".join([unskew.diagnose(log).text(), model.diagnose().text(), repr(log), *lines, *log.notes])
    assert f"of what was {seen} was {won}" in text
    assert not OF_RATINGS.findall(text)
    assert "15,000 rows were shown" in lines[0]


def test_random_rows_overrule_what_is_learned_of_all_pairs():
    world = simulate_funnel(200, 50, 3000, click_rate=0.2, random_share=0.2, decay=0.0, seed=5)
    log = unskew.read_log(world.rows, target="click")
    truth = world.chance_clicked(*np.indices((200, 50)).reshape(2, -1)).mean()
    found = unskew.diagnose(log, called=["shown.csv", "--target", "click"])
    level = found["bias"].numbers
    assert (found.decision, found["bias"].answer) == ("use", "yes")
    assert abs(level["of all pairs"].value - truth) < 0.3 * abs(level["of what was shown"].value - truth)
    assert f"by {len(log.random_test):,} random rows" in found.about
    assert level["of random rows"].value == pytest.approx(log.random_test.positive_rate)
    assert found.next_steps == ["unskew fit shown.csv --target click --out model"]
    keys = [one.key for one in unskew.make("naive").fit(log).diagnose()]
    assert keys == ["data", "bias", "gain", "calibration", "lists", "reach"]


def test_positive_rows_alone_judge_nothing(log):
    log = unskew.read_log(funnel(1.0).rows, target="implicit")
    for judge in (unskew.diagnose, lambda log: unskew.estimate_risk(lambda u, i: np.ones(len(u)), log)):
        with pytest.raises(DataError, match="positive rows alone"):
            judge(log)
