"""The layers of the design: who may import whom, read from the source itself."""

import ast
from pathlib import Path

import pytest

import unskew

PACKAGE = Path(unskew.__file__).parent

# Each layer may import itself and the layers named; everybody may import what lies below all layers.
BELOW = {"unskew.errors", "unskew.progress", "unskew.fast", "unskew.seeds", "unskew.words", "unskew.gone"}
BELOW |= {"unskew.files.atomic", "unskew.files.seal"}
ALLOWED = {
    "errors": set(),
    "fast": set(),
    "words": set(),
    "_version": set(),
    "seeds": set(),
    "group": set(),
    "processes": set(),
    "risk": set(),
    "metrics": set(),
    "theory": {"metrics"},
    "data": {"group"},
    "datasets": {"data"},
    "nets": {"group"},
    "training": {"data", "nets", "files", "_version", "group", "workers", "risk", "express"},
    "express": {"data", "nets", "risk", "calibration", "training"},
    "selection": {"data"},
    "propensity": {"data", "nets", "training", "risk", "group"},
    "calibration": {"data", "nets", "training", "metrics", "group"},
    "overlap": {"training", "group"},
    "topk": {"data"},
    "recommender": {
        "data",
        "nets",
        "training",
        "calibration",
        "overlap",
        "topk",
        "files",
        "diagnosis",
        "folding",
    }
    | {"selection"},
    "export": {"data", "nets", "files", "recommender", "_version"},
    "folding": {"data", "nets", "risk", "training", "recommender"},
    "methods": {"group", "data", "nets", "training", "risk", "propensity", "calibration", "recommender"}
    | {"overlap", "selection"},
    "recipe": {"data", "nets", "training", "propensity", "calibration", "methods", "files"},
    "evaluation": {"data", "metrics"},
    "crossfit": {"data", "methods", "recommender", "training"},
    "estimation": {"data", "metrics", "theory", "training", "propensity", "calibration", "methods", "recommender"}
    | {"topk", "crossfit"},
    "diagnosis": {"data", "metrics", "theory", "training", "propensity", "methods", "recommender", "crossfit"}
    | {"estimation"},
    "testing": {"unskew", "data", "nets", "training", "risk", "propensity", "calibration", "methods", "recommender"}
    | {"recipe", "files"},
    "bench": {"unskew", "data", "nets", "training", "risk", "propensity", "methods", "recommender", "metrics"}
    | {"evaluation", "files", "recipe", "processes"},
    "reproduce": {"bench", "data", "training", "methods", "recommender", "metrics", "files", "recipe"},
    "report": {"data", "metrics", "methods", "propensity", "recommender", "training", "estimation", "diagnosis", "topk"}
    | {"recipe", "files", "bench", "_version"},
    "demo": {"data", "training", "propensity", "calibration", "methods", "recommender", "evaluation"},
}
SOURCES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE]


def layer(module):
    return module.split(".")[1] if "." in module else module


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_the_layers(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if own not in ALLOWED:
        return
    for module in imports(path):
        if module.startswith("unskew"):
            assert module in BELOW or layer(module) in ALLOWED[own] | {own}, f"{own} must not import {module}"


@pytest.mark.parametrize("module", sorted(BELOW))
def test_what_everybody_may_import_imports_nothing_of_ours_but_the_same(module):
    path = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    assert {name for name in imports(path) if name.startswith("unskew")} <= BELOW


@pytest.mark.parametrize("pure", ["metrics", "theory", "report"])
def test_metrics_theory_and_reports_never_import_torch(pure):
    for path in (PACKAGE / pure).rglob("*.py"):
        assert not any(module.split(".")[0] == "torch" for module in imports(path)), path
