"""Every target on a tiny world: what is written, that fits are shared and kept, and what becomes of a failure."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import unskew
from unskew.bench.measure import warm_up
from unskew.bench.protocol import RECORDS
from unskew.errors import DataError
from unskew.metrics.calibration import calibration_error
from unskew.reproduce import TARGETS, reproduce, run
from unskew.reproduce.exam import CalibrationExam
from unskew.reproduce.rows import Found, Row, heading, places
from unskew.reproduce.suite import suite

FEW = {  # of each target, to be quick: every method has tests of its own
    "table1": {"Naive", "DR-JL", "DCE-DR"},
    "table2": {"Naive", "DR-JL", "DCE-DR"},
    "figure1": {"DR, both heuristic", "DR-JL", "DCE-DR (calibrated)", "TDR, heuristic imputation"},
    "figure2": {"DR-JL", "DCE-DR", "base rate only", "random assignment"},
    "figure3": {"DCE-DR, K = 1", "DCE-DR, K = 2"},
}
PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.py"


def small(target):
    whole = suite(target)
    return replace(whole, entries=tuple(entry for entry in whole.entries if entry.name in FEW.get(target, ())))


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(40, 30, density=0.3, test_per_user=8, seed=4)


@pytest.fixture(scope="module")
def made(world, tmp_path_factory):
    """All targets, one after the other, into one folder."""
    out = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "suite", small)
        yield out, {target: again(target, world, out) for target in TARGETS}


def again(target, here, out, **changes):
    settings = {"dataset": "world", "seeds": 1, "max_epochs": 1, "world": here, "about": ["A tiny world."]} | changes
    return reproduce(target, here.log, here.test, out, **settings)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_becomes_data_a_picture_and_a_page(made, target):
    one = made[1][target]
    assert [path.name for path in one.files] == [f"{target}.{ending}" for ending in ("csv", "svg", "png", "md", "html")]
    data, svg, png, text, page = (path.read_bytes() for path in one.files)
    lines = list(csv.DictReader(data.decode().splitlines()))
    assert {line["entry"] for line in lines} == {row.name for row in one.rows}
    assert all(line["mean"] for line in lines)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert png.startswith(b"\x89PNG")
    assert f"({target}.svg)" in text.decode()
    assert "Kweon" in text.decode()
    assert "A tiny world." in text.decode()
    assert "<svg" in page.decode()
    assert not one.failures


def test_targets_share_the_fits_they_have_in_common_and_a_second_run_fits_nothing(made, world, monkeypatch):
    out, _ = made
    keys = [json.loads(line)["key"] for line in (out / RECORDS).read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 3 + 0 + 2 + 2 + 2
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(run, "suite", small)
    monkeypatch.setattr(unskew.DRJL, "fit", None)
    again("table2", world, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_statistics_are_those_of_log_and_test(made, world):
    (row,) = made[1]["table3"].rows
    counted = {name: found.mean for name, found in row.found.items()}
    assert (counted["users"], counted["items"], counted["train"], counted["test"]) == (40, 30, len(world.log), 320)
    assert counted["density"] == len(world.log) / 1200
    assert counted["liked_in_test"] == pytest.approx(world.test.ratings.mean())


def test_calibration_errors_are_over_all_pairs_and_over_the_test(world):
    training = unskew.Training(max_epochs=1, progress=False)
    model = unskew.DRJL(propensity=unskew.Additive()).fit(world.log, training=training)
    marks = CalibrationExam(log=world.log, test=world.test, training=training, cutoffs=(3, 7)).marks(model)
    assert {"ndcg@3", "ndcg@7"} <= marks["test"].keys()
    found = marks["calibration"]
    users, items = np.divmod(np.arange(1200), 30)
    seen = np.zeros(1200)
    seen[world.log.users * 30 + world.log.items] = 1
    assert found["propensity_ece"] == calibration_error(seen, model.propensity(users, items))
    test = world.test
    said = model.imputation(test.users, test.items)
    assert found["imputation_ece"] == pytest.approx(calibration_error(test.ratings, said))
    naive = unskew.Naive().fit(world.log, training=training)
    assert CalibrationExam(log=world.log, test=world.test, training=training).marks(naive)["calibration"] == {}


def test_a_method_that_fails_keeps_its_line_and_its_reason(world, tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise DataError("No.")

    monkeypatch.setattr(run, "suite", lambda target: replace(small(target), entries=small(target).entries[:2]))
    warm_up()  # which fits a DRJL, once a process
    monkeypatch.setattr(unskew.DRJL, "fit", refuse)
    one = again("table1", world, tmp_path, dataset="coat", world=None)
    page = (tmp_path / "table1.md").read_text()
    assert one.failures == {"fit/dr-jl/0": "No."}
    assert "| DR-JL | – | 0.2302 ± 0.0013 |" in page
    assert "Failed: fit/dr-jl/0: No." in page


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the repository's benchmarks/published.py")
def test_as_published_has_its_own_files_training_and_comparison_with_the_released_code(world, tmp_path, monkeypatch):
    naive, dce = suite("table1").entries[0], suite("table1").entries[-2]
    dce = replace(dce, published={"method": "drjl-published"})  # instead of the slower one
    monkeypatch.setattr(run, "suite", lambda target: replace(suite(target), entries=(naive, dce)))
    again("table1", world, tmp_path, dataset="coat", world=None, as_published=True)
    page = (tmp_path / "table1-as-published.md").read_text()
    assert "holdout\\_by='last', batch\\_size=128" in page
    assert "| DCE-DR, MSE ↓ | 0.2163 |" in page
    records = [json.loads(line)["recipe"] for line in (tmp_path / RECORDS).read_text().splitlines()]
    assert {record["training"]["holdout_by"] for record in records} == {"last"}
    assert {record["method"]["kind"] for record in records} == {"Naive", "DRJLPublished"}


def test_places_follow_the_arrow_and_leave_out_what_is_not_ranked():
    means = (0.3, 0.1, None)
    rows = [Row("any", dict.fromkeys(("mse", "auc", "seconds"), Found(mean))) for mean in means]
    assert [list(places(rows, quantity)) for quantity in rows[0].found] == [[2, 1, 0], [1, 2, 0], [0, 0, 0]]
    assert [heading(name) for name in ("mse", "auc", "seconds")] == ["MSE ↓", "AUC ↑", "seconds"]
    assert heading("ndcg@50") == "nDCG@50 ↑"
