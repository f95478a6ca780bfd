"""Bad input is answered with one sentence and exit code 2; nothing else is swallowed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner, Result

import unskew
from unskew.bench.search import Criterion
from unskew.cli import app, options
from unskew.data.log import Duplicates
from unskew.metrics.ranking import EmptyUsers
from unskew.model import OnUnknown

Run = Callable[..., Result]
FIT = ("fit", "ratings.csv", "--out", "new", "--method")
BENCHMARK = ("benchmark", "ratings.csv", "--out", "new")

REFUSED = {
    "unknown method": ((*FIT, "nave"), "There is no method 'nave'; did you mean 'naive'?"),
    "beginning of several methods": ((*FIT, "dce"), "There is no method 'dce'; did you mean 'dce-dr', 'dce-tdr', "),
    "method like no other": ((*FIT, "xyzzy"), "There is no method 'xyzzy'; `unskew list` lists them."),
    "unknown command": (("fti", "ratings.csv"), "no such command 'fti'. Did you mean 'fit'?"),
    "unknown option": (("doctor", "--foo"), "no such option: --foo; `unskew doctor --help` has an example."),
    "one argument too many": (("list", "coat"), "more arguments than it takes: (coat); `unskew list --help`"),
    "missing option": (("predict", "model", "test.csv"), "missing option '--out'; `unskew predict --help` has an exam"),
    "missing choice": (("export", "model"), "missing option '--to': choose from onnx, parquet; `unskew export --help`"),
    "unknown choice": (("export", "model", "--to", "csv"), "invalid value for '--to': 'csv' is not one of 'onnx', 'p"),
    "word for a number": ((*FIT, "naive", "--seed", "many"), "'--seed': must be a whole number, not 'many'; `uns"),
    "an option that went": (("diagnose", "model", "--propensity", "x"), "--propensity is gone: the judge fits its own"),
    "missing log": (("fit", "none.csv", "--out", "new", "--method", "naive"), "none.csv does not exist"),
    "unknown setting": ((*FIT, "ips", "--set", "clp=1"), "IPS has no setting 'clp'; did you mean 'clip'?"),
    "unknown nested setting": ((*FIT, "ips", "--set", "net.n_factrs=1"), "did you mean 'n_factors'?"),
    "unknown parent of a setting": ((*FIT, "ips", "--set", "nett.n_factors=1"), "did you mean 'net'?"),
    "setting inside a number": ((*FIT, "ips", "--set", "learning_rate.low=1"), "learning_rate is 0.01, which has"),
    "text for a number": ((*FIT, "ips", "--set", "l2=high"), "l2 of IPS must be a number or 'none'"),
    "value out of range": ((*FIT, "ips", "--set", "clip=2"), "clip of IPS must be a number at least 0 and at most 1"),
    "setting without value": ((*FIT, "ips", "--set", "clip"), "--set clip is not of the form NAME=VALUE"),
    "setting without name": ((*FIT, "ips", "--set", "=3"), "--set =3 is not of the form NAME=VALUE"),
    "setting given twice": ((*FIT, "ips", "--set", "clip=0", "--set", "clip=1"), "--set clip is given twice"),
    "unknown propensity": ((*FIT, "ips", "--set", "propensity=aditive"), "did you mean 'Additive'?"),
    "net for a propensity": ((*FIT, "ips", "--set", "propensity=mf"), "cannot be of the kind 'MF'"),
    "propensity that needs more": ((*FIT, "ips", "--set", "propensity=naivebayes"), "pass --random-ratings FILE"),
    "features that are needed": ((*FIT, "ips", "--set", "propensity=logistic"), "pass --user-features when"),
    "threshold and grades": ((*FIT, "naive", "--positive", 3, "--graded", 1, 5), "give one of the two"),
    "threshold beyond all ratings": ((*FIT, "naive", "--positive", 9), "set --positive to a threshold"),
    "rating off the scale": ((*FIT, "naive", "--graded", 1, 4), "widen --graded"),
    "falling scale": ((*FIT, "naive", "--graded", 5, 1), "--graded must rise from low to high"),
    "missing column": ((*FIT, "naive", "--user", "usr"), "has no column 'usr'"),
    "no epochs": ((*FIT, "naive", "--set", "training.max_epochs=0"), "max_epochs must be at least 1, not 0"),
    "no batch": ((*FIT, "naive", "--set", "training.batch_size=0"), "batch_size must be at least 1"),
    "negative seed": ((*FIT, "naive", "--seed", -1), "seed must be a whole number"),
    "unknown dataset": (("fit", "coatt:x", "--out", "new", "--method", "naive"), "did you mean 'coat'?"),
    "missing dataset": (("fit", "coat:x", "--out", "new", "--method", "naive"), "x does not exist: get Coat"),
    "dataset with options of files": (
        ("fit", "coat:x", "--out", "new", "--method", "naive", "--item", "i"),
        "--item is for files, and coat:x is a dataset",
    ),
    "dataset as random ratings": ((*FIT, "naive", "--random-ratings", "coat:x"), "random ratings are its test"),
    "model in a missing folder": (
        ("fit", "ratings.csv", "--method", "naive", "--out", "no/where"),
        "the folder no does not exist",
    ),
    "model in place of a file": (
        ("fit", "ratings.csv", "--method", "naive", "--out", "test.csv"),
        "test.csv is a file",
    ),
    "model among other files": (
        ("fit", "ratings.csv", "--method", "naive", "--out", "."),
        "which is no part of a model",
    ),
    "missing model": (("evaluate", "none", "test.csv"), "there is no such folder"),
    "file for a model": (("evaluate", "test.csv", "test.csv"), "it is not a folder"),
    "no list": (("evaluate", "model", "test.csv", "--k", 0), "k must be a whole number of at least 1"),
    "grades for a binary model": (("evaluate", "model", "test.csv", "--graded", 1, 5), "answers with probabilities"),
    "test without ratings": (("evaluate", "model", "pairs.csv"), "pairs.csv has no column that is known to hold"),
    "metrics in no known format": (("evaluate", "model", "test.csv", "--per-user", "a.xls"), "a.xls ends in none of"),
    "unknown user in the test": (("evaluate", "model", "strangers.csv"), "pass --on-unknown fallback"),
    "missing pairs": (("predict", "model", "none.csv", "--out", "a.csv"), "none.csv does not exist"),
    "pairs without users": (("predict", "model", "pairs.csv", "--user", "who", "--out", "a.csv"), "no column 'who'"),
    "unknown user in pairs": (
        ("predict", "model", "strangers.csv", "--out", "a.csv"),
        "The user 'u999' is not in the log",
    ),
    "predictions in a folder": (("predict", "model", "pairs.csv", "--out", "folder.csv"), "folder.csv is a folder"),
    "predictions in a missing folder": (
        ("predict", "model", "pairs.csv", "--out", "no/a.csv"),
        "folder no does not exist",
    ),
    "predictions there already": (("predict", "model", "done.csv", "--out", "a.csv"), "'prediction' already"),
    "no recommendations": (("recommend", "model", "--k", 0), "k must be a whole number from 1 to"),
    "users told twice": (("recommend", "model", "--users", "pairs.csv", "--for", "u1"), "give one of the two"),
    "unknown user asked for": (("recommend", "model", "--for", "u999"), "pass --on-unknown fallback"),
    "unknown item asked for": (("recommend", "model", "--items", "strangers.csv"), "is not in the log"),
    "users without a column": (
        ("recommend", "model", "--users", "items.csv"),
        "is known to hold users, only 'item",
    ),
    "a model is there already": (("fit", "ratings.csv", "--method", "naive"), "model is there already: name a folder"),
    "columns of a model's log": (
        ("fit", "model", "--method", "naive", "--out", "new", "--user", "who"),
        "--user is for files, and model is the folder of a model",
    ),
    "missing recipe": (("fit", "ratings.csv", "--out", "new", "--method", "a.toml"), "a.toml cannot be read"),
    "unknown method to tune": (("tune", "ratings.csv", "--method", "nave"), "did you mean 'naive'?"),
    "recipe in a missing folder": (
        ("tune", "ratings.csv", "--method", "naive", "--out", "no/a.toml"),
        "no/a.toml cannot be written",
    ),
    "recipe in place of a folder": (
        ("tune", "ratings.csv", "--method", "naive", "--out", "folder.csv"),
        "give the path of a file",
    ),
    "no trials": (("tune", "ratings.csv", "--method", "naive", "--trials", 0), "trials must be a whole number"),
    "no tuner": (("tune", "ratings.csv", "--method", "naive", "--workers", 0), "--workers must be a whole number"),
    "unknown method to compare": ((*BENCHMARK, "--methods", "naive,nave"), "did you mean 'naive'?"),
    "method to compare with itself": ((*BENCHMARK, "--methods", "naive,ips,naive"), "--methods names naive twice"),
    "no seeds": ((*BENCHMARK, "--seeds", 0), "--seeds must be a whole number"),
    "missing log to compare on": (("benchmark", "none.csv", "--out", "new"), "none.csv does not exist"),
    "dataset without a folder": (("benchmark", "coat", "--out", "new"), "name the folder of its files by --data"),
    "dataset that is not there": (
        ("benchmark", "yahoo-r3", "--data", "no", "--out", "new"),
        "no does not exist: get Yahoo!R3",
    ),
    "folder for a file": ((*BENCHMARK, "--data", "."), "--data is for datasets"),
    "test of a dataset": (
        ("benchmark", "world", "--test", "test.csv", "--out", "new"),
        "world has a random test of its own",
    ),
    "columns of a world": (("benchmark", "world", "--user", "who", "--out", "new"), "is not read from files"),
    "test told twice": ((*BENCHMARK, "--test", "test.csv", "--test-fraction", 0.1), "give one of the two"),
    "share beyond all": ((*BENCHMARK, "--test-fraction", 1.5), "fraction must lie between 0 and 1"),
    "unknown users in the test": ((*BENCHMARK, "--test", "strangers.csv"), "pass --on-unknown fallback"),
    "tables in place of a file": (("benchmark", "ratings.csv", "--out", "test.csv"), "cannot be made a folder"),
    "demo of a negative seed": (("demo", "--seed", -1), "seed is -1"),
    "demo in place of a file": (("demo", "--out", "test.csv"), "test.csv ends in none of .svg"),
}


@pytest.fixture
def here(files: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for source in files.iterdir():
        (tmp_path / source.name).symlink_to(source)
    (tmp_path / "strangers.csv").write_text("user_id,item_id,rating\nu999,888,5\nu1,889,1\n")
    (tmp_path / "done.csv").write_text("user_id,item_id,prediction\nu1,1,0.5\n")
    (tmp_path / "items.csv").write_text("item_id\n1\n")
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_sentence_and_leaves_no_file(run: Run, here: Path, case: str) -> None:
    words, sentence = REFUSED[case]
    before = set(here.iterdir())
    result = run(*words, "--quiet", code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert set(here.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ("fit",),
        ("evaluate", "model", "test.csv", "--empty-users", "two"),
        ("fit", "ratings.csv", "--out", "x", "--method", "naive", "--duplicates", "first"),
        ("predict", "model", "pairs.csv", "--out", "a.csv", "--on-unknown", "guess"),
        ("recommend", "model", "--k", "many"),
        ("undo",),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_points_to_help(run: Run, here: Path, words: tuple[str, ...]) -> None:
    assert "--help" in run(*words, code=2).stderr


def test_an_interrupt_gets_one_sentence_and_exit_code_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unskew.datasets, "available", interrupted)
    result = run("list", code=130)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    assert result.stderr.startswith("interrupted")


def test_any_other_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(unskew.datasets, "available", broken)
    result = CliRunner().invoke(app, ["list"])
    assert isinstance(result.exception, RuntimeError)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that may not be written to")
def test_a_folder_that_may_not_be_written_to_is_refused(run: Run, here: Path) -> None:
    closed = here / "closed"
    closed.mkdir(mode=0o500)
    result = run("predict", "model", "pairs.csv", "--out", closed / "a.csv", code=2)
    assert "permission denied" in result.stderr


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (options.Duplicates, Duplicates),
        (options.EmptyUsers, EmptyUsers),
        (options.OnUnknown, OnUnknown),
        (options.Criterion, Criterion),
    ],
)
def test_the_choices_offered_are_the_librarys(offered: type[options.Duplicates], known: object) -> None:
    assert tuple(choice.value for choice in offered) == get_args(known)
