"""Findings on impressions: whether clicks mislead, and whether a model corrects it, in funnels that are known."""

import numpy as np
import pytest

import unskew
from unskew.datasets import simulate_funnel
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
    assert np.abs(answers - clicked).max() < 4
    assert (np.diff(answers) > 0).all()
