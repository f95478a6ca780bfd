"""A package of somebody else, built and installed: its method, net, metric and data set work in every command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import unskew

pytest.importorskip("hatchling", reason="needs hatchling to build a wheel")
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "mine"
version = "1.0"

[project.entry-points."unskew.methods"]
my-ips = "mine:MyIPS"
lost = "nowhere:Lost"

[project.entry-points."unskew.nets"]
my-net = "mine:MyNet"

[project.entry-points."unskew.propensities"]
my-popularity = "mine:MyPopularity"

[project.entry-points."unskew.metrics"]
overshoot = "mine:OVERSHOOT"
mse = "mine:OVERSHOOT"

[project.entry-points."unskew.datasets"]
shop = "mine:SHOP"
"""
MODULE = """
import os
if "MINE_RAISES" in os.environ:
    raise RuntimeError("this package must not be imported")
from dataclasses import dataclass

import numpy as np
import unskew
from unskew.datasets.published import Counts, Dataset, Source
from unskew.metrics.table import Metric

@dataclass(frozen=True, kw_only=True)
class MyIPS(unskew.IPS):
    'Weighting by somebody else.'

@dataclass(frozen=True, kw_only=True)
class MyNet(unskew.MF):
    'Factors by somebody else.'
    n_factors: int = 2

@dataclass(frozen=True, kw_only=True)
class MyPopularity(unskew.Popularity):
    'Popularity by somebody else.'

def too_high(prediction, label):
    return np.maximum(prediction - label, 0)

def mean_too_high(y_true, y_pred, sample_weight=None):
    return float(np.average(too_high(y_pred, y_true), weights=sample_weight))

def read(folder, positive):
    train, test = (unskew.read_log(folder / f"{name}.csv", positive=positive) for name in ("train", "test"))
    return Dataset("shop", train, test)

OVERSHOOT = Metric("overshoot", "Overshoot", "predictions above ratings", "pairs", mean_too_high, False, too_high)
SHOP = Source("shop", "The shop", "nowhere", "none", ("train.csv",), "Nobody. 2026.", 3, (Counts(20, 12, 160),), read)
"""
PARTS = ("--method", "my-ips", "--set", "net=mynet", "--set", "propensity=mypopularity")
SHORT = ("--set", "training.max_epochs=1")
COMMANDS = {  # each with words that its output holds
    "predict": ("a", "data/test.csv", "--out", "predictions.csv"),
    "recommend": ("a", "--keep-seen", "--k", "2"),
    "similar": ("a", "--item", "1"),
    "evaluate": ("a", "shop:data"),
    "compare": ("a", "b", "--json"),
    "diagnose": ("a", "--json"),
    "export": ("a", "--to", "parquet"),
    "split": ("shop:data", "--out", "parts"),
    "tune": ("shop:data", "--method", "my-ips", "--trials", "1", *SHORT, "--set", "validation.criterion=overshoot"),
    "benchmark": ("shop:data", "--methods", "my-ips", "--seeds", "1", *SHORT, "--out", "results"),
    "list": (),
}
RUN = """
import json, sys
from typer.testing import CliRunner
from unskew.cli import app

found = {}
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    found[" ".join(words)] = done.exit_code, done.stdout, done.stderr
print(json.dumps(list(found.values())))
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Runs commands, one after the other in one process, where the package is installed."""
    folder = tmp_path_factory.mktemp("outside")
    for name, text in {"pyproject.toml": PROJECT, "mine.py": MODULE}.items():
        (folder / name).write_text(text)
    quietly = {"cwd": folder, "check": True, "capture_output": True}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel"], **quietly)
    (wheel,) = (folder / "dist").glob("mine-1.0-*.whl")
    ZipFile(wheel).extractall(folder / "site")  # which is what pip does
    (folder / "mine.py").unlink()  # what is used is what is installed
    (folder / "data").mkdir()
    for name, shift in (("train", 0), ("test", 1)):
        rows = [f"{u},{i},{1 + (u * i + shift) % 5}" for u in range(20) for i in range(12) if shift or (u + i) % 3]
        (folder / "data" / f"{name}.csv").write_text("\n".join(["user_id,item_id,rating", *rows, ""]))
    paths = os.pathsep.join([str(folder / "site"), str(Path(unskew.__file__).parents[1])])

    def run(*commands, **variables):
        words = [sys.executable, "-c", RUN, json.dumps(commands)]
        environment = {**os.environ, "PYTHONPATH": paths, **variables}
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    first = [
        ("fit", "shop:data", *words, *SHORT) for words in ((*PARTS, "--out", "a"), ("--method", "naive", "--out", "b"))
    ]
    run.first = run(*first)
    run.folder = folder
    return run


