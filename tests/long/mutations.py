"""Do the tests notice a wrong formula? Draw mutants of the source at random and run each against its room's tests.

    python tests/long/mutations.py --count 200 --seed 1 --out mutants.jsonl

A mutant is the package with one place changed by one operator (`OPERATORS`), drawn by the seed: operators first, so
that rare ones have their share, then one of their places in the rooms. Every mutant has a copy of the tree of its own.
Its tests are those of its room that run the changed statement, quick ones first, and the file of those whose fixtures
do; one that only imports or Numba run has all tests of the room. It is caught if one fails or they take `LIMIT` times
as long as unchanged. What stands in `--out` is not run again, so it is a file for one state of the tree.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn
from xml.etree import ElementTree

import coverage
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TESTS = {
    "losses": ("tests/losses", "tests/methods/test_methods.py"),
    "posterior": ("tests/posterior", "tests/methods/test_bayesian.py"),
    "calibration": ("tests/calibration", "tests/methods/test_methods.py"),
    "evaluation": ("tests/evaluation", "tests/diagnosis"),
}
LIBRARIES = [
    "numpy", "scipy.stats", "scipy.optimize", "scipy.sparse", "numba", "pyarrow.parquet", "pytest", "hypothesis",
]  # fmt: skip
FORKING = multiprocessing.get_context("forkserver")  # every mutant's process has the libraries imported
COPIED = ("src", "tests", "benchmarks", "pyproject.toml")
ROLES = ("prediction", "imputation", "propensity")
LIMIT = 3  # times as long as unchanged, plus two minutes
REDUCTIONS = {"sum": "mean", "mean": "sum", "total": "mean", "min": "max", "max": "min"}
FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def sign(node: ast.AST) -> ast.AST | None:
    """Turn a sum into a difference, a product into a quotient, or drop a minus."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    if isinstance(node, ast.BinOp) and type(node.op) in FLIPPED:
        return ast.BinOp(node.left, FLIPPED[type(node.op)](), node.right)  # type: ignore[arg-type]
    return None


def constant(node: ast.AST) -> ast.AST | None:
    """Add one to a number."""
    known = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return ast.Constant(node.value + 1) if known else None


def dropped(node: ast.AST) -> ast.AST | None:
    """Leave out the second part of a sum, difference, product or quotient."""
    return node.left if isinstance(node, ast.BinOp) and type(node.op) in FLIPPED else None


def swapped(node: ast.AST) -> ast.AST | None:
    """Name another role."""
    known = isinstance(node, ast.Constant) and node.value in ROLES
    return ast.Constant(ROLES[(ROLES.index(node.value) + 1) % len(ROLES)]) if known else None


def bound(node: ast.AST) -> ast.AST | None:
    """Compare with the end included where it is left out, and the reverse; or turn an equality around."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        return ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]
    return None


def fold(node: ast.AST) -> ast.AST | None:
    """Compare folds with the next one, or leave out the last fold of a range."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and names_folds(node.left):
        return ast.Compare(node.left, node.ops, [ast.BinOp(node.comparators[0], ast.Add(), ast.Constant(1))])
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range" and names_folds(node.args[-1]):
        return ast.Call(node.func, [*node.args[:-1], ast.BinOp(node.args[-1], ast.Sub(), ast.Constant(1))], [])
    return None


def names_folds(node: ast.AST) -> bool:
    """Whether an expression is about folds, by its name."""
    return isinstance(node, ast.Name | ast.Attribute) and "fold" in ast.unparse(node).lower()


def reduction(node: ast.AST) -> ast.AST | None:
    """Take a mean for a sum, a sum for a mean, the least for the largest."""
    known = isinstance(node, ast.Attribute) and node.attr in REDUCTIONS
    return ast.Attribute(node.value, REDUCTIONS[node.attr], node.ctx) if known else None


