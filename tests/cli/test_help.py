"""What can be asked before a fit, the examples of help, `unskew doctor`, and names that are set."""

import json
import re
import shlex
from dataclasses import fields
from shutil import copy
from typing import Any

import numpy as np
import pytest
import typer

import unskew
from unskew.cli import COMMANDS, about, app
from unskew.cli.settings import Settings, literal
from unskew.data.scale import Scale

PARSED: Any = typer.main.get_command(app).commands
MOST = dict.fromkeys(COMMANDS, 12) | {"fit": 15, "benchmark": 18}
COMMON = {"--json", "--quiet", "--verbose", "--help"}


def example_of(help_text):
    return help_text.rstrip().splitlines()[-1].strip()


def test_the_version_is_the_packages(run):
    assert run("--version").stdout == f"unskew {unskew.__version__}\n"


def test_every_command_is_listed(run):
    listed = [line.split()[0] for line in run("--help").stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)
    assert "..." not in run("--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_can_be_pasted_and_options_are_few(run, command):
    text = run(command, "--help").stdout
    assert text == run(command, "-h").stdout
    assert text.rstrip().splitlines()[-2].strip() == "Example:"
    assert example_of(text).startswith(f"unskew {command}")
    for line in (line.strip() for line in text.splitlines() if line.strip().startswith("unskew ")):
        name, *words = shlex.split(line)[1:]
        PARSED[name].make_context(name, words)
    options = {parameter.opts[0] for parameter in PARSED[command].params if parameter.opts[0].startswith("--")}
    assert options >= COMMON - {"--help"}
    assert len(options - COMMON) <= MOST[command], options


def test_verbose_logs_what_is_done(run, files, tmp_path):
    few = ("--method", "naive", "--set", "training.max_epochs=1", "--out", tmp_path / "m")
    shown = run("fit", files / "ratings.csv", *few, "--verbose").stderr
    assert re.search(r"unskew\.data\.read: read [\d,]+ rows of .*ratings\.csv", shown)


def test_the_examples_work_one_after_the_other(run, files, tmp_path, monkeypatch):
    for name in ("ratings.csv", "test.csv", "pairs.csv", "A.csv", "B.csv"):
        copy(files / name, tmp_path)
    copy(files / "test.csv", tmp_path / "new-ratings.csv")
    monkeypatch.chdir(tmp_path)
    slow = {"demo", "tune", "benchmark", "reproduce", "doctor", "serve", "update"}  # or endless, or for another model
    for command in (name for name in COMMANDS if name not in slow):
        run(*shlex.split(example_of(run(command, "--help").stdout))[1:])
    assert {path.name for path in tmp_path.iterdir()} == {
        *("ratings.csv", "test.csv", "pairs.csv", "model", "users.csv", "predictions.csv", "recommendations.csv"),
        *("A.csv", "B.csv", "new-ratings.csv", "vectors", "parts"),
    }


def test_a_sound_installation_passes_every_check(run):
    facts = json.loads(run("doctor", "--json").stdout)
    states = {check["name"]: check["state"] for check in facts["checks"]}
    assert facts["failed"] == 0
    assert states == {"python": "ok", "packages": "ok", "compile cache": "ok", "fit": "ok"}


def test_what_is_wrong_is_one_line_and_an_exit_code(run, monkeypatch):
    """Missing extras are not wrong, and a cache that cannot be written is a warning."""

    def broken(**_):
        raise OSError(28, "No space\nleft on device")

    monkeypatch.setattr("unskew.simulate", broken)
    monkeypatch.setattr(about, "requires", lambda _: ["numpy>=1", "no-such>=1", "elsewhere; extra == 'more'"])
    monkeypatch.setattr(about.os, "access", lambda *_: False)
    lines = run("doctor", code=1).stdout.splitlines()
    assert "failed    fit: OSError: [Errno 28] No space left on device" in lines
    assert "failed    packages: no-such is not installed: install unskew again by pip" in lines
    assert any(line.startswith("warning   compile cache") and "set NUMBA_CACHE_DIR" in line for line in lines)
    assert lines[-1] == "2 of 4 checks failed, 1 warn"


def method_from(name, assignments):
    return Settings(assignments).method(unskew.make(name))


def test_list_has_every_method_with_its_settings_and_every_dataset_with_its_terms(run, facts):
    listed, text = facts("list"), run("list").stdout
    for row, entry in zip(listed["methods"], unskew.registered(), strict=True):
        assert (row["name"], row["summary"]) == (entry.name, entry.summary)
        assert list(row["settings"]) == [setting.name for setting in fields(entry.build())]
        assert any(line.startswith(f"{entry.name} ") for line in text.splitlines())
    ips = next(row for row in listed["methods"] if row["name"] == "ips")
    assert (ips["settings"]["propensity"], ips["settings"]["clip"]) == ("factors", unskew.IPS().clip)
    for row, source in zip(listed["datasets"], unskew.datasets.available(), strict=True):
        assert row["name"] == source.name
        for fact in (source.title, source.where, source.terms, *source.files):
            assert fact in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("0.5", 0.5), ("True", True), ("None", None), ("(1, 2)", (1, 2)), ("log", "log"), ("", "")),
        *((text, text) for text in ("__import__('os')", "1+1", "[" * 500, "\0", "9" * 5000, "1_000")),
    ],
)
def test_values_are_python_literals_or_else_text(text, value):
    assert literal(text) == value
    assert type(literal(text)) is type(value)


