"""The documents tell the truth: their Python runs, their commands are the ones that are tested, their links exist."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from torch import Tensor

import unskew
import unskew.recipe
from unskew.methods.robust import DRJL
from unskew.testing import check_method
from unskew.training.view import View

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readmes_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(README, "python")
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "model.json").exists()


def test_the_method_that_contributing_adds_passes_the_suite(monkeypatch):
    monkeypatch.setattr("unskew.recipe._registered", {})  # what is registered here must not outlive the test
    (code,) = blocks(CONTRIBUTING, "python")
    assert len(code.strip().splitlines()) < 20
    namespace = {"dataclass": dataclass, "DRJL": DRJL, "View": View, "Tensor": Tensor, "__name__": "contributed"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), namespace)
    capped = unskew.recipe.register(namespace["Capped"])
    check_method(replace(capped(), propensity=unskew.Additive()))


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_between_the_documents_exist(name):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
        if "://" not in target:
            assert ((ROOT / name).parent / target).exists(), target


def test_the_readmes_commands_use_the_committed_constraints():
    commands = [block for block in blocks(README, "sh") if "pip install" in block]
    assert len(commands) == 2
    assert all("-c constraints.txt" in command for command in commands)
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(dependency.startswith("torch==") for dependency in project["dependencies"])


def test_every_registered_method_is_in_the_methods_document():
    text = (ROOT / "docs/methods.md").read_text()
    missing = [entry.name for entry in unskew.methods() if f"`{entry.name}`" not in text]
    assert not missing
