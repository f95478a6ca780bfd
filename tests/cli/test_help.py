"""What can be asked before anything is loaded, the examples it gives, and `unskew doctor`."""

import json
import re
import shlex
from shutil import copy
from typing import Any

import pytest
import typer

import unskew
from unskew.cli import COMMANDS, about, app

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
