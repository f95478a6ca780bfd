"""The package as a whole: rooms in order, a whole wheel, a quick start, compiling and progress, worker processes."""

import ast
import importlib
import io
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from rich.console import Console

import unskew
from unskew import runtime
from unskew.compiled import SENTENCE, announced
from unskew.nets.base import NetContext
from unskew.nets.factors import MF
from unskew.propensity import scorers

COMMAND = "from unskew.cli import main; import sys; sys.argv = ['unskew', {}]; main()"
FIT = """
import unskew
log = unskew.simulate(n_users=30, n_items=20, density=0.3, selection="taste", seed=0).log
unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=True))
"""
HEAVY = ("torch", "numba", "scipy", "pandas", "narwhals", "rich", "joblib", "optuna", "pyarrow.parquet", "jinja2")
LIGHT = {
    "import": "import unskew",
    "list": COMMAND.format("'list'"),
    "help": COMMAND.format("'fit', '--help'"),
    "recommend": COMMAND.format("'recommend', '{model}'"),
    "predict": COMMAND.format("'predict', '{model}', '{pairs}', '--out', '{out}'"),
}


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A model and a file of pairs."""
    import unskew

    folder = tmp_path_factory.mktemp("start")
    log = unskew.simulate(n_users=30, n_items=20, density=0.3, seed=0).log
    unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=False)).save(folder / "model")
    (folder / "pairs.csv").write_text("user_id,item_id\n1,1\n")
    return {"{model}": folder / "model", "{pairs}": folder / "pairs.csv", "{out}": folder / "out.csv"}


@pytest.fixture(scope="module")
def numpy_takes():
    """Processor seconds of an import of NumPy, the best of three: the machine may be busy."""
    return min(float(run("import numpy, time; print(time.process_time())").stdout) for _ in range(3))


@pytest.mark.parametrize("name", LIGHT)
def test_a_command_imports_what_it_uses_and_is_over_at_once(name, places, numpy_takes):
    code = LIGHT[name]
    for word, place in places.items():
        code = code.replace(word, str(place))
    checked = f"""
