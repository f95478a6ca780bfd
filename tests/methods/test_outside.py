"""Methods and parts of other packages, found by their entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unskew

MODULE = """
from dataclasses import dataclass
import unskew

@dataclass(frozen=True, kw_only=True)
class MyNaive(unskew.Naive):
    'Plain training by somebody else.'

@dataclass(frozen=True, kw_only=True)
class MyPopularity(unskew.Popularity):
    'Popularity by somebody else.'
"""
POINTS = """
[unskew.methods]
my-naive = mine:MyNaive
lost = nowhere:Lost

[unskew.propensities]
my-popularity = mine:MyPopularity
"""


@pytest.fixture
def outside(tmp_path):
    """Runs a command where a package with entry points is installed."""
    (tmp_path / "site" / "mine-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "mine.py").write_text(MODULE)
    (tmp_path / "site" / "mine-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"
    )
    (tmp_path / "site" / "mine-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    rows = "".join(f"{user},{item},{1 + (user * item) % 5}\n" for user in range(12) for item in range(8))
    (tmp_path / "ratings.csv").write_text(f"user_id,item_id,rating\n{rows}")
    source = Path(unskew.__file__).parents[1]
    paths = os.pathsep.join([str(tmp_path / "site"), str(source)])

    def run(*words, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "unskew", *words],
            env={**os.environ, "PYTHONPATH": paths},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    run.folder = tmp_path
    return run


def test_a_folder_names_the_package_of_a_part_and_refuses_one_that_is_not_installed(outside):
    outside("fit", "ratings.csv", "--method", "my-naive", "--out", "a", "--set", "training.max_epochs=1")
    manifest = outside.folder / "a" / "model.json"
    assert json.loads(manifest.read_text())["method"]["kind"] == "mine:MyNaive"
    for kind, code in (("MyNaive", 0), ("gone:MyNaive", 2), ("os:system", 2)):
        text = json.loads(manifest.read_text())
        text["method"]["kind"] = kind
        manifest.write_text(json.dumps(text))
        said = outside("recommend", "a", "--k", "2", "--keep-seen", code=code).stderr
        assert not code or f"is a {kind} of the package {kind.partition(':')[0]!r}, which is not installed" in said


def test_parts_of_other_packages_work_by_name_and_a_broken_one_is_named(outside):
    short = ("--set", "training.max_epochs=1")
    outside("fit", "ratings.csv", "--method", "my-naive", "--out", "a", *short)
    outside("recommend", "a", "--k", "2", "--keep-seen")
    outside("fit", "ratings.csv", "--method", "ips", "--set", "propensity=mypopularity", "--out", "b", *short)
    outside("evaluate", "b", "ratings.csv")
    listed = outside("list")
    assert "my-naive" in listed.stdout
    assert "warning: lost of mine cannot be used: ModuleNotFoundError: No module named 'nowhere'." in listed.stderr
    assert "error: lost of mine cannot be used" in outside("fit", "ratings.csv", "--method", "lost", code=2).stderr
