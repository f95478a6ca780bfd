"""The benchmark of random ratings in worlds: its tables come from its records, and it resumes."""

import importlib
import sys
from pathlib import Path

import pytest

import unskew

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def slice_worlds(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    script = importlib.import_module("slice_worlds")
    tiny = {"n_users": 40, "n_items": 30, "density": 0.2, "n_factors": 2, "test_per_user": 5}
    bayes = unskew.NaiveBayes(base=unskew.Additive())
    methods = {"naive": unskew.Naive(), "trained": unskew.SNIPS(propensity=bayes)}
    fewer = {"SIZES": (20, 50), "SLICES": 2, "SELECTIONS": {"popularity": 0.5, "rating": 0.7}}
    for name, value in {"WORLD": tiny, "METHODS": methods, **fewer}.items():
        monkeypatch.setattr(script, name, value)
    monkeypatch.setattr(script, "TRAINING", unskew.Training(max_epochs=1, progress=False))
    yield script
    sys.modules.pop("slice_worlds")


def test_every_world_has_a_table_of_risks_by_size_and_a_second_run_reads_them(slice_worlds, tmp_path, capsys):
    asked = ["--seeds", "1", "--records", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "out.md")]
    slice_worlds.main(asked)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out.md").read_text()
    lines = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("|")]
    assert [len(line) for line in lines] == [4] * 2 * 4  # two worlds: heading, rule and two methods
    assert lines[3][1].strip() == ""  # the second cannot do without a slice
    slice_worlds.main(asked)
    assert capsys.readouterr().out == printed
