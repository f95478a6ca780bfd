"""Do the tests notice a wrong formula? Draw mutants of the source at random and run each against its room's tests.

    python tests/long/mutations.py --count 200 --seed 1 --out mutants.jsonl

A mutant is the package with one place changed by one operator (`OPERATORS`), drawn by the seed: operators first, so
that rare ones have their share, then one of their places in the rooms. Not drawn is what cannot make an answer wrong:

- annotations, and what stands in text or in a refusal;
- numbers that name a stream of random numbers (arguments of `default_rng`, numbers of a sum or product with a `seed`):
  another stream is as good; not whether a term is there, for without it two streams may be one;
- how many rounds a loop may take that ends by itself, by `break`;
- how much is worked on at once, or kept not to be found again: the constants of `SPEED` and comparisons with them;
- `<` for `<=` by a tolerance, a number of at most a millionth: what is computed does not hit it to the bit.

A function is changed in a copy of a process that has collected the tests; what only an import runs (a constant, a
field) in a process of its own. Its tests are those of its room that run the changed statement, or a line that reads the
name of the constant; quick ones first, then the rest of the files whose fixtures do. Kernels run as Python, where it
shows which lines are run, in the tests of `KERNELS`. A mutant is caught if a test fails or takes `LIMIT` times as long
as unchanged. What stands in `--out` is not run again, so it is a file for one state of the source. `--folder` keeps
what unchanged tests took and touched, by test file.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import hashlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeGuard

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
FORKING = multiprocessing.get_context("forkserver")  # its processes have the libraries imported
ROLES = ("prediction", "imputation", "propensity")
SPEED = {"CELLS", "CHUNK", "PIECE", "ROWS", "SHARED", "MOST_IN_FOLDER"}
KERNELS = {"posterior": ["tests/posterior/test_gibbs.py", "-k", "normal or sweep or folded"]}
LIMIT = 3  # times as long as unchanged, plus half a minute, in processor time
MEMORY = 6 << 30  # bytes that a process may take
WARM = ("dce-dr", "dce-bayes")  # methods whose kernels a process loads before it is copied
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
    if not compares(node) or has_tolerance(node):
        return None
    return ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]


def fold(node: ast.AST) -> ast.AST | None:
    """Compare folds with the next one, or leave out the last fold of a range."""
    if compares(node) and names_folds(node.left):
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


def compares(node: Any) -> TypeGuard[ast.Compare]:
    """Whether an expression compares two values, by size or as equal."""
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED


def has_tolerance(node: ast.AST) -> bool:
    """Whether a number above 0 and of at most a millionth stands in an expression."""
    found = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(value, float) and 0 < value <= 1e-6 for value in found)


def named(node: Any) -> set[str]:
    """Find the names that an expression reads or binds, alone or of something."""
    return {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node)} - {""}


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
    elif isinstance(node, ast.Assign) and SPEED & named(node.targets[0]):
        yield node.value
    elif isinstance(node, ast.Compare) and SPEED & named(node):
        yield node
    elif isinstance(node, ast.BinOp) and "seed" in named(node) and ast.Call not in map(type, ast.walk(node)):
        yield from (each for each in ast.walk(node) if isinstance(each, ast.Constant))


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
    """What a mutant is: a line that says so, its statement's lines and names, if only an import or if Numba runs it."""

    mutant: Mutant
    line: str
    lines: range
    names: set[str]
    imported: bool
    kernel: bool

    @classmethod
    def of(cls, mutant: Mutant) -> Change:
        tree, node, new = changed(mutant)
        line = f"{mutant.file}:{node.lineno}: {ast.unparse(node)} -> {ast.unparse(new)}"
        around: list[Any] = [each for each in ast.walk(tree) if isinstance(each, ast.stmt) and node in ast.walk(each)]
        inner = around[-1]  # the innermost is walked last
        bound = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", inner)]
        names = set.union(*map(named, bound))
        functions = [each for each in around if isinstance(each, ast.FunctionDef)]
        imported = not any(node in ast.walk(part) for each in functions for part in each.body)
        kernel = "njit(" in ast.unparse(tree if imported else ast.Module(around[:1], []))
        return cls(mutant, line, range(inner.lineno, inner.end_lineno + 1), names, imported, kernel)

    def code(self) -> CodeType:
        """Return the changed module."""
        tree, node, new = changed(self.mutant)

        class Replace(ast.NodeTransformer):
            def visit(self, each: ast.AST) -> ast.AST:
                return ast.copy_location(new, node) if each is node else self.generic_visit(each)

        return compile(ast.fix_missing_locations(Replace().visit(tree)), ROOT / self.mutant.file, "exec")

    def apply(self, functions: Iterable[FunctionType] = ()) -> None:
        """Change what is going to be imported, and these functions, which have been."""
        module, file, get_code = self.code(), str(ROOT / self.mutant.file), SourceFileLoader.get_code
        SourceFileLoader.get_code = lambda own, name: module if own.path == file else get_code(own, name)
        new = {(code.co_qualname, code.co_firstlineno): code for code in nested(module)}
        for each in functions:
            if each.__code__.co_filename == file:
                each.__code__ = new[each.__code__.co_qualname, each.__code__.co_firstlineno]


