"""The benchmark of selection on utility: its tables come from its records, and it resumes."""

import importlib
import sys
from pathlib import Path

import pytest

import unskew

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def utility():
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    script = importlib.import_module("utility")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "WORLD", {"n_users": 60, "n_items": 40, "density": 0.15, "n_factors": 2})
        patch.setattr(script, "TRAINING", unskew.Training(max_epochs=2, progress=False))
        patch.setattr("unskew.propensity.utility.FOLDS", ((10**9, 2),))
        patch.setattr("unskew.propensity.utility.SMALL_LOG", 0)
        yield script


@pytest.mark.parametrize(("part", "rows"), [("worlds", 4), ("risks", 10), ("taste", 3), ("slice", 4)])
def test_every_part_prints_a_row_for_each_world_and_resumes(utility, part, rows, tmp_path, capsys, monkeypatch):
    asked = ["--part", part, "--seeds", "1", "--records", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "out.md")]
    if part == "slice":  # without evidence there is no k to estimate
        monkeypatch.setattr(utility, "slice_world", None)
        values = {"alone": 0.2, "with_slice": 0.19, "used": 1.0, "low": 0.0, "high": 1.5}
        parts = utility.PARTS | {"slice": (utility.UNEXPLAINED, _known(values), "unexplained", utility.slice_table)}
        monkeypatch.setattr(utility, "PARTS", parts)
    utility.main(asked)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out.md").read_text()
    lines = [line for line in printed.split("\n\n")[0].splitlines() if line.startswith("|")]
    assert len(lines) == rows + 2
    utility.main(asked)
    assert capsys.readouterr().out == printed


def _known(values):
    def work(_, *, unexplained, seed):
        return values

    return work


def test_coat_is_fitted_by_every_method_and_asked_once_each(utility, tmp_path, capsys, monkeypatch):
    world = unskew.simulate(n_users=60, n_items=40, density=0.2, test_per_user=5, seed=1)
    data = unskew.datasets.Dataset("coat", world.log, world.test, None, ())
    monkeypatch.setattr(unskew.datasets, "coat", lambda folder: data)
    monkeypatch.setattr(utility, "COAT", {"naive": unskew.Naive(), "naive-utility": unskew.make("naive-utility")})
    utility.main(["--coat", "anywhere", "--seeds", "1", "--records", str(tmp_path / "c.jsonl")])
    printed = capsys.readouterr().out
    assert printed.count("\n| naive") == 2
