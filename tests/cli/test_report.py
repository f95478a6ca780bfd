"""unskew report: of a model and of a benchmark, and one sentence for whatever is neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)


def test_a_model_becomes_a_page(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ("report", model, "--out", out, "--propensity", "additive", "--random-ratings", files / "test.csv")
    told = run(*words, "--duplicates", "last")
    assert "random ratings: RatingLog(" in told.stderr
    assert f"wrote the report to {out}" in told.stdout
    page = out.read_text()
    assert "Report on a model by <strong>ips" in page
    assert "On random ratings" in page


def test_a_benchmark_becomes_a_page(run: Run, files: Path, tmp_path: Path) -> None:
    quick = ("--methods", "naive,eib", "--seeds", 2, "--epochs", 1)
    run("benchmark", files / "ratings.csv", "--out", tmp_path / "results", *quick)
    run("report", tmp_path / "results", "--out", tmp_path / "benchmark.html")
    page = (tmp_path / "benchmark.html").read_text()
    assert "Report on a benchmark of 2 methods" in page
    run("report", tmp_path / "results", "--random-ratings", files / "test.csv", "--out", tmp_path / "x.html", code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("none", "--out", "r.html"), "none does not exist: give a folder that `unskew fit`"),
        (("ratings.csv", "--out", "r.html"), "neither a model nor the records of a benchmark"),
        (("model", "--out", "r.pdf"), "r.pdf ends in none of .html, .htm"),
        (("model", "--out", "no/r.html"), "the folder no does not exist"),
        (("model", "--out", "r.html", "--propensity", "aditive"), "did you mean 'Additive'?"),
        (("model", "--out", "r.html", "--random-ratings", "none.csv"), "none.csv does not exist"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: tuple[str, ...], sentence: str, run: Run, files: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    text = run("report", *words, code=2).stderr
    assert sentence in text
    assert len(text.strip().splitlines()) == 1
    assert not (files / "r.html").exists()


def test_without_a_name_the_page_is_report_html_which_is_not_replaced(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "wrote the report to report.html" in run("report", model, "--propensity", "additive").stdout
    assert "report.html is there already: name a file by --out" in run("report", model, code=2).stderr
