"""The package as a whole: a room imports itself and those before it, and a wheel holds every file."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import unskew

ROOT = Path(__file__).parents[1]

PACKAGE = Path(unskew.__file__).parent
ORDER = (
    *("_version", "errors", "gone", "special", "runtime", "compiled", "settings", "registry"),
    *("findings", "store.atomic", "charts", "metrics", "data", "datasets"),
    *("losses", "nets", "training", "calibration", "posterior", "distributed", "selection", "propensity"),
    *("topk", "explore", "asked", "model", "methods", "store", "fold_in"),
    *("update", "export", "serve", "evaluation", "diagnosis", "bench"),
    *("report", "testing", "cli", "__main__"),
)
FACADES = {
    ("model", "fold_in"): "fold_in",
    ("model", "update"): "update",
    ("model", "diagnosis"): "diagnose",
    ("model", "store"): "save",
}
SOURCES = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"}


def room(module):
    """The longest name in the order that the module lies in; parts of `store` lie before the others."""
    parts = module.removeprefix("unskew.").split(".")
    return next(name for name in (".".join(parts[:2]), parts[0]) if name in ORDER)


def imported(tree):
    """Modules of ours that are imported, each with the function it is imported in, but for annotations alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    inside = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        inside |= dict.fromkeys(map(id, ast.walk(function)), function.name)
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            yield name, inside.get(id(node))


def test_rooms_import_those_before_them_but_for_the_facades():
    used, wrong = set(), []
    for path, tree in SOURCES.items():
        own = room(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        for module, function in imported(tree):
            if module.split(".")[0] == "unskew" and module != "unskew":
                if FACADES.get((own, room(module)), "") == function:
                    used.add((own, room(module)))
                elif ORDER.index(room(module)) > ORDER.index(own):
                    wrong.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert not wrong
    assert used == FACADES.keys()


def test_only_the_extra_imports_torch():
    users = {path for path, tree in SOURCES.items() for module, _ in imported(tree) if module == "torch"}
    assert users == {PACKAGE / "nets" / "torch.py"}


def test_a_wheel_holds_every_file_of_the_package_and_no_other(tmp_path):
    pytest.importorskip("hatchling", reason="needs hatchling to build the wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "unskew = unskew.cli:main" in archive.read(about).decode()
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert held == {str(path.relative_to(PACKAGE.parent)) for path in files}
    assert {".toml", ".html", ".css", ".pyi", ".py"} <= {Path(name).suffix for name in held}