import atexit, sys, time
heavy = lambda: [name for name in {HEAVY} if name in sys.modules]
atexit.register(lambda: print(time.process_time(), *heavy(), file=sys.stderr))
{code}
"""
    done = run(checked)
    assert done.returncode == 0, done.stderr
    seconds, *imported = done.stderr.splitlines()[-1].split()
    assert imported == []
    assert float(seconds) < 14 * numpy_takes


def test_a_command_ends_at_once_unless_a_thread_still_works():
    code = "class Held:\n    def __del__(self): print('taken apart')\nheld = Held()\n" + COMMAND.format("{}")
    work = "import threading; threading.Thread(target=threading.main_thread().join).start()\n"
    for word, status in (("list", 0), ("nothing", 2)):
        at_once, waited = (run(before + code.format(f"'{word}'")) for before in ("", work))
        assert (at_once.returncode, waited.returncode) == (status, status)
        assert (at_once.stdout + "taken apart\n", at_once.stderr) == (waited.stdout, waited.stderr)


def test_a_fit_from_a_file_leaves_pandas_and_polars_out(tmp_path):
    rows = [f"{u},{i},{(u + i) % 5 + 1}" for u in range(20) for i in range(12) if (u * i) % 3]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,item_id,rating", *rows]))
    words = f"'fit', '{tmp_path}/log.csv', '--method', 'naive', '--quiet', '--out', '{tmp_path}/model'"
    shown = "import atexit, sys; atexit.register(lambda: print(not {'pandas', 'polars'} & {*sys.modules})); "
    found = run(shown + COMMAND.format(words))
    assert (found.returncode, found.stdout.split()[-1]) == (0, "True")


def test_answers_without_numba_are_those_of_the_kernels():
    rng = np.random.default_rng(0)
    net = MF(n_factors=7).build(NetContext(9, 5, 0.3, ((), ())), rng)
    for side in net.of_sides:
        net.value(side)[:] = rng.normal(size=net.value(side).shape)
    users, items = (np.concatenate([rng.integers(-1, n, 4000), np.zeros(2000, int)]) for n in (9, 5))
    whole = net.answers(users, items)
    np.testing.assert_allclose(whole, net.logits(users, items), rtol=1e-5)
    alone = [net.answers(users[n : n + 1], items[n : n + 1])[0] for n in range(0, 6000, 97)]
    np.testing.assert_array_equal(alone, whole[::97])
    pointer = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 9))])
    given = pointer, rng.integers(0, 5, pointer[-1]), rng.normal(size=(5, 5)), items[:4000] % 5
    for ours, theirs in zip(
        scorers.sum_neighbours(users[:4000] % 9, *given), scorers._sum_neighbours(users[:4000] % 9, *given), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_torch_is_an_extra():
    wanted = [line for line in requires("unskew") or [] if line.startswith("torch")]
    assert wanted
    assert all("extra == 'torch'" in line or 'extra == "torch"' in line for line in wanted)
    without = run("import sys; sys.modules['torch'] = None; import unskew.nets.torch")
    assert "pip install 'unskew[torch]'" in without.stderr


def test_compiling_is_announced_once_and_only_where_progress_is_shown(capsys):
    for progress, times in ((True, 1), (False, 0)):
        with announced(progress):
            for kernel in (numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)):
                kernel(1)
        assert capsys.readouterr().err.count(SENTENCE) == times


def test_a_second_process_has_nothing_to_compile_and_no_fit_imports_torch():
    """What this one compiles or has compiled is kept for all."""
    exec(FIT, {})
    second = run(FIT + "import sys; print(*sys.modules)")
    assert second.returncode == 0
    assert SENTENCE not in second.stderr
    assert "torch" not in second.stdout.split()


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


def imported(node, function=None):
    """Modules that are imported, each with the function it is imported in, but for annotations alone."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module] if isinstance(node, ast.ImportFrom) else []
    yield from ((name, function) for name in names)
    for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    for child in node.orelse if for_types else ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from imported(child, node.name if isinstance(node, ast.FunctionDef) else function)


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


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal of 80 columns; what is drawn on it."""
    drawn = io.StringIO()
    drawn.isatty = lambda: True
    monkeypatch.setattr(runtime, "sys", SimpleNamespace(stderr=drawn))  # pytest changes the real one
    colours = {"TERM": "xterm-256color"}
    console = Console(file=drawn, force_terminal=True, width=80, _environ=colours)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    return drawn


def test_a_bar_shows_how_far_in_80_columns(terminal):
    with runtime.bar("prediction", 200, "epoch", done=1, at_most=True) as shown:
        for risk in ("0.5555", "0.4444"):
            shown.advance(f"validation {risk}")
        runtime._State.display.refresh()
    drawn = [line.strip() for line in re.split(r"[\r\n]", re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", terminal.getvalue()))]
    assert all(line.startswith("prediction") for line in drawn if line)
    assert any(re.search(r"3 of at most 200 epochs 0:\d\d:\d\d left .* validation 0.4444$", line) for line in drawn)


def test_silence_and_files_get_no_bars(terminal, monkeypatch):
    log = unskew.simulate(30, 20, density=0.3, seed=0).log
    runtime.silence()
    try:
        unskew.Naive().fit(log, training=unskew.Training(max_epochs=1))
        runtime.say("unheard")
    finally:
        runtime.silence(False)
    assert terminal.getvalue() == ""
    elsewhere = io.StringIO()
    monkeypatch.setattr(runtime, "sys", SimpleNamespace(stderr=elsewhere))
    unskew.Naive().fit(log, training=unskew.Training(max_epochs=1))
    assert (elsewhere.getvalue(), terminal.getvalue()) == ("", "")


WORK = """
import os, signal, time
import numba
from unskew.runtime import side_by_side

def work(task):
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "sleep":
        os.write(1, b"asleep\\n")
        time.sleep(60)
    return task, numba.get_num_threads()

def found(tasks, workers):
    return list(side_by_side(work, tasks, workers))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "side_by_side_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    get_reusable_executor(max_workers=2).shutdown(wait=True)  # whose processes do not know this path
    return importlib.import_module("side_by_side_work")


def test_workers_find_the_same_on_one_thread_each_and_one_that_dies_is_a_sentence(module):
    assert sorted(module.found("abc", 2)) == [("a", 1), ("b", 1), ("c", 1)]
    assert [task for task, _ in module.found("abc", 1)] == ["a", "b", "c"]
    with pytest.raises(unskew.UnskewError, match="A worker process died"):
        module.found(["a", "die"], 2)
    assert len(module.found("ab", 2)) == 2


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_when_their_parent_does(module, ended_by):
    # A process that was started in the background ignores Ctrl-C, and so do those that it starts.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listens}; import side_by_side_work as s; s.found(['sleep', 'sleep'], 2)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert parent.stdout.readline() == b"asleep\n"
    (os.killpg if ended_by is signal.SIGINT else os.kill)(parent.pid, ended_by)
    parent.wait(20)
    for _ in range(400):
        try:
            os.killpg(parent.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(parent.pid, signal.SIGKILL)
    raise AssertionError("workers have outlived their parent")
