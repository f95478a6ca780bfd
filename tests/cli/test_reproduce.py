"""`unskew reproduce` from end to end, where nothing has to be fitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unskew.bench.measure import WORLD_SETTINGS

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"n_users": 30, "n_items": 20, "density": 0.3}.items():
        monkeypatch.setitem(WORLD_SETTINGS, name, value)


def test_a_table_of_data_is_written_and_shown(run: Run, tmp_path: Path) -> None:
    facts = json.loads(run("reproduce", "table3", "--dataset", "world", "--out", tmp_path / "made", "--json").stdout)
    assert facts[0]["scores"]["a simulated world"][0]["users"] == 30
    assert (tmp_path / "made" / "table3.md").exists()


def test_the_papers_numbers_stand_on_the_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("reproduce", "figure1", "--dataset", "world", "--out", tmp_path, "--seeds", 1, "--epochs", 1)
    shown = run(*words, "--only", "DR, both heuristic").stdout
    assert "Figure 1: What miscalibration costs doubly robust estimators (a simulated world)" in shown
    assert "bound (Theorem 2)" in shown
    assert (tmp_path / "figure1-bias-by-theorem_2.svg").exists()