def summed(node: ast.AST) -> ast.AST | None:
    """Sum over the rows of a batch where a total over the pairs that they stand for is due."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "total" and node.args:
        rows = ast.Attribute(node.func.value, "cells", ast.Load())
        return ast.Call(node.func, [ast.BinOp(node.args[0], ast.Div(), rows)], [])
    return None


OPERATORS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "sign": sign, "constant": constant, "dropped term": dropped, "swapped role": swapped, "bound": bound,
    "fold": fold, "reduction": reduction, "sum for total": summed,
}  # fmt: skip


class Mutant(NamedTuple):
    """One place of one file, by the number of its node, and the operator that changes it."""

    file: str
    node: int
    operator: str

    @property
    def room(self) -> str:
        return Path(self.file).parts[2]


def places(file: Path) -> Iterator[Mutant]:
    """Find every place that an operator changes; annotations and text are no formulas."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = set[int]()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns", "exc")]
        parts += [node] if isinstance(node, ast.JoinedStr) else []
        parts += [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else []
        skipped |= {id(each) for part in parts if isinstance(part, ast.AST) for each in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        for name, operator in OPERATORS.items():
            if id(node) not in skipped and operator(node) is not None:
                yield Mutant(str(file.relative_to(ROOT)), number, name)


def drawn(rooms: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants without repetition: an operator, then one of its places."""
    by_operator: dict[str, list[Mutant]] = {name: [] for name in OPERATORS}
    for file in sorted(file for room in rooms for file in (ROOT / "src/unskew" / room).glob("*.py")):
        for place in places(file):
            by_operator[place.operator].append(place)
    rng, found = np.random.default_rng(seed), list[Mutant]()
    while len(found) < count and any(by_operator.values()):
        own = by_operator[str(rng.choice([name for name, left in by_operator.items() if left]))]
        found.append(own.pop(int(rng.integers(len(own)))))
    return found


class Change(NamedTuple):
    """What a mutant is: the source, a line that says so, the lines of its statement, and whether Numba runs them."""

    source: str
    line: str
    statement: range
    kernel: bool

    @classmethod
    def of(cls, mutant: Mutant) -> Change:
        tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
        node: Any = list(ast.walk(tree))[mutant.node]
        new = OPERATORS[mutant.operator](copy.deepcopy(node))
        assert new is not None
        line = f"{mutant.file}:{node.lineno}: {ast.unparse(node)} -> {ast.unparse(new)}"
        around: list[Any] = [each for each in ast.walk(tree) if isinstance(each, ast.stmt) and node in ast.walk(each)]
        statement = range(around[-1].lineno, around[-1].end_lineno + 1)  # the innermost is walked last
        kernel = "njit" in "".join(map(ast.unparse, getattr(around[0], "decorator_list", ())))

        class Replace(ast.NodeTransformer):
            def visit(self, each: ast.AST) -> ast.AST:
                return ast.copy_location(new, node) if each is node else self.generic_visit(each)

        return cls(ast.unparse(ast.fix_missing_locations(Replace().visit(tree))), line, statement, kernel)


def run_tests(tree: Path, words: list[str]) -> NoReturn:
    """Run pytest in a copy of the package, in a process that has imported the libraries and nothing of the package."""
    os.chdir(tree)
    sys.dont_write_bytecode = False  # what every mutant imports is compiled once, in the warm copy
    os.environ["PYTHONPATH"] = str(tree / "src")  # of processes that tests start
    sys.path.insert(0, str(tree / "src"))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.exit(pytest.main(["-x", "-q", "--junitxml=ran.xml", "-o", "junit_family=xunit1", *words]))


def passes(tree: Path, words: list[str], seconds: float | None = None) -> bool:
    """Run tests (and options of pytest) on a copy of the package until the first failure; too slow is a failure."""
    process = FORKING.Process(target=run_tests, args=(tree, words))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode == 0


class Tests:
    """The tests of a room: how long each takes, and which of them run a line."""

    def __init__(self, tree: Path) -> None:
        cases = [case for case in ElementTree.parse(tree / "ran.xml").iter("testcase") if case.find("skipped") is None]
        self.seconds = {f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0)) for case in cases}
        ran = coverage.CoverageData(str(tree / ".coverage"))
        ran.read()
        self.contexts = {
            str(Path(file).relative_to(tree)): ran.contexts_by_lineno(file) for file in ran.measured_files()
        }

    def of(self, mutant: Mutant, lines: range) -> list[str]:
        """Return tests that run some of these lines, quick ones first, then others of a file whose fixtures do."""
        contexts = self.contexts[mutant.file]
        ran = {tuple(name.rsplit("|", 1)) for line in lines for name in contexts.get(line, ()) if name}
        touching, shared = {name for name, _ in ran}, {name.partition("::")[0] for name, when in ran if when == "setup"}
        own = [name for name in self.seconds if name in touching or name.partition("::")[0] in shared]
        return sorted(own or self.seconds, key=lambda name: (name not in touching, self.seconds[name]))


class Runner:
    """A warm copy of the tree, from which every mutant has its own, and how each room's tests run unchanged."""

    def __init__(self, folder: Path, rooms: set[str]) -> None:
        self.folder, self.warm = folder, folder / "unchanged"
        for name in COPIED:
            copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            (self.warm / name).parent.mkdir(parents=True, exist_ok=True)
            copied(ROOT / name, self.warm / name)  # with what Numba has compiled
        self.tests = dict[str, Tests]()
        for room in sorted(rooms):
            began = time.monotonic()
            counted = [f"--cov=unskew.{room}", "--cov-context=test", "--cov-report="]
            if not passes(self.warm, [*counted, *TESTS[room]]):
                raise SystemExit(f"The tests of {room} fail without any change: {' '.join(TESTS[room])}")
            self.tests[room] = Tests(self.warm)
            took = time.monotonic() - began
            print(f"{room}: {len(self.tests[room].seconds)} tests in {took:.0f} s unchanged", flush=True)

    def catches(self, mutant: Mutant, change: Change) -> bool:
        """Change one place of a copy and run its tests."""
        tests = self.tests[mutant.room]
        own = tests.of(mutant, change.statement)
        with TemporaryDirectory(dir=self.folder) as folder:
            tree = Path(folder)
            for name in COPIED[:-1]:
                shutil.copytree(self.warm / name, tree / name, copy_function=os.link)
            shutil.copy2(self.warm / COPIED[-1], tree)
            (tree / mutant.file).unlink()
            (tree / mutant.file).write_text(change.source, encoding="utf-8")
            if change.kernel:  # Numba does not see that a kernel of another file has changed
                for compiled in (tree / mutant.file).parent.rglob("*.nbi"):
                    compiled.unlink()
            return not passes(tree, own, LIMIT * sum(tests.seconds[name] for name in own) + 120)


def table(found: dict[Mutant, bool]) -> str:
    """Return how many were caught, by room and operator."""
    rooms = [*sorted({mutant.room for mutant in found}), "all"]
    rows = [["operator", *rooms], ["---"] * (len(rooms) + 1)]
    for operator in (*OPERATORS, "all"):
        own = {mutant: caught for mutant, caught in found.items() if operator in (mutant.operator, "all")}
        cells = [[caught for mutant, caught in own.items() if room in (mutant.room, "all")] for room in rooms]
        rows.append([operator, *(f"{sum(cell)} of {len(cell)}" if cell else "" for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Run what is not in the file yet, then count what was caught and list what was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", action="append", choices=TESTS, help="may be repeated (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at a time")
    parser.add_argument("--out", type=Path, default=os.devnull, help="lines of JSON: what is there is not run again")
    asked = parser.parse_args()
    changes = {mutant: Change.of(mutant) for mutant in drawn(asked.room or TESTS, asked.count, asked.seed)}
    known = dict(map(json.loads, asked.out.read_text(encoding="utf-8").splitlines() if asked.out.exists() else ()))
    wanted = [mutant for mutant, change in changes.items() if change.line not in known]
    os.environ.update(NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for name in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):  # caches are next to the copy's own files
        os.environ.pop(name, None)
    FORKING.set_forkserver_preload(LIBRARIES)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool, asked.out.open("a") as out:
        runner = Runner(Path(folder), {mutant.room for mutant in wanted})
        caught = pool.map(lambda mutant: runner.catches(mutant, changes[mutant]), wanted)
        for number, (mutant, one) in enumerate(zip(wanted, caught, strict=True), 1):
            known[changes[mutant].line] = one
            print(json.dumps([changes[mutant].line, one]), file=out, flush=True)
            print(f"{number}/{len(wanted)} {'caught' if one else 'SURVIVED'}: {changes[mutant].line}", flush=True)
    found = {mutant: known[change.line] for mutant, change in changes.items()}
    print(table(found), "survivors:", *sorted(changes[m].line for m, one in found.items() if not one), sep="\n")


if __name__ == "__main__":
    main()
