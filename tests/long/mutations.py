"""Do the tests notice a wrong formula? Draw mutants of the source at random and run each against its room's tests.

    python tests/long/mutations.py --count 200 --seed 1 --out mutants.jsonl --folder kept

A mutant is the package with one place changed by one operator (`OPERATORS`), drawn by the seed: operators first, so
that rare ones have their share, then one of their places in the rooms. Not drawn is what cannot make an answer wrong:

- annotations, and what is said in text or in a refusal;
- numbers that name a stream of random numbers (arguments of `default_rng`): another stream is as good;
- how many rounds a loop may take that ends by itself, by `break`;
- how much is worked on at once, or kept in order not to be found again: the constants of `SPEED`;
- `<` for `<=` against a tolerance, a number of at most a millionth: what is computed does not hit it to the bit.

Every mutant has a copy of the tree of its own. Its tests are those of its room that run the changed statement, or where
only an import runs it (a constant, a field) those that run a line that reads its name; quick ones first, then the rest
of the files whose fixtures do. Kernels run as Python, where it shows which lines are run, in the tests of `KERNELS`. A
mutant is caught if a test fails or takes `LIMIT` times as long as unchanged. What stands in `--out` is not run again,
so it is a file for one state of the source. `--folder` keeps what unchanged tests took and touched, by test file.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn

import coverage
import numba
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
SPEED = {"CELLS", "CHUNK", "PIECE", "ROWS", "MOST_IN_FOLDER"}
KERNELS = {"posterior": ("tests/posterior/test_gibbs.py", "-k", "normal or sweep or folded")}
LIMIT = 3  # times as long as unchanged, plus half a minute, in processor time
MEMORY = 6 << 30  # bytes that a mutant may take
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
        end = node.comparators[0]
        if isinstance(end, ast.Constant) and isinstance(end.value, float) and 0 < end.value <= 1e-6:
            return None
        return ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]
    return None


def fold(node: ast.AST) -> ast.AST | None:
    """Compare folds with the next one, or leave out the last fold of a range."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and names_folds(node.left):
        return ast.Compare(node.left, node.ops, [ast.BinOp(node.comparators[0], ast.Add(), ast.Constant(1))])
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range" and names_folds(node.args[-1]):
        return ast.Call(node.func, [*node.args[:-1], ast.BinOp(node.args[-1], ast.Sub(), ast.Constant(1))], [])
    return None


def ends_by_itself(loop: ast.For) -> bool:
    """Whether a loop that only counts its rounds is left by a break of its own."""
    own = (each for part in loop.body if not isinstance(part, ast.For | ast.While) for each in ast.walk(part))
    return ast.unparse(loop.target) == "_" and any(isinstance(each, ast.Break) for each in own)


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
    """Find every place that an operator changes, but for those that cannot make an answer wrong."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {id(each) for node in ast.walk(tree) for part in harmless(node) for each in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        for name, operator in OPERATORS.items():
            if id(node) not in skipped and operator(node) is not None:
                yield Mutant(str(file.relative_to(ROOT)), number, name)


def harmless(node: Any) -> Iterator[ast.AST]:
    """Find the parts of a node that are no formula; see above."""
    yield from (part for name in ("annotation", "returns", "exc") if (part := getattr(node, name, None)) is not None)
    if isinstance(node, ast.JoinedStr):
        yield node
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield node.slice
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
        yield from node.args
    elif isinstance(node, ast.For) and ends_by_itself(node):
        yield node.iter
    elif isinstance(node, ast.Assign) and SPEED & {
        each.id for each in ast.walk(node.targets[0]) if hasattr(each, "id")
    }:
        yield node.value


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
    """What a mutant is: the source, a line that says so, its statement's lines and names, and whether Numba runs it."""

    source: str
    line: str
    lines: range
    names: set[str]
    kernel: bool

    @classmethod
    def of(cls, mutant: Mutant) -> Change:
        tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
        node: Any = list(ast.walk(tree))[mutant.node]
        new = OPERATORS[mutant.operator](copy.deepcopy(node))
        assert new is not None
        line = f"{mutant.file}:{node.lineno}: {ast.unparse(node)} -> {ast.unparse(new)}"
        around: list[Any] = [each for each in ast.walk(tree) if isinstance(each, ast.stmt) and node in ast.walk(each)]
        inner = around[-1]  # the innermost is walked last
        bound = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", inner)]
        names = {each.id for target in bound for each in ast.walk(target) if isinstance(each, ast.Name)}
        kernel = "njit" in "".join(map(ast.unparse, getattr(around[0], "decorator_list", ())))

        class Replace(ast.NodeTransformer):
            def visit(self, each: ast.AST) -> ast.AST:
                return ast.copy_location(new, node) if each is node else self.generic_visit(each)

        source = ast.unparse(ast.fix_missing_locations(Replace().visit(tree)))
        return cls(source, line, range(inner.lineno, inner.end_lineno + 1), names, kernel)


