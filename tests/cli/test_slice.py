"""Random ratings and odds, by commands alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import Result

import unskew
from unskew.bench import curve_report

Run = Callable[..., Result]


def predictions(path: Path) -> list[float]:
    with path.open(newline="") as file:
        return [float(row["prediction"]) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def random_ratings(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test's ratings, and two of users whom the log does not know."""
    path = tmp_path_factory.mktemp("slice") / "random.csv"
    path.write_text((files / "test.csv").read_text() + "stranger,1,4\nnobody,2,1\n")
    return path


def test_fit_says_what_random_ratings_were_used_for(
    run: Run, files: Path, random_ratings: Path, tmp_path: Path
) -> None:
    words = ("fit", files / "ratings.csv", "--method", "naive", "--epochs", 2, "--unbiased", random_ratings)
    text = run(*words, "--out", tmp_path / "m").stdout
    model = unskew.load(tmp_path / "m")
    assert str(model.slice) in text
    assert "2 more are of users or items that the log does not know" in text
    facts = json.loads(run(*words, "--out", tmp_path / "m", "--json").stdout)
    assert facts["slice"]["n_unknown"] == 2
    assert [use["what"] for use in facts["slice"]["uses"]] == ["shift", "line", "experts"]


def test_a_curve_of_what_random_ratings_buy_is_written_and_told(
    run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("benchmark", files / "ratings.csv", "--test", files / "test.csv", "--on-unknown", "fallback")
    words += ("--methods", "naive", "--unbiased-curve", "--slices", "0,30", "--seeds", 2, "--epochs", 1)
    facts = json.loads(run(*words, "--out", tmp_path / "out", "--json").stdout)
    monkeypatch.setattr(curve_report, "figure_of", lambda curve: Figure())  # once is enough
    text = run(*words, "--out", tmp_path / "out").stdout
    assert "MSE with so many random ratings" in text
    assert f"{facts['points']['mse']['naive']['30']['mean']:.4f}" in text
    assert (tmp_path / "out" / "curve.png").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--unbiased-curve",), "give one of random pairs by --test"),
        (("--test", "test.csv", "--unbiased-curve", "--tune", 2), "leave --tune out"),
        (("--test", "test.csv", "--unbiased-curve", "--slices", "0,x"), "--slices 0,x must be numbers"),
        (("--test", "test.csv", "--unbiased-curve", "--slices", "0,2.5"), "must be whole numbers"),
        (("--test", "test.csv", "--unbiased-curve", "--slices", "0,nan"), "--slices 0,nan must be numbers"),
        (("--test", "test.csv", "--unbiased-curve", "--slices", "100000"), "ask for fewer"),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused(
    run: Run, files: Path, tmp_path: Path, words: tuple[object, ...], said: str
) -> None:
    given = tuple(files / word if word == "test.csv" else word for word in words)
    common = ("benchmark", files / "ratings.csv", "--methods", "naive", "--on-unknown", "fallback")
    assert said in run(*common, *given, "--out", tmp_path / "out", code=2).stderr
