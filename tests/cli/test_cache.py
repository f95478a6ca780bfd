"""The option --cache, and logs that are folders of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import unskew
from unskew.data.read import read_frame

Run = Callable[..., Result]


@pytest.fixture
def parts(files: Path, tmp_path: Path) -> Path:
    """The ratings as a folder of Parquet files."""
    table = read_frame(files / "ratings.csv")
    (tmp_path / "parts").mkdir()
    for number, start in enumerate(range(0, len(table), 200)):
        pq.write_table(table[start : start + 200], tmp_path / "parts" / f"{number}.parquet")
    return tmp_path / "parts"


def fit(run: Run, log: Path, out: Path, *words: object, code: int = 0) -> Result:
    return run("fit", log, "--method", "naive", "--epochs", 1, "--out", out, *words, "--quiet", code=code)


def test_a_folder_of_files_with_and_without_a_cache_gives_the_model_of_the_file(
    run: Run, files: Path, parts: Path, tmp_path: Path
) -> None:
    cache = ("--cache", tmp_path / "cache")
    said = [fit(run, files / "ratings.csv", tmp_path / "a").stdout, fit(run, parts, tmp_path / "b").stdout]
    said += [fit(run, parts, tmp_path / name, *cache).stdout for name in ("c", "d")]
    assert len({text.splitlines()[0] for text in said}) == 1
    users, items = [f"u{n}" for n in range(20)], [3] * 20
    answers = {unskew.load(tmp_path / name).predict(users, items, on_unknown="fallback").tobytes() for name in "abcd"}
    assert len(answers) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_every_log_of_a_command_is_cached(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    cache = ("--cache", tmp_path / "cache")
    fit(run, files / "ratings.csv", tmp_path / "m", "--random-ratings", files / "test.csv", *cache)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    plain = run("evaluate", model, files / "test.csv").stdout
    for _ in range(2):
        assert run("evaluate", model, files / "test.csv", *cache).stdout == plain
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the same log, to be judged by


def test_a_cache_that_is_built_again_is_one_sentence_of_warning(run: Run, parts: Path, tmp_path: Path) -> None:
    words = (parts, tmp_path / "m", "--cache", tmp_path / "cache")
    assert not fit(run, *words).stderr
    (column,) = tmp_path.glob("cache/*/log/users.i32")
    size = column.stat().st_size
    os.truncate(column, 8)
    said = fit(run, *words).stderr
    assert said.startswith("warning: the cache ")
    assert said.endswith(f" is built again: users.i32 has 8 bytes, not the {size:,} that were saved.\n")
    assert not fit(run, *words).stderr


def test_a_place_that_cannot_be_a_cache_is_refused(run: Run, files: Path, tmp_path: Path) -> None:
    log = files / "ratings.csv"
    said = fit(run, log, tmp_path / "m", "--cache", log, code=2).stderr
    assert said == f"error: the cache {log} is a file: pass a folder as --cache.\n"
    said = fit(run, log, tmp_path / "m", "--cache", log / "cache", code=2).stderr
    assert "cannot be used: not a directory; nothing half written is left there" in said
    assert said.endswith("make room for it or pass another folder as --cache.\n")
    assert not list(tmp_path.iterdir())
