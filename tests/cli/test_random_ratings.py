"""Random ratings, by commands alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unskew

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
    words = (
        "fit",
        files / "ratings.csv",
        "--method",
        "naive",
        "--set",
        "training.max_epochs=2",
        "--random-ratings",
        random_ratings,
    )
    text = run(*words, "--out", tmp_path / "m").stdout
    model = unskew.load(tmp_path / "m")
    assert " ".join(str(model.random_ratings).split()) in text
    assert "2 more are of users or items that the log does not know" in text
    facts = json.loads(run(*words, "--out", tmp_path / "m", "--json").stdout)
    assert facts["random_ratings"]["n_unknown"] == 2
    assert [each["kind"] for each in facts["random_ratings"]["corrections"]] == ["shift", "line"]


def test_the_old_option_works_and_says_its_new_name(
    run: Run, files: Path, random_ratings: Path, tmp_path: Path
) -> None:
    words = (
        "fit",
        files / "ratings.csv",
        "--method",
        "naive",
        "--set",
        "training.max_epochs=2",
        "--unbiased",
        random_ratings,
    )
    assert "--unbiased is called --random-ratings now" in run(*words, "--out", tmp_path / "m").stderr
    assert unskew.load(tmp_path / "m").random_ratings is not None