def changed(mutant: Mutant) -> tuple[ast.Module, Any, Any]:
    """Return a file's tree, the node that a mutant changes, and what stands there instead."""
    tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.node]
    return tree, node, OPERATORS[mutant.operator](copy.deepcopy(node))


def nested(code: CodeType) -> Iterator[CodeType]:
    """Walk the functions of a module or of a function."""
    yield code
    for each in code.co_consts:
        yield from nested(each) if isinstance(each, CodeType) else ()


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


class Copies(Clock):
    """Run each mutant in a copy of this process, which has collected all tests."""

    def __init__(self, work: Sequence[tuple[Change, dict[str, float]]], results: Connection, warm: bool) -> None:
        super().__init__({})
        self.work, self.results, self.warm = work, results, warm

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        import unskew

        log, training = unskew.simulate(40, 30, density=0.3, seed=0).log, unskew.Training(max_epochs=1, progress=False)
        for name in WARM if self.warm else ():
            unskew.make(name).fit(log, training=training)
        items, source = {item.nodeid: item for item in session.items}, str(ROOT / "src")
        functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        functions = [each for each in functions if each.__code__.co_filename.startswith(source)]
        gc.freeze()  # so that copies share memory
        for change, most in self.work:
            if (child := os.fork()) == 0:
                signal.setitimer(signal.ITIMER_REAL, 10 * sum(most.values()))  # for one that waits
                change.apply(functions)
                self.most, session.items[:] = most, [items[name] for name in most]
                return None
            self.results.send(os.waitpid(child, 0)[1] != 0)
        return True


def run(words: Iterable[str], plugin: Clock, kernel: bool) -> int:
    """Run pytest in a process that has imported the libraries and nothing of the package."""
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # of processes that tests start
    sys.path.insert(0, os.environ["PYTHONPATH"])
    sys.dont_write_bytecode = False
    numba.config.DISABLE_JIT = kernel
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return int(pytest.main(["-x", "-p", "no:terminal", *words], plugins=[plugin]))


def run_copies(work: Sequence[tuple[Change, dict[str, float]]], results: Connection, kernel: bool) -> None:
    """Run mutants of functions and send for each whether it was caught."""
    parent, files = os.getpid(), dict.fromkeys(name.partition("::")[0] for _, most in work for name in most)
    code = run(files, Copies(work, results, not kernel), kernel)
    if os.getpid() != parent:
        os._exit(code)


def run_alone(change: Change, most: dict[str, float]) -> None:
    """Run a mutant that only an import makes."""
    change.apply()
    sys.exit(run(most, Clock(most), change.kernel))


