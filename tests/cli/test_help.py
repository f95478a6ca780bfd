"""What can be asked before anything is loaded, and the examples it gives."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest
import typer
from typer.testing import Result

import unskew
from unskew.cli import app

COMMANDS = (
    "demo",
    "fit",
    "predict",
    "recommend",
    "similar",
    "split",
    "evaluate",
    "diagnose",
    "compare",
    "tune",
    "benchmark",
)
COMMANDS += ("reproduce", "report", "export", "list", "doctor")
Run = Callable[..., Result]

LIST_IMPORTS = """
import json, sys, time
from unskew.cli import app
for command in json.loads(sys.argv[1]):
    app([*command, "--help"], standalone_mode=False)
print(json.dumps([sorted(sys.modules), time.process_time()]), file=sys.stderr)
"""


def in_a_fresh_process(*commands: tuple[str, ...]) -> tuple[list[str], float]:
    """Names of the modules that asking for help imported, and the seconds of computing it took."""
    done = subprocess.run(
        [sys.executable, "-c", LIST_IMPORTS, json.dumps(commands)], capture_output=True, text=True, check=True
    )
    modules, seconds = json.loads(done.stderr)
    return modules, seconds


def example_of(help_text: str) -> str:
    return help_text.rstrip().splitlines()[-1].strip()


def test_help_imports_nothing_heavy() -> None:
    modules, _ = in_a_fresh_process((), *((command,) for command in COMMANDS))
    heavy = {"optuna", "torch", "sklearn", "scipy", "pyarrow", "numpy", "matplotlib", "rich"}
    assert heavy.isdisjoint(modules)


def test_help_takes_less_than_half_a_second() -> None:
    assert min(in_a_fresh_process(())[1] for _ in range(2)) < 0.5


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").stdout == f"unskew {unskew.__version__}\n"


def test_every_command_is_listed(run: Run) -> None:
    listed = [line.split()[0] for line in run("--help").stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert listed[: len(COMMANDS)] == list(COMMANDS)


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)], ids=" ".join)
def test_help_ends_with_an_example(run: Run, command: tuple[str, ...]) -> None:
    text = run(*command, "--help").stdout
    assert text.rstrip().splitlines()[-2].strip() == "Example:"
    assert example_of(text).startswith(" ".join(("unskew", *command)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_of_help_that_is_a_command_can_be_pasted(run: Run, command: str) -> None:
    text = run(command, "--help").stdout
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("unskew ")]
    assert lines
    for line in lines:
        name, *words = shlex.split(line)[1:]
        typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]


def test_every_command_answers_machines_too() -> None:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--quiet", "--verbose"} <= options, name


MOST = {"fit": 15} | dict.fromkeys(("predict", "recommend", "similar", "split", "export", "list", "doctor"), 12)


@pytest.mark.parametrize("name", MOST)
def test_a_command_has_few_options(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = [parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")]
    assert len(set(options) - {"--json", "--quiet", "--verbose", "--help"}) <= MOST[name], options


def test_help_has_a_short_name(run: Run) -> None:
    assert run("fit", "-h").stdout == run("fit", "--help").stdout


def test_verbose_says_what_is_done(run: Run, files: Path, tmp_path: Path) -> None:
    words = (
        "fit",
        files / "ratings.csv",
        "--method",
        "naive",
        "--set",
        "training.max_epochs=1",
        "--out",
        tmp_path / "m",
    )
    assert re.search(r"unskew\.data\.read: read [\d,]+ rows of .*ratings\.csv", run(*words, "--verbose").stderr)


def test_the_examples_work_one_after_the_other(
    run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ratings.csv", "test.csv", "pairs.csv", "A.csv", "B.csv"):
        copy(files / name, tmp_path)
    copy(files / "test.csv", tmp_path / "new-ratings.csv")
    monkeypatch.chdir(tmp_path)
    for command in (
        "fit",
        "predict",
        "recommend",
        "evaluate",
        "diagnose",
        "compare",
        "similar",
        "split",
        "list",
        "export",
    ):
        run(*shlex.split(example_of(run(command, "--help").stdout))[1:])
    assert {path.name for path in tmp_path.iterdir()} == {
        *("ratings.csv", "test.csv", "pairs.csv", "model", "users.csv", "predictions.csv", "recommendations.csv"),
        *("A.csv", "B.csv", "new-ratings.csv", "vectors", "parts"),
    }
