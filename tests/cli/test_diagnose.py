"""unskew diagnose: words, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Run = Callable[..., Result]


def test_a_log_is_diagnosed_in_words_and_as_json(run: Run, files: Path) -> None:
    text = run("diagnose", files / "ratings.csv").stdout
    assert text.split("\n\n")[1].split(".")[0] in ("CORRECT IT", "CANNOT TELL", "PLAIN IS FINE")
    facts = json.loads(run("diagnose", files / "ratings.csv", "--json").stdout)
    assert facts["subject"] == "log"
    assert [one["key"] for one in facts["findings"]] == ["data", "bias", "reach", "assumption"]


def test_a_model_becomes_a_page(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    text = run("diagnose", model, "--random-ratings", files / "test.csv", "--out", page).stdout
    assert f"wrote the page to {page}" in text
    html = page.read_text()
    assert "How far to trust this page" in html
    assert f"unskew diagnose {model} --random-ratings" in html
