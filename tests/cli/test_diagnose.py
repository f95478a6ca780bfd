"""unskew diagnose and its alias report: words, JSON, a page, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
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


def test_report_is_the_same_with_a_page_by_default(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", model)
    assert (tmp_path / "report.html").stat().st_size > 5000
    assert "is there already" in run("report", model, code=2).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere.csv",), "nowhere.csv"),
        (("model", "--positive", "3"), "--positive is for logs"),
        (("ratings.csv", "--out", "page.pdf"), "ends in none of .html"),
        (("few.csv",), "cannot judge anything"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: tuple[str, ...],
    sentence: str,
    run: Run,
    files: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    Path("few.csv").write_text("\n".join(Path("ratings.csv").read_text().splitlines()[:60]))
    text = run("diagnose", *words, "--quiet", code=2).stderr
    assert sentence in text
    assert len(text.strip().splitlines()) == 1
    assert not Path("page.pdf").exists()