def measure(words: list[str], kernel: bool, file: Path) -> None:
    """Run tests unchanged and write what each took and, by file and line of the source, which of them ran it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COVERAGE_FILE"] = f"{folder}/ran"
        clock, rooms = Clock({}), [f"--cov=unskew.{room}" for room in TESTS]
        if code := run(
            [*words, "-m", "not slow and not long", *rooms, "--cov-context=test", "--cov-report="], clock, kernel
        ):
            raise SystemExit(f"Tests fail without any change, with code {code}: {' '.join(words)}")
        ran = coverage.CoverageData(f"{folder}/ran")
        ran.read()
        lines = {str(Path(name).relative_to(ROOT)): ran.contexts_by_lineno(name) for name in ran.measured_files()}
    file.write_text(json.dumps([clock.seconds, lines]), encoding="utf-8")


class Tests:
    """What tests of a room take unchanged, and by file and line which of them run it, as "test|setup" or "test|run"."""

    def __init__(self, words: Iterable[list[str]], kernel: bool, folder: Path) -> None:
        self.seconds, self.lines = dict[str, float](), dict[str, dict[str, set[str]]]()
        for each in words:
            given = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("conftest.py"), ROOT / each[0]]
            digest = hashlib.sha256(repr((each, kernel, [file.read_bytes() for file in sorted(given)])).encode())
            file = folder / f"{digest.hexdigest()[:16]}.json"
            if not file.exists():
                child = FORKING.Process(target=measure, args=(each, kernel, file))
                child.start()
                child.join()
            seconds, lines = json.loads(file.read_text(encoding="utf-8"))
            self.seconds |= seconds
            for name, by_line in lines.items():
                for line, names in by_line.items():
                    self.lines.setdefault(name, {}).setdefault(line, set()).update(names)

    def of(self, change: Change) -> dict[str, float]:
        """Return the tests of a mutant and how long each may take."""
        own = self.running({change.mutant.file: {*change.lines}})
        own = own or self.running(reading(change.mutant.room, change.names)) or [*self.seconds]
        return {name: LIMIT * self.seconds[name] + 30 for name in own}

    def running(self, places: dict[str, set[int]]) -> list[str]:
        """Return tests that run some of these lines, quick ones first, then others of a file whose fixtures do."""
        names = {name for file in places for n in places[file] for name in self.lines.get(file, {}).get(str(n), ())}
        touching = {name.rpartition("|")[0] for name in names if name}
        shared = {name.partition("::")[0] for name in names if name.endswith("|setup")}

        def rank(name: str) -> tuple[Any, ...]:  # by file among the quick and the slow, so that its fixtures serve
            seconds, file = self.seconds[name], name.partition("::")[0]
            return name not in touching, seconds > 0.3, seconds > 3, file, seconds

        own = (name for name in self.seconds if name in touching or name.partition("::")[0] in shared)
        return sorted(own, key=rank)


def reading(room: str, names: set[str]) -> dict[str, set[int]]:
    """Find the lines of a room that read a name, alone or of something."""
    found: dict[str, set[int]] = {}
    for file in (ROOT / "src/unskew" / room).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and named(node) & names:
                found.setdefault(str(file.relative_to(ROOT)), set()).add(node.lineno)
    return found


def tried(changes: Sequence[Change], folder: Path) -> Iterator[tuple[Change, bool]]:
    """Run mutants, those of functions first, and yield whether each was caught."""
    tests = {}
    for room in sorted({change.mutant.room for change in changes}):
        paths = [ROOT / name for name in TESTS[room]]
        files = [file for path in paths for file in (sorted(path.glob("test_*.py")) if path.is_dir() else [path])]
        tests[room, False] = Tests(([str(file.relative_to(ROOT))] for file in files), False, folder)
        tests[room, True] = Tests([KERNELS[room]] if room in KERNELS else [], True, folder)
    work = [(change, tests[change.mutant.room, change.kernel].of(change)) for change in changes]
    for kernel in (False, True):
        own = [(change, most) for change, most in work if change.kernel == kernel and not change.imported]
        results, sent = FORKING.Pipe(False)
        child = FORKING.Process(target=run_copies, args=(own, sent, kernel))
        child.start()
        sent.close()
        yield from ((change, results.recv()) for change, _ in own)
        child.join()
    for change, most in work:
        if change.imported:
            child = FORKING.Process(target=run_alone, args=(change, most))
            child.start()
            child.join(10 * sum(most.values()))
            child.kill()
            child.join()
            yield change, child.exitcode != 0


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
    parser.add_argument("--out", type=Path, default=os.devnull, help="lines of JSON: what is there is not run again")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "unskew-mutants")
    asked = parser.parse_args()
    changes = [Change.of(mutant) for mutant in drawn(asked.room or TESTS, asked.count, asked.seed)]
    known = dict(map(json.loads, asked.out.read_text(encoding="utf-8").splitlines() if asked.out.exists() else ()))
    wanted = [change for change in changes if change.line not in known]
    os.environ.update(NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1")
    asked.folder.mkdir(parents=True, exist_ok=True)
    FORKING.set_forkserver_preload(LIBRARIES)
    with asked.out.open("a") as out:
        for number, (change, caught) in enumerate(tried(wanted, asked.folder), 1):
            known[change.line] = caught
            print(json.dumps([change.line, caught]), file=out, flush=True)
            print(f"{number}/{len(wanted)} {'caught' if caught else 'SURVIVED'}: {change.line}", flush=True)
    found = {change.mutant: known[change.line] for change in changes}
    print(table(found), "survivors:", *sorted(change.line for change in changes if not known[change.line]), sep="\n")


if __name__ == "__main__":
    main()
