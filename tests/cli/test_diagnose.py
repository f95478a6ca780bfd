"""unskew diagnose: of a log and of a model, as text, as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
QUICK = ("--epochs", 1)


@pytest.fixture(autouse=True)
def _few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)


def test_a_log_is_diagnosed_in_words_and_then_in_figures(run: Run, files: Path, tmp_path: Path) -> None:
    words = ("diagnose", files / "ratings.csv", "--propensity", "additive", *QUICK)
    text = run(*words, "--random-ratings", files / "test.csv", "--plot", tmp_path / "curves.png").stdout
    assert text.index("Is debiasing needed?") < text.index("Figures")
    assert "random ratings" in text
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_is_diagnosed_as_json(run: Run, model: Path) -> None:
    data = json.loads(run("diagnose", model, "--json", *QUICK).stdout)
    assert "a model by IPS, with its own propensities" in data["subject"]
    assert {verdict["level"] for verdict in data["verdicts"]} <= {"fine", "caution", "problem"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("none.csv",), "none.csv does not exist"),
        (("no-model",), "no-model does not exist: check the path"),
        (("ratings.csv", "--propensity", "aditive"), "did you mean 'Additive'?"),
        (("ratings.csv", "--plot", "curves.jpg"), "ends in none of .png"),
        (("ratings.csv", "--random-ratings", "coat:x"), "random ratings are its test"),
        (("model", "--positive", "4"), "a model knows its own scale"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: tuple[str, ...], sentence: str, run: Run, files: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    text = run("diagnose", *words, "--quiet", code=2).stderr
    assert sentence in text
    assert len(text.strip().splitlines()) == 1
