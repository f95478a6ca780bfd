"""unskew compare: one line, the library's answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

import unskew

Run = Callable[..., Result]


def test_it_says_in_one_line_what_the_library_finds(run: Run, files: Path) -> None:
    words = (files / "B.csv", files / "A.csv", "--log", files / "test.csv")
    text = run("compare", *words).stdout
    log = unskew.read_log(files / "test.csv")
    found = unskew.compare(files / "B.csv", files / "A.csv", log, names=("B", "A"))
    assert text == f"{found}\n"
    assert text.startswith("A is better than B: ")
    facts = json.loads(run("compare", *words, "--json").stdout)
    assert (facts["better"], facts["decision"]) == ("A", "use")
    assert facts["in_words"] == str(found)


def test_known_propensities_are_read_from_a_column(run: Run, files: Path, tmp_path: Path) -> None:
    lines = (files / "test.csv").read_text().splitlines()
    rows = [f"{line},{0.3}" for line in lines[1:]]
    (tmp_path / "log.csv").write_text("\n".join([f"{lines[0]},pscore", *rows]))
    words = ("compare", files / "A.csv", files / "B.csv", "--log", tmp_path / "log.csv", "--json")
    facts = json.loads(run(*words, "--pscore", "pscore").stdout)
    assert facts["decision"] == "stop"
    assert f"worth {len(rows):,} equal ones" in facts["finding"]["rests_on"]


def test_two_models_of_one_log_need_no_other_log(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    run(
        "fit", files / "ratings.csv", "--method", "naive", "--set", "training.max_epochs=1", "--out", tmp_path / "other"
    )
    text = run("compare", model, tmp_path / "other").stdout
    assert "model" in text
    assert "other" in text
    text = run("compare", model, tmp_path / "other", "--log", files / "ratings.csv", code=2).stderr
    assert "was trained on" in text


def test_random_ratings_overrule_the_log(run: Run, files: Path) -> None:
    words = ("compare", files / "B.csv", files / "A.csv", "--log", files / "ratings.csv")
    facts = json.loads(run(*words, "--random-ratings", files / "test.csv", "--json").stdout)
    assert facts["decision"] == "use"
    assert "random ratings, none trained on" in facts["finding"]["rests_on"]


def test_equal_files_are_called_by_their_paths(run: Run, files: Path, tmp_path: Path) -> None:
    copy = tmp_path / "A.csv"
    copy.write_bytes((files / "A.csv").read_bytes())
    text = run("compare", files / "A.csv", copy, "--log", files / "test.csv").stdout
    assert text.startswith(f"This log cannot tell {copy} from {files / 'A.csv'}")
    assert text.count("\n") == 1