class Clock:
    """Measure the processor time of each test, and end the process where one takes longer than it may."""

    def __init__(self, most: dict[str, float]) -> None:
        self.most, self.seconds = most, dict[str, float]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, self.most.get(item.nodeid, 0.0))  # whose signal ends the process
        done = yield
        self.seconds[item.nodeid] = time.process_time() - began
        return done


def run_tests(tree: Path, words: list[str], most: dict[str, float], kernel: bool) -> NoReturn:
    """Run pytest in a copy of the package, in a process that has imported the libraries and nothing of the package."""
    os.chdir(tree)
    sys.dont_write_bytecode = False  # what every mutant imports is compiled once, in the warm copy
    os.environ["PYTHONPATH"] = str(tree / "src")  # of processes that tests start
    sys.path.insert(0, str(tree / "src"))
    numba.config.DISABLE_JIT = kernel
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    clock = Clock(most)
    code = pytest.main(["-x", "-q", *words], plugins=[clock])
    Path("seconds.json").write_text(json.dumps(clock.seconds), encoding="utf-8")
    sys.exit(code)


def passes(tree: Path, words: list[str], most: dict[str, float], kernel: bool = False) -> bool:
    """Run tests (and options of pytest) on a copy of the package until the first failure; too slow is a failure."""
    process = FORKING.Process(target=run_tests, args=(tree, words, most, kernel))
    process.start()
    process.join(10 * sum(most.values()) or None)  # for one that waits and takes no time
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode == 0


class Touched(NamedTuple):
    """What tests take, and by file and line of the source which of them run it, as "test|setup" or "test|run"."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]

    @classmethod
    def of(cls, tree: Path, words: Iterable[str], kernel: bool) -> Touched:
        measured = [f"--cov=unskew.{room}" for room in TESTS]
        if not passes(tree, [*words, *measured, "--cov-context=test", "--cov-report="], {}, kernel):
            raise SystemExit(f"Tests fail without any change: {' '.join(words)}")
        ran = coverage.CoverageData(str(tree / ".coverage"))
        ran.read()
        by_file = {str(Path(file).relative_to(tree)): ran.contexts_by_lineno(file) for file in ran.measured_files()}
        lines = {file: {n: {*names} - {""} for n, names in by_line.items()} for file, by_line in by_file.items()}
        return cls(json.loads((tree / "seconds.json").read_text(encoding="utf-8")), lines)

    def joined(self, other: Touched) -> Touched:
        lines = {file: dict(by_line) for file, by_line in self.lines.items()}
        for file, by_line in other.lines.items():
            for n, names in by_line.items():
                lines.setdefault(file, {})[n] = lines.get(file, {}).get(n, set()) | names
        return Touched(self.seconds | other.seconds, lines)

    def tests(self, places: dict[str, set[int]]) -> list[str]:
        """Return tests that run some of these lines, quick ones first, then others of a file whose fixtures do."""
        names = {name for file, lines in places.items() for n in lines for name in self.lines.get(file, {}).get(n, ())}
        touching = {name.rpartition("|")[0] for name in names}
        shared = {name.partition("::")[0] for name in names if name.endswith("|setup")}
        own = [name for name in self.seconds if name in touching or name.partition("::")[0] in shared]

        def rank(name: str) -> tuple[Any, ...]:  # by file among the quick and the slow, so that its fixtures serve
            seconds = self.seconds[name]
            return name not in touching, seconds > 0.3, seconds > 3, name.partition("::")[0], seconds

        return sorted(own, key=rank)


class Runner:
    """A warm copy of the tree, from which every mutant has its own, and how each room's tests run unchanged."""

    def __init__(self, folder: Path, kept: Path, rooms: set[str]) -> None:
        self.folder, self.warm, self.kept = folder, folder / "unchanged", kept
        for name in COPIED:
            copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            (self.warm / name).parent.mkdir(parents=True, exist_ok=True)
            copied(ROOT / name, self.warm / name)  # with what Numba has compiled
        self.tests = {(room, False): self._unchanged(room) for room in sorted(rooms)}
        self.tests |= {(room, True): self._measured(KERNELS[room], True) for room in sorted(rooms & KERNELS.keys())}

    def _unchanged(self, room: str) -> Touched:
        """Run the tests of a room, file by file."""
        began, found = time.monotonic(), Touched({}, {})
        for name in TESTS[room]:
            for file in sorted((ROOT / name).glob("test_*.py")) if (ROOT / name).is_dir() else [ROOT / name]:
                found = found.joined(self._measured([str(file.relative_to(ROOT))]))
        print(f"{room}: {len(found.seconds)} tests, found in {time.monotonic() - began:.0f} s", flush=True)
        return found

    def _measured(self, words: Iterable[str], kernel: bool = False) -> Touched:
        """Return what tests of a file take and touch, as kept from a run of the same source and the same file."""
        given = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("conftest.py"), ROOT / next(iter(words))]
        digest = hashlib.sha256(f"{[*words]} {kernel}".encode())
        for file in sorted(given):
            digest.update(file.read_bytes())
        file = self.kept / f"{digest.hexdigest()[:16]}.json"
        if not file.exists():
            found = Touched.of(self.warm, words, kernel)
            lines = {file: {n: sorted(names) for n, names in lines.items()} for file, lines in found.lines.items()}
            file.write_text(json.dumps([found.seconds, lines]), encoding="utf-8")
        seconds, lines = json.loads(file.read_text(encoding="utf-8"))
        return Touched(seconds, {file: {int(n): {*each} for n, each in ns.items()} for file, ns in lines.items()})

    def catches(self, mutant: Mutant, change: Change) -> bool:
        """Change one place of a copy and run its tests."""
        touched = self.tests[mutant.room, change.kernel]
        places = {mutant.file: {*change.lines}}
        own = touched.tests(places) or touched.tests(reading(mutant.room, change.names)) or [*touched.seconds]
        with TemporaryDirectory(dir=self.folder) as folder:
            tree = Path(folder)
            for name in COPIED[:-1]:
                shutil.copytree(self.warm / name, tree / name, copy_function=os.link)
            shutil.copy2(self.warm / COPIED[-1], tree)
            (tree / mutant.file).unlink()
            (tree / mutant.file).write_text(change.source, encoding="utf-8")
            if change.names:  # Numba does not see that a constant has changed which a kernel of another file reads
                for compiled in (tree / mutant.file).parent.rglob("*.nbi"):
                    compiled.unlink()
            most = {name: LIMIT * touched.seconds[name] + 30 for name in own}
            return not passes(tree, own, most, change.kernel)