def test_every_command_uses_what_an_installed_package_brings(outside):
    lines = [(command, *words) for command, words in COMMANDS.items()]
    found = dict(zip(("plain", "fit", *COMMANDS), [*outside.first, *outside(*lines)], strict=True))
    assert {name: stderr for name, (code, _, stderr) in found.items() if code} == {}
    stdout = {name: text for name, (_, text, _) in found.items()}
    assert "overshoot" in stdout["evaluate"]
    assert "overshoot: " in stdout["tune"]
    assert "my-ips" in stdout["benchmark"]
    for name in ("my-ips", "mynet", "mypopularity", "overshoot", "shop: The shop"):
        assert name in stdout["list"]
    kinds = json.loads((outside.folder / "a" / "model.json").read_text())["method"]
    assert (kinds["kind"], kinds["net"]["kind"]) == ("mine:MyIPS", "mine:MyNet")
    for sentence in (
        "warning: lost of mine cannot be used: ModuleNotFoundError: No module named 'nowhere'.",
        "warning: mse of mine cannot be used: ParameterError: The name 'mse' is taken by unskew.metrics.table; ",
    ):
        assert sentence in found["list"][2]


def test_a_folder_names_the_package_of_a_part_and_refuses_one_that_is_not_installed(outside):
    manifest, kinds = outside.folder / "a" / "model.json", ("MyIPS", "gone:MyIPS", "os:system")
    commands = []
    for number, kind in enumerate(kinds):
        text = json.loads(manifest.read_text())
        text["method"]["kind"] = kind
        copy = outside.folder / f"c{number}"
        copy.mkdir()
        for path in (outside.folder / "a").iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        (copy / "model.json").write_text(json.dumps(text))
        commands.append(("recommend", f"c{number}", "--k", "2", "--keep-seen"))
    *found, lost = outside(*commands, ("fit", "shop:data", "--method", "lost"))
    for kind, (code, _, stderr) in zip(kinds, found, strict=True):
        package = kind.partition(":")[0]
        refused = f"is a {kind} of the package {package!r}, which is not installed"
        assert (code, refused in stderr) == ((0, False) if kind == "MyIPS" else (2, True))
    assert lost[0] == 2
    assert "error: lost of mine cannot be used" in lost[2]


def test_names_are_listed_without_importing_the_package_that_offers_them(outside):
    """It raises if imported: its names are there, all that is not its own works, using it gives one sentence."""
    others = ("fit", "data/train.csv", "--method", "naive", *SHORT, "--set", "net=mf", "--out", "d")
    commands = [others, ("recommend", "d", "--k", "2"), ("similar", "d", "--item", "1")]
    commands += [("split", "data/train.csv", "--out", "parts"), ("list", "--json"), ("fit", "shop:data", "--out", "e")]
    uses = [("fit", "data/train.csv", "--method", "my-ips"), ("fit", "data/train.csv", "--set", "net=mynet")]
    *works, listed, dataset, method, net, model, mistyped = outside(
        *commands, *uses, ("recommend", "a"), ("fit", "data/train.csv", "--method", "my-isp"), MINE_RAISES="1"
    )
    assert [(code, "must not be imported" in stderr) for code, _, stderr in works] == [(0, False)] * 4
    rows = {row["name"]: row["summary"] for row in json.loads(listed[1])["methods"]}
    sentence = "cannot be used: RuntimeError: this package must not be imported."
    assert rows["my-ips"] == f"my-ips of mine {sentence}"
    assert "dce-bayes" in rows
    for code, _, stderr in (dataset, method):
        assert (code, stderr.count("\n"), stderr.endswith(f"of mine {sentence}\n")) == (2, 1, True)
    assert (net[0], model[0], mistyped[0]) == (2, 2, 2)
    assert "is a mine:MyIPS of the package 'mine', which is not installed or broken" in model[2]
    assert "did you mean 'my-ips'?" in mistyped[2]