def test_settings_apply_in_order_so_that_a_part_can_be_chosen_and_then_set():
    method = method_from(
        "ips", ["propensity=popularity", "propensity.exponent=0.7", "net.n_factors=5", "error=squared"]
    )
    assert method == unskew.IPS(propensity=unskew.Popularity(exponent=0.7), net=unskew.MF(n_factors=5), error="squared")
    for clip in ("clip=0.1", "base.clip=0.1"):  # a wrapper hands on the settings of its base
        assert method_from("dce-dr", [clip]) == unskew.make("dce-dr", clip=0.1)


@pytest.fixture
def small_coat(tmp_path):
    """Files in the format of Coat, but of 30 users and 20 items."""
    rng = np.random.default_rng(2)
    for name in ("train.ascii", "test.ascii"):
        grid = rng.integers(1, 6, (30, 20)) * (rng.random((30, 20)) < 0.4)
        (tmp_path / name).write_text("\n".join(" ".join(map(str, row)) for row in grid) + "\n")
    return tmp_path


def test_a_dataset_is_fitted_on_its_train_and_evaluated_on_its_test_part(run, facts, small_coat):
    source, model = f"coat:{small_coat}", small_coat / "model"
    fitted = run("fit", source, "--method", "naive", "--set", "training.max_epochs=1", "--out", model)
    dataset = unskew.datasets.load("coat", small_coat)
    assert repr(dataset.train) in fitted.stderr
    assert all(f"coat: {note}" in fitted.stderr for note in dataset.notes)
    assert facts("evaluate", model, source)["n_pairs"] == len(dataset.test)


def test_a_graded_dataset_must_be_asked_for_on_its_own_scale(run, small_coat):
    words = ("fit", f"coat:{small_coat}", "--method", "naive", "--set", "training.max_epochs=1")
    assert "give --graded 1 5" in run(*words, "--out", small_coat / "m", "--graded", 0, 9, code=2).stderr
    run(*words, "--out", small_coat / "m", "--graded", 1, 5)
    again = ("fit", f"coat:{small_coat}", "--method", small_coat / "m" / "recipe.toml", "--out", small_coat / "again")
    run(*again)  # with the scale of the recipe
    assert unskew.load(small_coat / "m").log.scale == unskew.load(small_coat / "again").log.scale == Scale(None, 1, 5)
