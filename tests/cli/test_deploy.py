"""From a model to what other systems serve: new users, scorers, vectors, and JSON from every command."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import unskew

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def new_users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new_users") / "their-ratings.csv"
    path.write_text("user,item,stars\nann,1,5\nann,2,1\nbob,3,4\n")
    return path


def test_recommend_folds_new_users_in_and_answers_for_them(
    run: Run, model: Path, new_users: Path, tmp_path: Path
) -> None:
    result = run("recommend", model, "--new-users", new_users, "--k", 2, "--out", tmp_path / "top.parquet")
    assert "2 new users were folded in from 3 ratings" in result.stderr
    frame = {"user_id": ["ann", "ann", "bob"], "item_id": [1, 2, 3], "rating": [5, 1, 4]}
    expected = unskew.load(model).fold_in(pa.table(frame)).recommend(["ann", "bob"], k=2)
    assert pq.read_table(tmp_path / "top.parquet").to_pylist() == expected.to_pylist()


def test_predict_answers_for_new_users(run: Run, model: Path, new_users: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("user_id,item_id\nann,1\nu1,1\n")
    words = ("predict", model, tmp_path / "pairs.csv", "--new-users", new_users, "--out", tmp_path / "a.csv", "--json")
    facts = json.loads(run(*words).stdout)
    assert (facts["pairs"], facts["answered_for_the_average"]) == (2, 0)
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[1]["prediction"]) == pytest.approx(unskew.load(model).predict("u1", 1)[0])


def test_ratings_of_items_nobody_knows_are_refused_or_left_out(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("user_id,item_id,rating\nann,1,5\nann,999,1\n")
    words = ("recommend", model, "--new-users", tmp_path / "new.csv", "--k", 1)
    assert "The item '999' is not in the log" in run(*words, code=2).stderr
    assert "pass --on-unknown fallback to leave them out" in run(*words, code=2).stderr
    assert "1 ratings were left out" in run(*words, "--on-unknown", "fallback").stderr


def test_export_writes_vectors_and_scorers_beside_the_model(
    run: Run, files: Path, model: Path, new_users: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    here = tmp_path / "model"
    unskew.load(model).save(here)
    assert "onnxruntime answers as the model does for 10,000 random pairs" in run("export", here, "--to", "onnx").stdout
    facts = json.loads(run("export", here, "--to", "parquet", "--new-users", new_users, "--json").stdout)
    assert facts["users"] == unskew.load(here).log.n_users + 2
    assert {path.name for path in tmp_path.iterdir()} == {"model", "model.onnx", "model.vectors"}
    assert "ann" in pq.read_table(tmp_path / "model.vectors" / "users.parquet")["user_id"].to_pylist()
    wrong = run("export", here, "--to", "onnx", "--out", tmp_path / "a.bin", code=2).stderr
    assert "a.bin ends in none of .onnx" in wrong
    assert "--help" in run("export", here, "--to", "pickle", code=2).stderr


def test_names_of_columns_that_nothing_reads_are_refused(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    pairs, one = files / "pairs.csv", ("--out", tmp_path / "a.csv")
    for words, lost in (
        (("predict", model, pairs, *one, "--rating", "stars"), "--rating"),
        (("export", model, "--to", "parquet", "--user", "who"), "--user"),
        (("recommend", model, "--user", "who"), "--user"),
        (("recommend", model, "--for", pairs, "--item", "what"), "--item"),
        (("recommend", model, "--for", "u1", "--user", "who"), "--user"),
        (("recommend", model, "--items", pairs, "--rating", "stars"), "--rating"),
    ):
        refused = f"error: {lost} names a column, and no file is read for it here: leave it out.\n"
        assert run(*words, code=2).stderr == refused
    run("recommend", model, "--for", pairs, "--user", "user_id", *one)


def test_items_that_nobody_rated_are_left_out_with_a_warning(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "stock.csv").write_text("item_id\n1\n2\n999\n")
    words = ("recommend", model, "--items", tmp_path / "stock.csv", "--for", "u1", "--keep-seen")
    assert "pass --on-unknown fallback to leave it out" in run(*words, code=2).stderr
    assert (
        "warning: 1 items that the log does not know were left out.\n" in run(*words, "--on-unknown", "fallback").stderr
    )


def test_advice_names_options_that_a_command_has(run: Run, model: Path) -> None:
    for words in (("similar", model, "--item", "99"), ("similar", model, "--user", "99")):
        assert "are not); give ids as its columns have them" in run(*words, code=2).stderr
    assert "pass --on-unknown fallback" in run("recommend", model, "--for", "99", code=2).stderr


def test_a_net_without_vectors_is_refused(run: Run, files: Path, tmp_path: Path) -> None:
    words = ("--method", "naive", "--set", "net=ncf", "--set", "training.max_epochs=1", "--out", tmp_path / "m")
    run("fit", files / "ratings.csv", *words)
    refused = run("export", tmp_path / "m", "--to", "parquet", code=2).stderr
    assert refused.startswith("error: A ConcatenationNet is no inner product of users and items and has no vectors")


def test_a_models_folder_is_a_log_and_holds_its_recipe(run: Run, model: Path, tmp_path: Path) -> None:
    run("fit", model, "--method", model / "recipe.toml", "--out", tmp_path / "again")
    one, other = ((folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again"))
    assert one == other


def test_the_recipe_of_a_model_reads_the_file_on_its_scale_with_its_seed(run: Run, files: Path, tmp_path: Path) -> None:
    few = ("--method", "naive", "--set", "training.max_epochs=1", "--positive", 4, "--seed", 9)
    run("fit", files / "ratings.csv", *few, "--out", tmp_path / "a")
    again = ("fit", files / "ratings.csv", "--method", tmp_path / "a" / "recipe.toml")
    noted = run(*again, "--out", tmp_path / "b").stderr
    assert noted.count("\n") == 1  # the log: nothing had to be guessed
    one, other = (unskew.load(tmp_path / name) for name in "ab")
    assert (other.seed, other.log.scale, other.training) == (9, one.log.scale, one.training)
    np.testing.assert_array_equal(one.predict("u1", 1), other.predict("u1", 1))
    changed = json.loads(run(*again, "--out", tmp_path / "c", "--positive", 3, "--seed", 1, "--json").stdout)
    assert (changed["seed"], changed["log"]["positive_from"]) == (1, 3)
