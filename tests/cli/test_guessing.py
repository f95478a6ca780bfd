"""A file is enough: columns, delimiter, header and threshold are guessed where there is one answer, and said."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import unskew
from unskew.cli.columns import columns_of
from unskew.cli.scale import guessed_scale
from unskew.errors import DataError

Run = Callable[..., Result]
ROLES: dict[str, str | None] = {"user": None, "item": None, "rating": None}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("user_id,item_id,rating", ("user_id", "item_id", "rating")),
        ("userId,movieId,rating,timestamp", ("userId", "movieId", "rating")),
        ("timestamp,Customer,Product,Stars", ("Customer", "Product", "Stars")),
        ("reviewerID,asin,overall,unixReviewTime", ("reviewerID", "asin", "overall")),
        ("customer,film,stars", ("customer", "film", "stars")),
        ("User-ID,ISBN,Rating", ("User-ID", "ISBN", "Rating")),
        ("label,uid,iid", ("uid", "iid", "label")),
        ("user_id,user,item_id,item,rating,score", ("user_id", "item_id", "rating")),
    ],
)
def test_common_headers_are_understood(tmp_path: Path, header: str, expected: tuple[str, ...]) -> None:
    (tmp_path / "log.csv").write_text(f"{header}\n" + ",".join("3" for _ in header.split(",")) + "\n")
    found = columns_of(tmp_path / "log.csv", ROLES)
    assert tuple(found.names.values()) == expected
    assert found.header
    assert bool(found.guessed) == (expected != ("user_id", "item_id", "rating"))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("user_id,asin,parent_asin,rating", "several columns that may hold items, 'asin', 'parent_asin': name one by"),
        ("user_id,item_id,stars,score", "may hold ratings, 'stars', 'score': name one by --rating"),
        ("who,item_id,rating", "is known to hold users, of 'who', 'item_id', 'rating': name it by --user"),
        ("user_id,item_id,clicks", "is known to hold ratings, of 'user_id', 'item_id', 'clicks'"),
    ],
)
def test_what_has_no_single_answer_is_asked_for(tmp_path: Path, header: str, sentence: str) -> None:
    (tmp_path / "log.csv").write_text(f"{header}\na,b,c,d\n")
    with pytest.raises(DataError, match=sentence):
        columns_of(tmp_path / "log.csv", ROLES)


def test_names_that_are_given_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user_id,asin,parent_asin,rating\nu,1,2,3\n")
    found = columns_of(tmp_path / "log.csv", {**ROLES, "item": "parent_asin"})
    assert (found.names["item"], found.guessed) == ("parent_asin", ())


@pytest.mark.parametrize(
    ("name", "text", "delimiter"),
    [
        ("log.csv", "user_id;item_id;rating\n1;2;3\n", ";"),
        ("log.txt", "user_id\titem_id\trating\n1\t2\t3\n", "\t"),
        ("log.tsv", "user_id|item_id|rating\n1|2|3\n", "|"),
        ("log.txt", "1 2 3\n4 5 6\n", " "),
    ],
)
def test_a_delimiter_is_guessed_where_the_usual_one_splits_nothing(
    tmp_path: Path, name: str, text: str, delimiter: str
) -> None:
    (tmp_path / name).write_text(text)
    found = columns_of(tmp_path / name, ROLES)
    assert found.delimiter == delimiter
    assert f"columns are separated by {delimiter!r} (--delimiter says otherwise)" in found.guessed


@pytest.mark.parametrize("text", ["user_id,item_id,rating\n1,2,3\n", "one\n"])
def test_no_other_delimiter_is_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.csv").write_text(text)
    given = {"user": "a", "item": "b", "rating": "c"}
    assert columns_of(tmp_path / "log.csv", given).delimiter is None


def test_files_without_a_header_go_by_place_with_or_without_a_time_behind(tmp_path: Path) -> None:
    for name, end in (("a.csv", ""), ("b.csv", ",964982703")):
        (tmp_path / name).write_text(f"A1XYZ,0000013714,5.0{end}\nA2XYZ,0000013714,4.0{end}\n")
        found = columns_of(tmp_path / name, ROLES)
        assert (found.header, found.names) == (False, {"user": "1", "item": "2", "rating": "3"})
        assert "its first line is no header" in found.guessed[0]
        log = unskew.read_log(tmp_path / name, **found.names, positive=5, header=False, item_ids=["0000013714", "b"])
        assert (len(log), list(log.user_ids)) == (2, ["A1XYZ", "A2XYZ"])


def test_other_files_without_a_header_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("1,7,2,3\n2,8,3,4\n")
    with pytest.raises(DataError, match=r"no header and 4 columns, .* 1, 7, 2, 3: name them .* --user 1 --item 2"):
        columns_of(tmp_path / "log.csv", ROLES)
    given = {"user": "1", "item": "3", "rating": "4"}
    assert columns_of(tmp_path / "log.csv", given).names == given


def test_header_or_not_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user_id,item_id,5\n1,2,3\n")
    given = {"user": "user_id", "item": "item_id", "rating": "5"}
    assert columns_of(tmp_path / "log.csv", given).header
    with pytest.raises(DataError, match="is known to hold ratings"):
        columns_of(tmp_path / "log.csv", ROLES, header=True)
    assert columns_of(tmp_path / "log.csv", ROLES, header=False).names["user"] == "1"


def test_packed_files_recbole_parquet_and_folders_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"userId,movieId,rating\n1,2,3\n"))
    (tmp_path / "b.inter").write_text("user_id:token\titem_id:token\trating:float\n1\t2\t3\n")
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"customer": [1], "sku": [2], "score": [3]}), tmp_path / "folder" / "c.parquet")
    expected = {
        "a.csv.gz": ["userId", "movieId", "rating"],
        "b.inter": ["user_id", "item_id", "rating"],
        "folder": ["customer", "sku", "score"],
    }
    for name, names in expected.items():
        assert list(columns_of(tmp_path / name, ROLES).names.values()) == names


@pytest.mark.parametrize(
    ("ratings", "positive", "limits"),
    [
        ([0, 1, 1], 1, (0, 1)),
        ([-1, 1], 1, (-1, 1)),
        ([1, 2, 3, 4, 5], 3, (1, 5)),
        ([2, 3, 5], 3, (1, 5)),
        ([0, 3, 5], 3, (0, 5)),
        ([0.5, 2.5, 5], 3, (0.5, 5)),
        ([1, 7, 10], 6, (1, 10)),
        ([0, 7, 10], 5, (0, 10)),
        ([1, 2, 3], 2, (1, 3)),
        ([0, 40, 100], 50, (0, 100)),
        ([0.1, 0.4, 0.7], 0.4, (0.1, 0.7)),
        ([1, 5, 3, np.nan], 3, (1, 5)),
    ],
)
def test_liked_is_the_middle_of_the_scale_or_above(
    ratings: list[float], positive: float, limits: tuple[float, float]
) -> None:
    found = guessed_scale(np.array(ratings, float), "log.csv")
    assert (found.positive, (found.low, found.high)) == (positive, limits)
    assert "--positive sets another threshold" in found.guessed


@pytest.mark.parametrize(
    ("ratings", "sentence"),
    [
        (np.ones(5), "has only the rating 1: unskew learns from ratings that differ"),
        (np.full(3, np.nan), "has no ratings"),
        (np.linspace(0, 17, 300), "are 300 different numbers from 0 to 17, which is no scale of ratings: say what"),
    ],
)
def test_what_is_no_scale_of_ratings_is_asked_about(ratings: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        guessed_scale(ratings, "log.csv")


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
    assert len(facts["log"]["guessed"]) == 2
    assert facts["log"]["positive_from"] == 3
    told = run(*again, "--quiet", "--user", "customer", "--item", "sku", "--rating", "stars", "--delimiter", ";")
    assert told.stderr == ""


def test_a_rating_beyond_the_guessed_scale_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unskew.cli.scale.ROWS", 20)
    rows = [f"{u},{i},{1 + (u + i) % 5}" for u in range(10) for i in range(4)] + ["9,9,7"]
    (tmp_path / "log.csv").write_text("user_id,item_id,rating\n" + "\n".join(rows) + "\n")
    said = run("fit", tmp_path / "log.csv", "--method", "naive", "--out", tmp_path / "m", code=2).stderr
    assert "row 41 of column 'rating' of log.csv holds the rating 7, which is outside the scale (1, 5)" in said
    assert "or say by --positive what is liked" in said


def test_pairs_users_and_items_are_found_by_the_names_of_their_columns(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("customer,sku\nu1,1\nu2,2\n")
    result = run("predict", model, tmp_path / "pairs.csv", "--out", tmp_path / "a.csv", "--json")
    assert json.loads(result.stdout)["pairs"] == 2
    assert "users are in 'customer', items are in 'sku'" in result.stderr
    only = ("--users", tmp_path / "pairs.csv", "--items", tmp_path / "pairs.csv", "--keep-seen", "--json")
    rows = json.loads(run("recommend", model, *only).stdout)["recommendations"]
    assert {(row["user_id"], row["item_id"]) for row in rows} == {("u1", 1), ("u1", 2), ("u2", 1), ("u2", 2)}
