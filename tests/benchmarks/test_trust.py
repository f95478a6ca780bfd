"""The benchmark of estimators, intervals and the test for selection: what it prints comes from its records."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "benchmarks"


def script(name):
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


trust, semisynthetic = map(script, ("trust", "semisynthetic"))


def test_it_prints_all_tables_and_resumes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trust, "ESTIMATED", trust.unskew.Popularity())
    file, out = tmp_path / "t.jsonl", tmp_path / "t.md"
    few = ["--replications", "2", "--draws", "1", "--nulls", "1", "--size", "60", "80"]
    asked = [*few, "--records", str(file), "--out", str(out)]
    trust.main(asked)
    printed = capsys.readouterr().out
    assert out.read_text() == printed
    records = {record["key"]: record["values"] for record in map(json.loads, file.read_text().splitlines())}
    assert len(records) == 2 * 2 + 1 + 2
    hits = [records[f"coverage/taste/{seed}"]["true dr mse covered"] for seed in range(2)]
    assert f"| dr | true | {np.mean(hits):.1%} (" in printed
    assert f"| calibrated DR | {records['table/0']['log_loss ONE calibrated DR']:.4f} ± 0.0000 |" in printed
    lines = file.read_text()
    trust.main(asked)
    assert file.read_text() == lines
    assert capsys.readouterr().out == printed


def test_the_matrix_has_the_rates_and_predictions_of_the_literature():
    level = semisynthetic.levels((60, 80))
    shares = np.bincount(level) / len(level)
    np.testing.assert_allclose(shares, semisynthetic.SHARES, atol=1e-3)
    made = semisynthetic.predictions(level, np.random.default_rng(0))
    assert tuple(made) == semisynthetic.PREDICTIONS
    q = semisynthetic.RATES[level]
    highest = int((level == 4).sum())
    for name, number in (("ONE", 0), ("THREE", 1), ("FIVE", 2)):
        changed = made[name] != q
        assert changed.sum() == highest
        assert set(level[changed]) == {number}
    assert set(made["CRS"]) == {0.1, 0.5}
