"""The demo: its numbers are the library's, its words follow from them, its picture shows them."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import unskew
from unskew.bench import demo
from unskew.bench.demo import Demo, believed_error
from unskew.cli import app
from unskew.evaluation import judge
from unskew.evaluation.scores import judged
from unskew.losses.batch import Parts


def words(*rows, decision="use"):
    return Demo(0, "", 0.6, 0.4, 0.1, rows, decision, "It is better.").sentences()


def test_a_believed_error_weighs_by_clipped_propensities():
    log = unskew.RatingLog.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [5, 1, 1, 5])
    error, p = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.25, 0.01, 1.0])
    model = SimpleNamespace(
        fitted_on="train",
        split=SimpleNamespace(holdout=log),
        predict_codes=lambda users, items: np.abs(log.ratings - np.sqrt(error)),
        scores=lambda role, users, items: p,
        parts=Parts({"prediction": 0, "propensity": 0}, clips={"propensity": 0.1}),
    )
    weight = 1 / np.array([0.5, 0.25, 0.1, 1.0])
    assert believed_error(model) == pytest.approx((weight * error).sum() / weight.sum())
    model.parts = Parts({"prediction": 0})
    assert believed_error(model) == pytest.approx(error.mean())


def test_what_learns_from_all_ratings_believes_in_those_left_out_in_turn():
    log = unskew.simulate(60, 40, density=0.3, seed=1).log
    model = unskew.Naive().fit(log, training=unskew.Training(max_epochs=2, progress=False))
    evidence = judge.gather(log)
    error = (judged(model, evidence, "it") - evidence.y)[evidence.held] ** 2
    assert len(error) == len(log)
    assert believed_error(replace(model, fitted_on="all")) == pytest.approx(error.mean())


def test_the_demo_shows_what_the_library_finds(monkeypatch, tmp_path):
    tiny = demo.WORLD | {"n_users": 60, "n_items": 40, "density": 0.2}
    monkeypatch.setattr(demo, "WORLD", tiny)
    monkeypatch.setattr(demo, "METHODS", {"Naive": unskew.Naive(), "EIB": unskew.EIB()})
    found = CliRunner().invoke(app, ["demo", "--seed", "3", "--out", str(tmp_path / "demo.svg")])
    assert found.exit_code == 0, found.output
    facts = json.loads(CliRunner().invoke(app, ["demo", "--seed", "3", "--json"]).stdout)
    world = unskew.simulate(**tiny, seed=3)
    naive = unskew.Naive().fit(world.log, seed=3, training=unskew.Training(progress=False))
    assert facts["rows"][0]["true"] == pytest.approx(world.risk(naive.predict_codes))
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    test = unskew.RatingLog.from_arrays(users, items, world.rating(users, items), positive=1)
    order = unskew.evaluate(naive.predict_codes(users, items), test)["user_auc"]
    assert facts["rows"][0]["order"] == pytest.approx(order)
    assert facts["liked_in_log"] > facts["liked_in_world"]
    for row in facts["rows"]:
        line = next(line for line in found.stdout.splitlines() if line.startswith(f"{row['method']}  "))
        assert all(f"{row[name]:.4f}" in line for name in ("believed", "true"))
    assert all(sentence in found.stdout for sentence in facts["sentences"])
    assert ElementTree.parse(tmp_path / "demo.svg").getroot().get("role") == "img"


def test_the_first_page_shows_what_the_demo_finds():
    page = (Path(__file__).parents[2] / "docs/index.md").read_text()
    facts = json.loads(CliRunner().invoke(app, ["demo", "--json"]).stdout)
    rows = [line.replace("*", "").strip("| \n").split(" | ") for line in page.splitlines() if line.count(" | ") == 3]
    shown = {name: [float(x.rstrip("%")) / (100 if "%" in x else 1) for x in cells] for name, *cells in rows[1:]}
    found = {row["method"]: [row[key] for key in ("believed", "true", "order")] for row in facts["rows"]}
    assert list(shown) == list(found)
    for name, cells in shown.items():
        assert cells == pytest.approx(found[name], abs=1e-3), name
