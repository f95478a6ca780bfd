"""The demo: its numbers, its one sentence, its files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import unskew
from unskew import demo
from unskew.demo import Demo, Row, claimed_risk, in_words, propensity_errors
from unskew.losses.batch import Parts

Run = Callable[..., Result]

NAIVE = Row("Naive", claimed_risk=0.20, true_risk=0.25, mse=0.25, auc=0.70, ndcg_at_5=0.5)
IPS = Row("IPS", claimed_risk=0.22, true_risk=0.23, mse=0.23, auc=0.69, ndcg_at_5=0.5, propensity_error=0.01)
ORACLE = Row("IPS with true propensities", 0.21, 0.21, 0.21, 0.71, 0.5, 0.0, is_oracle=True)


def told(*rows: Row) -> str:
    return in_words(Demo(seed=0, log="", liked_in_log=0.6, liked_in_world=0.4, least_risk=0.1, rows=rows))


def test_the_sentence_says_that_a_correction_helped_and_what_it_cost() -> None:
    assert told(NAIVE, IPS, ORACLE) == (
        "From its own log Naive expects an error of 0.2000, and over the whole world it is 0.2500 (25.0% more); "
        "IPS brings that down to 0.2300 (8.0% less) and, having expected 0.2200, is off by 0.0100 where Naive was "
        "off by 0.0500; it orders random pairs worse (AUC 0.6900 against 0.7000); "
        "the error of IPS with true propensities is 0.2100."
    )


def test_the_sentence_says_so_if_the_correction_does_not_help() -> None:
    text = told(NAIVE, replace(IPS, true_risk=0.26), ORACLE)
    assert "IPS does not beat it, with an error of 0.2600 (4.0% more)," in text
    assert "brings" not in text


def test_the_sentence_calls_equal_what_looks_equal() -> None:
    same = replace(IPS, true_risk=0.25 - 1e-6, auc=0.70 + 1e-6)
    text = told(replace(NAIVE, claimed_risk=0.25), same)
    assert "over the whole world it is 0.2500 (the same)" in text
    assert "does not beat it, with an error of 0.2500 (the same)" in text
    assert "orders random pairs equally well" in text


def test_the_sentence_says_so_if_the_log_is_too_gloomy_and_the_order_better() -> None:
    text = told(replace(NAIVE, claimed_risk=0.5), replace(IPS, auc=0.8))
    assert "expects an error of 0.5000, and over the whole world it is 0.2500 (50.0% less)" in text
    assert "orders random pairs better (AUC 0.8000 against 0.7000)" in text


def test_the_sentence_speaks_of_the_best_correction_and_never_of_an_oracle() -> None:
    text = told(NAIVE, IPS, replace(IPS, method="DR", true_risk=0.22), ORACLE)
    assert "the best of 2 corrections, DR, brings that down to 0.2200" in text


def test_the_claimed_risk_weights_errors_by_clipped_propensities() -> None:
    log = unskew.RatingLog.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [5, 1, 1, 5])
    error, p = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.25, 0.01, 1.0])
    predicted = np.abs(log.ratings - np.sqrt(error))
    model: Any = SimpleNamespace(
        predict_codes=lambda users, items: predicted,
        propensity=lambda users, items: p,
        parts=Parts({"prediction": 0, "propensity": 0}, clips={"propensity": 0.1}),
    )
    weight = 1 / np.array([0.5, 0.25, 0.1, 1.0])
    assert claimed_risk(model, log) == pytest.approx((weight * error).sum() / weight.sum())
    model.parts = Parts({"prediction": 0})
    assert claimed_risk(model, log) == pytest.approx(error.mean())


def test_propensity_errors_are_of_the_propensities_in_use_and_before_calibration() -> None:
    world = unskew.simulate(30, 25, density=0.3)

    def always(p: float) -> Callable[[Any, Any], Any]:
        return lambda users, items: np.full(len(users), p)

    parts = Parts({"propensity": SimpleNamespace(pair=always(0.9))})
    model: Any = SimpleNamespace(propensity=always(0.3), parts=parts, part=parts.parts.get)
    used, raw = world.propensity_error(always(0.3)), world.propensity_error(always(0.9))
    assert propensity_errors(model, world) == (used, None)
    parts.calibrators = {"propensity": "propensity calibrator"}
    assert propensity_errors(model, world) == (used, raw)


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world and methods that take a second."""
    monkeypatch.setattr(demo, "WORLD_SETTINGS", {"n_users": 60, "n_items": 40, "density": 0.2, "strength": 1.0})
    everybody = demo.contestants

    def quick(world: unskew.World) -> tuple[demo.Contestant, ...]:
        return tuple(replace(c, method=light(c.method)) if not c.is_oracle else c for c in everybody(world))

    def light(method: unskew.Method) -> unskew.Method:
        if isinstance(method, unskew.DoublyCalibrated):
            return replace(method, base=light(method.base))
        return replace(method, propensity=unskew.Additive()) if hasattr(method, "propensity") else method

    monkeypatch.setattr(demo, "contestants", quick)


@pytest.mark.usefixtures("small_world")
def test_the_rows_are_what_the_library_says_of_each_method() -> None:
    found = demo.run(seed=3)
    names = ["Naive", "IPS", "IPS with true propensities", "DR-JL", "DCE-DR", "DCE-TDR", "DCE-Bayes"]
    assert [row.method for row in found.rows] == names
    assert [row.uncalibrated_propensity_error is not None for row in found.rows] == [False] * 4 + [True] * 2 + [False]
    world = unskew.simulate(60, 40, 0.2, strength=1.0, seed=3)
    naive = unskew.Naive().fit(world.log, seed=3)
    assert found.rows[0].true_risk == pytest.approx(world.risk(naive.predict_codes))
    assert found.rows[0].propensity_error is None
    assert found.rows[1].propensity_error == pytest.approx(
        world.propensity_error(unskew.Additive().fit(world.log).pair), abs=1e-6
    )
    assert found.rows[2].propensity_error == pytest.approx(0, abs=1e-6)
    assert all(found.least_risk < row.true_risk < 1 for row in found.rows)
    assert found.liked_in_log > found.liked_in_world


@pytest.mark.usefixtures("small_world")
def test_the_command_shows_one_table_and_writes_it_with_a_picture(run: Run, tmp_path: Path) -> None:
    text = run("demo", "--seed", 1, "--out", tmp_path / "new" / "demo").stdout
    with (tmp_path / "new/demo/demo.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    facts = json.loads((tmp_path / "new/demo/demo.json").read_text())
    assert facts["in_words"] in text
    for row, same in zip(rows, facts["rows"], strict=True):
        line = next(line for line in text.splitlines() if line.startswith(f"{row['method']}  "))
        for name in ("claimed_risk", "true_risk", "mse", "auc", "ndcg_at_5"):
            assert float(row[name]) == pytest.approx(same[name])
            assert f"{same[name]:.4f}" in line.split()
    assert f"{facts['liked_in_log']:.1%} of the ratings in the log" in text
    assert (tmp_path / "new/demo/demo.png").read_bytes().startswith(b"\x89PNG")
