"""The order of the rooms: each imports itself and those before it, also inside functions, read from the source."""

import ast
from pathlib import Path

import unskew

PACKAGE = Path(unskew.__file__).parent
ORDER = (
    *("_version", "errors", "gone", "special", "runtime", "compiled", "settings", "registry"),
    *("findings", "store.atomic", "charts", "metrics", "data", "datasets"),
    *("losses", "nets", "training", "calibration", "posterior", "distributed", "selection", "propensity"),
    *("topk", "explore", "neighbours", "model", "methods", "store", "fold_in"),
    *("update", "export", "serve", "evaluation", "diagnosis", "bench"),
    *("report", "testing", "cli", "__main__"),
)
FACADES = {
    ("model", "fold_in"): "fold_in",
    ("model", "update"): "update",
    ("model", "diagnosis"): "diagnose",
    ("model", "store"): "save",
}
SOURCES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


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
    for path in SOURCES:
        own = room(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        for module, function in imported(ast.parse(path.read_text())):
            if module.split(".")[0] == "unskew" and module != "unskew":
                if FACADES.get((own, room(module)), "") == function:
                    used.add((own, room(module)))
                elif ORDER.index(room(module)) > ORDER.index(own):
                    wrong.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert not wrong
    assert used == FACADES.keys()


def test_only_the_extra_imports_torch():
    users = {path for path in SOURCES for module, _ in imported(ast.parse(path.read_text())) if module == "torch"}
    assert users == {PACKAGE / "nets" / "torch.py"}
