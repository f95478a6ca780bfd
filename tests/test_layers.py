"""The layers of the design: who may import whom, read from the source itself."""

import ast
from pathlib import Path

import pytest

import unskew

PACKAGE = Path(unskew.__file__).parent

# Each layer may import itself and the layers named; everybody may import errors.
ALLOWED = {
    "errors": set(),
    "_version": set(),
    "risk": set(),
    "metrics": set(),
    "data": set(),
    "datasets": {"data"},
    "nets": set(),
    "training": {"data", "nets"},
    "utility": {"data", "nets", "training", "risk", "calibration"},
    "propensity": {"data", "nets", "training", "risk", "utility"},
    "calibration": {"data", "nets", "training", "metrics"},
    "overlap": {"training"},
    "topk": {"data"},
    "recommender": {"data", "training", "utility", "calibration", "overlap", "topk", "files"},
    "methods": {"data", "nets", "training", "risk", "utility", "propensity", "calibration", "recommender", "overlap"},
    "recipe": {"nets", "training", "propensity", "calibration", "methods", "files"},
    "sensitivity": {"data", "training", "propensity", "recommender"},
    "evaluation": {"data", "metrics"},
    "testing": {"unskew", "data", "nets", "training", "risk", "propensity", "calibration", "methods", "recommender"}
    | {"recipe", "files"},
    "bench": {"unskew", "data", "nets", "training", "risk", "propensity", "methods", "recommender", "metrics"}
    | {"evaluation", "files", "recipe"},
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
            assert layer(module) in ALLOWED[own] | {own, "errors"}, f"{own} must not import {module}"


@pytest.mark.parametrize("pure", ["metrics", "report"])
def test_metrics_and_reports_never_import_torch(pure):
    for path in (PACKAGE / pure).rglob("*.py"):
        assert not any(module.split(".")[0] == "torch" for module in imports(path)), path