def reading(room: str, names: set[str]) -> dict[str, set[int]]:
    """Find the lines of a room that read a name, alone or of something."""
    found: dict[str, set[int]] = {}
    for file in (ROOT / "src/unskew" / room).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if {getattr(node, "id", ""), getattr(node, "attr", "")} & names and isinstance(node.ctx, ast.Load):
                found.setdefault(str(file.relative_to(ROOT)), set()).add(node.lineno)
    return found


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
    parser.add_argument("--folder", type=Path, help="what unchanged tests took and touched (default: not kept)")
    asked = parser.parse_args()
    changes = {mutant: Change.of(mutant) for mutant in drawn(asked.room or TESTS, asked.count, asked.seed)}
    known = dict(map(json.loads, asked.out.read_text(encoding="utf-8").splitlines() if asked.out.exists() else ()))
    wanted = [mutant for mutant, change in changes.items() if change.line not in known]
    os.environ.update(NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for name in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):  # caches are next to the copy's own files
        os.environ.pop(name, None)
    FORKING.set_forkserver_preload(LIBRARIES)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool, asked.out.open("a") as out:
        kept = asked.folder or Path(folder) / "kept"
        kept.mkdir(parents=True, exist_ok=True)
        runner = Runner(Path(folder), kept, {mutant.room for mutant in wanted})
        caught = pool.map(lambda mutant: runner.catches(mutant, changes[mutant]), wanted)
        for number, (mutant, one) in enumerate(zip(wanted, caught, strict=True), 1):
            known[changes[mutant].line] = one
            print(json.dumps([changes[mutant].line, one]), file=out, flush=True)
            print(f"{number}/{len(wanted)} {'caught' if one else 'SURVIVED'}: {changes[mutant].line}", flush=True)
    found = {mutant: known[change.line] for mutant, change in changes.items()}
    print(table(found), "survivors:", *sorted(changes[m].line for m, one in found.items() if not one), sep="\n")


if __name__ == "__main__":
    main()
