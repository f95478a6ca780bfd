"""A file is enough: columns, delimiter, header and threshold are guessed where there is one answer, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unskew

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def strange(files: Path) -> Path:
    """The ratings of the other tests with other names, separated by semicolons."""
    lines = (files / "ratings.csv").read_text().splitlines()[1:]
    path = files / "strange.csv"
    path.write_text("customer;sku;stars;timestamp\n" + "".join(f"{line.replace(',', ';')};12345\n" for line in lines))
    return path


def test_a_file_alone_is_fitted_and_what_was_guessed_is_said(
    run: Run, strange: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ("--set", "factors.sweeps=10")
    result = run("fit", strange, *few)
    for part in ("separated by ';'", "users are in 'customer'", "3 or more, the middle or above, is liked"):
        assert part in result.stderr
    model = unskew.load(tmp_path / "model")
    assert type(model.method).__name__ == "DCEBayes"
    expected = unskew.read_log(files / "ratings.csv")
    assert model.log.ratings.tolist() == expected.ratings.tolist()
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]  # no state is left behind
    again = ("fit", strange, "--out", "b", *few, "--json")
    facts = json.loads(run(*again).stdout)
    assert len(facts["log"]["guessed"]) == 3
    assert facts["log"]["positive_from"] == 3
    told = run(*again, "--quiet", "--user", "customer", "--item", "sku", "--rating", "stars")
    assert told.stderr == ""


def test_one_absurd_rating_is_refused_and_named(run: Run, tmp_path: Path) -> None:
    rows = [f"{u},{i},{1 + (u + i) % 5}" for u in range(30) for i in range(10)] + ["9,19,99"]
    (tmp_path / "log.csv").write_text("user_id,item_id,rating\n" + "\n".join(rows) + "\n")
    words = ("fit", tmp_path / "log.csv", "--method", "naive", "--out", tmp_path / "m")
    refused = run(*words, code=2).stderr
    assert "0.33% liked, as 99 stands out: all others lie from 1 to 5" in refused
    assert "liked by --positive" in refused


def test_pairs_users_and_items_are_found_by_the_names_of_their_columns(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("customer,sku\nu1,1\nu2,2\n")
    result = run("predict", model, tmp_path / "pairs.csv", "--out", tmp_path / "a.csv", "--json")
    assert json.loads(result.stdout)["pairs"] == 2
    assert "users are in 'customer', items are in 'sku'" in result.stderr
    only = ("--users", tmp_path / "pairs.csv", "--items", tmp_path / "pairs.csv", "--keep-seen", "--json")
    rows = json.loads(run("recommend", model, *only).stdout)["recommendations"]
    assert {(row["user_id"], row["item_id"]) for row in rows} == {("u1", 1), ("u1", 2), ("u2", 1), ("u2", 2)}
