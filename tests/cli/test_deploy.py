"""From a model to what other systems serve: new users, scorers, vectors, and JSON from every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import unskew

Run, Facts = Callable[..., Result], Callable[..., Any]


def test_recommend_folds_new_users_in_and_answers_for_them(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("user,item,stars\nann,1,5\nann,2,1\nbob,3,4\n")
    result = run("recommend", model, "--new-users", tmp_path / "new.csv", "--k", 2, "--out", tmp_path / "top.parquet")
    assert "2 new users were folded in from 3 ratings" in result.stderr
    frame = {"user_id": ["ann", "ann", "bob"], "item_id": [1, 2, 3], "rating": [5, 1, 4]}
    expected = unskew.load(model).fold_in(pa.table(frame)).recommend(["ann", "bob"], k=2)
    assert pq.read_table(tmp_path / "top.parquet").to_pylist() == expected.to_pylist()


def test_export_writes_vectors_and_scorers_next_to_the_model(
    run: Run, facts: Facts, model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    here = tmp_path / "model"
    unskew.load(model).save(here)
    assert "onnxruntime answers as the model does for 10,000 random pairs" in run("export", here, "--to", "onnx").stdout
    assert facts("export", here, "--to", "parquet")["users"] == unskew.load(here).log.n_users
    assert {path.name for path in tmp_path.iterdir()} == {"model", "model.onnx", "model.vectors"}


def test_a_models_folder_is_a_log_and_holds_its_recipe(run: Run, model: Path, tmp_path: Path) -> None:
    run("fit", model, "--method", model / "recipe.toml", "--out", tmp_path / "again")
    one, other = ((folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again"))
    assert one == other


def test_the_recipe_of_a_model_reads_the_file_on_its_scale_with_its_seed(
    run: Run, facts: Facts, files: Path, tmp_path: Path
) -> None:
    few = ("--method", "naive", "--set", "training.max_epochs=1", "--positive", 4, "--seed", 9)
    run("fit", files / "ratings.csv", *few, "--out", tmp_path / "a")
    again = ("fit", files / "ratings.csv", "--method", tmp_path / "a" / "recipe.toml")
    noted = run(*again, "--out", tmp_path / "b").stderr
    assert noted.count("\n") == 1  # the log: nothing had to be guessed
    one, other = (unskew.load(tmp_path / name) for name in "ab")
    assert (other.seed, other.log.scale, other.training) == (9, one.log.scale, one.training)
    np.testing.assert_array_equal(one.predict("u1", 1), other.predict("u1", 1))
    changed = facts(*again, "--out", tmp_path / "c", "--positive", 3, "--seed", 1)
    assert (changed["seed"], changed["log"]["positive_from"]) == (1, 3)
