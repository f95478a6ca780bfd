"""Do the tests notice a wrong formula? Draw mutants of the source at random and run each against its room's tests.

    python tests/long/mutations.py --count 200 --seed 1 --out mutants.jsonl

A mutant is the package with one place changed by one operator (`OPERATORS`), drawn by the seed: operators first, so
that rare ones have their share, then one of their places in the rooms. It is caught if a test of its room fails or the
run takes `LIMIT` times as long as it does unchanged. Mutants that are in the file already are not run again.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
TESTS = {
    "losses": ("tests/losses", "tests/methods"),
    "posterior": ("tests/posterior", "tests/methods/test_bayesian.py"),
    "calibration": ("tests/calibration",),
    "evaluation": ("tests/evaluation", "tests/diagnosis"),
}
ROLES = ("prediction", "imputation", "propensity")
LIMIT = 3
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


def reduction(node: ast.AST) -> ast.AST | None:
    """Take a mean for a sum, a sum for a mean, the least for the largest."""
    known = isinstance(node, ast.Attribute) and node.attr in REDUCTIONS
    return ast.Attribute(node.value, REDUCTIONS[node.attr], node.ctx) if known else None


OPERATORS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "sign": sign, "constant": constant, "dropped term": dropped, "swapped role": swapped, "bound": bound,
    "reduction": reduction,
}  # fmt: skip


class Mutant(NamedTuple):
    """One place of one file, by the number of its node, and the operator that changes it."""

    file: str
    node: int
    operator: str


def places(file: Path) -> Iterator[Mutant]:
    """Find every place that an operator changes; annotations and text are no formulas."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = set[int]()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts += [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else []
        skipped |= {id(each) for part in parts if isinstance(part, ast.AST) for each in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        for name, operator in OPERATORS.items():
            if id(node) not in skipped and operator(node) is not None:
                yield Mutant(str(file.relative_to(ROOT)), number, name)


def drawn(rooms: tuple[str, ...], count: int, seed: int) -> list[Mutant]:
    """Draw mutants without repetition: an operator, then one of its places."""
    files = sorted(file for room in rooms for file in (ROOT / "src/unskew" / room).glob("*.py"))
    by_operator: dict[str, list[Mutant]] = {name: [] for name in OPERATORS}
    for place in (place for file in files for place in places(file)):
        by_operator[place.operator].append(place)
    rng, found = np.random.default_rng(seed), list[Mutant]()
    while len(found) < count and any(by_operator.values()):
        own = by_operator[str(rng.choice([name for name, left in by_operator.items() if left]))]
        found.append(own.pop(int(rng.integers(len(own)))))
    return found


def changed(mutant: Mutant) -> tuple[str, str]:
    """Return the source with the change, and what was changed in a line."""
    tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.node]
    new = OPERATORS[mutant.operator](copy.deepcopy(node))
    assert new is not None
    line = f"{mutant.file}:{node.lineno}: {ast.unparse(node)} -> {ast.unparse(new)}"  # type: ignore[attr-defined]

    class Replace(ast.NodeTransformer):
        def visit(self, each: ast.AST) -> ast.AST:
            return ast.copy_location(new, node) if each is node else self.generic_visit(each)

    return ast.unparse(ast.fix_missing_locations(Replace().visit(tree))), line


def passes(tree: Path, room: str, seconds: float | None) -> bool:
    """Run a room's tests on a copy of the package until the first failure; too slow is a failure."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS[room]]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Run what is not in the file yet, then count what was caught and list what was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", action="append", choices=TESTS, help="may be repeated (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines")
    asked = parser.parse_args()
    rooms = tuple(asked.room or TESTS)
    lines = asked.out.read_text(encoding="utf-8").splitlines() if asked.out.exists() else []
    known = {tuple(each["mutant"]): each for each in map(json.loads, lines)}
    mutants = drawn(rooms, asked.count, asked.seed)
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("src", "tests", "benchmarks", "pyproject.toml"):
            copy_of = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy_of(ROOT / name, tree / name)
        limits = dict[str, float]()
        for number, mutant in enumerate(mutants, 1):
            if mutant in known:
                continue
            room = Path(mutant.file).parts[2]
            if room not in limits:
                passes(tree, room, None)  # compiles
                began = time.monotonic()
                assert passes(tree, room, None), f"the tests of {room} fail without any change"
                limits[room] = LIMIT * (time.monotonic() - began) + 60
            source, change = changed(mutant)
            (tree / mutant.file).write_text(source, encoding="utf-8")
            caught = not passes(tree, room, limits[room])
            shutil.copy2(ROOT / mutant.file, tree / mutant.file)
            known[mutant] = {"mutant": mutant, "change": change, "caught": caught}
            with asked.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(known[mutant]) + "\n")
            print(f"{number}/{len(mutants)} {'caught' if caught else 'SURVIVED'}: {change}", flush=True)
    found = [known[mutant] for mutant in mutants]
    for name, key in (("room", lambda m: Path(m[0]).parts[2]), ("operator", lambda m: m[2])):
        count, caught_by = Counter(), Counter()  # type: Counter[str], Counter[str]
        for each in found:
            count[key(each["mutant"])] += 1
            caught_by[key(each["mutant"])] += each["caught"]
        print(f"caught by {name}: " + ", ".join(f"{k} {caught_by[k]} of {n}" for k, n in sorted(count.items())))
    survivors = [each["change"] for each in found if not each["caught"]]
    print(f"caught {len(found) - len(survivors)} of {len(found)}; survivors:", *survivors, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
