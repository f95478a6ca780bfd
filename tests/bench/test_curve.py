"""What random ratings buy, on a tiny world: what is learned from, what is judged by, and that a run goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest

import unskew
from unskew.bench import Exam, unbiased_curve
from unskew.bench.curve import drawn
from unskew.bench.curve_report import figure_of, grids_of, publish
from unskew.bench.protocol import RECORDS
from unskew.errors import ParameterError

SIZES, DRAWS = (0, 20, 60), 3
METHODS = {"naive": unskew.Naive()}


@pytest.fixture(scope="module")
def exam(world, judging):
    return Exam(log=world.log, test=world.test, training=judging.training, world=world)


@pytest.fixture(scope="module")
def finished(exam, tmp_path_factory):
    out = tmp_path_factory.mktemp("curve")
    return out, unbiased_curve(exam, METHODS, out, sizes=SIZES, draws=DRAWS)


def pairs(log):
    return set(zip(log.users.tolist(), log.items.tolist(), strict=True))


def test_slices_of_a_draw_grow_and_are_never_judged_by(exam):
    small, large = (drawn(exam, size, 60, draw=1) for size in (20, 60))
    assert pairs(small.unbiased) < pairs(large.unbiased)
    assert pairs(small.test) == pairs(large.test) == pairs(exam.test) - pairs(large.unbiased)
    assert drawn(exam, 0, 60, draw=1).unbiased is None
    assert pairs(drawn(exam, 60, 60, draw=2).unbiased) != pairs(large.unbiased)


def test_a_point_is_what_a_fit_with_the_slice_scores_on_the_rest(exam, finished):
    _, curve = finished
    scores = []
    for draw in range(DRAWS):
        given = drawn(exam, 60, 60, draw)
        model = unskew.Naive().fit(exam.log, seed=draw, training=exam.training, unbiased=given.unbiased)
        scores.append(unskew.evaluate(model, given.test)["mse"])
    point = curve.points["mse"]["naive"][60]
    assert point.mean == pytest.approx(np.mean(scores))
    assert point.sd == pytest.approx(np.std(scores, ddof=1))
    without = curve.points["mse"]["naive"][0]
    assert point.against_none.difference == pytest.approx(point.mean - without.mean)
    assert {"true_risk", "auc"} <= curve.points.keys()
    assert curve.n_judged == len(exam.test) - 60


def test_a_finished_curve_is_read_from_its_records(exam, finished, monkeypatch):
    out, curve = finished
    records = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    assert len(records) == len(SIZES) * DRAWS
    assert "prediction: shift" in next(r for r in records if r["recipe"]["unbiased"] == 60)["values"]["trust"]
    monkeypatch.setattr(unskew.Naive, "fit", None)
    assert unbiased_curve(exam, METHODS, out, sizes=SIZES, draws=DRAWS) == curve


def test_the_curve_is_tabled_and_drawn(exam, finished):
    out, curve = finished
    publish(curve, exam, out, ("About.",))
    assert {path.suffix for path in out.glob("curve.*")} == {".csv", ".md", ".tex", ".html", ".svg", ".png"}
    rows = (out / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + len(SIZES) * len(curve.points)
    means, changes = grids_of(curve, "mse")
    assert [cell.text for cell in means.rows[0]][1] == str(curve.points["mse"]["naive"][0])
    assert len(changes.rows[0]) == len(SIZES)
    assert "judged on the same 180 test ratings" in (out / "curve.md").read_text()
    assert len(figure_of(curve).axes) == 5


@pytest.mark.parametrize(("sizes", "said"), [((-1, 5), "not below 0"), ((0, 9999), "ask for fewer")])
def test_slices_that_cannot_be_taken_are_refused(exam, tmp_path, sizes, said):
    with pytest.raises(ParameterError, match=said):
        unbiased_curve(exam, METHODS, tmp_path, sizes=sizes, draws=1)
