"""The order of the rooms: each imports itself and those before it, also inside functions, read from the source."""

import ast
from pathlib import Path

import pytest

import unskew

PACKAGE = Path(unskew.__file__).parent
ORDER = (
    *("_version", "errors", "gone", "special", "runtime", "compiled", "settings", "registry"),
    *("findings", "store.atomic", "charts", "metrics", "data", "datasets"),
    *(
        "losses",
        "nets",
        "training",
        "calibration",
        "posterior",
        "selection",
        "propensity",
        "topk",
        "neighbours",
        "model",
        "methods",
    ),
)
# The learning side is in order; all other rooms only come after it.
AFTER = ("store", "fold_in", "evaluation", "estimation", "diagnosis", "export", "testing", "bench")
AFTER += ("report", "health", "cli", "__main__", "suites")
FACADES = {  # which hand on to a later room, each in one function
    ("model", "fold_in"): "fold_in",
    ("model", "diagnosis"): "diagnose",
    ("model", "store"): "save",
}
SOURCES = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py"]


def room(module):
    """The longest name in the order that the module lies in; parts of `store` lie before the others."""
    parts = module.removeprefix("unskew.").split(".")
    return next((name for name in (".".join(parts[:2]), parts[0]) if name in ORDER), parts[0])


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module


def without_facades(tree):
    """The module without imports for annotations alone, and the names of functions with imports by what they import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {module: function.name for function in functions for module in imports(function)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_itself_and_those_before_it(path):
    own = room(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    assert own in (*ORDER, *AFTER), f"{own} has no place in the order"
    if own not in ORDER:
        return
    tree = ast.parse(path.read_text())
    inside = without_facades(tree)
    allowed = ORDER[: ORDER.index(own) + 1]
    for module in imports(tree):
        if module.split(".")[0] == "unskew" and room(module) not in allowed:
            facade = FACADES.get((own, room(module)))
            assert facade is not None, f"{own} must not import {module}"
            assert inside.get(module) == facade, f"{module} is for {facade} alone"


def test_every_facade_is_used():
    used = set()
    tree = ast.parse((PACKAGE / "model.py").read_text())
    for module, function in without_facades(tree).items():
        used.add((("model", room(module)), function))
    assert set(FACADES.items()) <= used


def test_only_the_extra_imports_torch():
    users = {
        path
        for path in SOURCES
        if any(module.split(".")[0] == "torch" for module in imports(ast.parse(path.read_text())))
    }
    assert users == {PACKAGE / "nets" / "torch.py"}
