"""Every target on a tiny world: what is written, that fits are shared and kept, and what becomes of a failure."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import unskew
from unskew.bench import paper
from unskew.bench.paper import TARGETS, reproduce, suite
from unskew.bench.protocol import RECORDS
from unskew.bench.run import warm_up
from unskew.errors import DataError

FEW = {  # of each target, to be quick: every method has tests of its own
    "table1": ("Naive", "DR-JL", "DCE-DR"),
    "table2": ("Naive", "DR-JL", "DCE-DR"),
    "figure1": ("DR, both heuristic", "DR-JL", "DCE-DR (calibrated)", "TDR, heuristic imputation"),
    "figure2": ("DR-JL", "DCE-DR", "base rate only", "random assignment"),
    "figure3": ("DCE-DR, K = 1", "DCE-DR, K = 2"),
}
CHARTS = {
    "table1": ["mse", "auc", "ndcg-5", "ndcg-10", "true_risk"],
    "table2": ["seconds", "parameters"],
    "table3": [],
    "figure1": ["mse-by-imputation_ece", "auc-by-propensity_ece", "bias-by-theorem_2"],
    "figure2": ["propensity_ece", "propensity_ece_mass", "imputation_ece", "mse", "auc", "ndcg-5", "true_risk"],
    "figure3": ["mse-by-experts", "auc-by-experts", "ndcg-5-by-experts"],
}
PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.py"


@pytest.fixture(scope="module")
def made(world, tmp_path_factory):
    """All targets, one after the other, into one folder."""
    out = tmp_path_factory.mktemp("made")
    return out, {target: again(target, world, out) for target in TARGETS}


def again(target, here, out, **changes):
    settings = {"dataset": "world", "seeds": 1, "max_epochs": 1, "world": here, "about": ["A tiny world."]} | changes
    return reproduce(target, here.log, here.test, out, **{"only": FEW.get(target, ())} | settings)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_becomes_data_charts_and_a_page(made, target):
    one = made[1][target]
    names = [f"{target}.csv", f"{target}.md", *(f"{target}-{chart}.svg" for chart in CHARTS[target])]
    assert [path.name for path in one.files] == names
    data, page, *charts = (path.read_text() for path in one.files)
    lines = list(csv.DictReader(data.splitlines()))
    assert {line["entry"] for line in lines} == set(FEW.get(target, ["a simulated world"]))
    assert all(line["mean"] for line in lines)
    assert all(ElementTree.fromstring(chart).tag.endswith("svg") for chart in charts)
    assert all(f"({name})" in page for name in names[2:])
    assert "Kweon" in page
    assert "A tiny world." in page
    assert not one.failures


def test_targets_share_fits_and_a_second_run_fits_nothing(made, world, monkeypatch):
    out, _ = made
    keys = [json.loads(line)["key"] for line in (out / RECORDS).read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 3 + 0 + 2 + 2 + 2
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(unskew.DRJL, "fit", None)
    again("table2", world, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_statistics_are_those_of_log_and_test(made, world):
    (counted,) = made[1]["table3"].scores["a simulated world"]
    assert (counted["users"], counted["items"], counted["train"], counted["test"]) == (40, 30, len(world.log), 240)
    assert counted["density"] == len(world.log) / 1200
    assert counted["liked_in_test"] == pytest.approx(world.test.ratings.mean())


def test_a_method_that_fails_keeps_its_line_and_the_papers(world, tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise DataError("No.")

    warm_up()  # which fits a DRJL, once a process
    monkeypatch.setattr(unskew.DRJL, "fit", refuse)
    one = again("table1", world, tmp_path, dataset="coat", world=None, only=("Naive", "DR-JL"))
    page = (tmp_path / "table1.md").read_text()
    assert one.failures == {"fit/dr-jl/0": "No."}
    assert "| DR-JL | – | 0.2302 ± 0.0013 |" in page
    assert "Failed: fit/dr-jl/0: No." in page
    assert "0.2547" in one.table().text()


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the repository's benchmarks/published.py")
def test_as_published_has_its_own_files_and_training(world, tmp_path, monkeypatch):
    naive, dce = suite("table1").entries[0], suite("table1").entries[-2]
    dce = replace(dce, published={"method": "drjl-published"})  # instead of the slower one
    monkeypatch.setattr(paper, "suite", lambda target: replace(suite(target), entries=(naive, dce)))
    again("table1", world, tmp_path, dataset="coat", world=None, as_published=True, only=())
    page = (tmp_path / "table1-as-published.md").read_text()
    assert "holdout_by='last', batch_size=128" in page
    rows = csv.DictReader((tmp_path / "table1-as-published.csv").read_text().splitlines())
    assert {row["released"] for row in rows if row["entry"] == "DCE-DR"} == {"0.2163", "0.7376", "0.6579", "0.7246"}
    records = [json.loads(line)["recipe"] for line in (tmp_path / RECORDS).read_text().splitlines()]
    assert {record["training"]["holdout_by"] for record in records} == {"last"}
    assert {record["method"]["kind"] for record in records} == {"Naive", "DRJLPublished"}
