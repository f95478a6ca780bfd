"""What goes on for long: thousands of command lines, hundreds of fits in one process, many readers of one model.

README's blocks run in an environment made by its own command, the notebooks of the tutorial from top to bottom.
"""

import gc
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import unskew
from unskew.cli import app

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
LINES = 5_000
WORDS = {  # that each command takes, with little to do
    "fit": "ratings.csv --out new --method naive --set training.max_epochs=1",
    "predict": "model test.csv --out new.csv",
    "recommend": "model --k 3",
    "similar": "model --item i1",
    "split": "ratings.csv --out parts",
    "evaluate": "model test.csv",
    "compare": "scores.csv scores.csv --log test.csv",
    "export": "model --to parquet --out vectors",
    "update": "sampled test.csv --out new",
    "list": "",
    "doctor": "",
    "diagnose": "ratings.csv",
    "tune": "ratings.csv --method naive --trials 1 --set training.max_epochs=1 --out new.toml",
    "benchmark": "ratings.csv --methods naive --seeds 1 --set training.max_epochs=1 --out new",
    "reproduce": "table3 --dataset world --out new",
    "demo": "",
    "serve": "model",
}
LENGTHY = dict.fromkeys(("diagnose", "tune", "benchmark", "reproduce", "demo"), "--seed") | {"serve": "--port"}
IMPOSSIBLE = "many"  # the value of that option in every line of these commands
VALUES = (
    *("", "0", "1", "3", "-7", "0.5", "nan", "inf", "1_000", "9" * 25, "many", "x" * 5000, "é\u202e", "a\nb", "--"),
    *("-", "ratings.csv", "test.csv", "model", "missing.csv", "folder", "user_id", "rating", "naive", "ips", "a=b"),
    *("clip=0.1", "new", "new.csv", "new.parquet", "random", "time", "last", "parquet", "liking", "i1", "u1", "{}"),
    "*",
)


@pytest.fixture
def folder(ratings, tmp_path, monkeypatch):
    """Files that every command may read, and where they are made anew from."""
    kept, here = tmp_path / "kept", tmp_path / "here"
    shutil.copytree(ratings.parent, kept)
    pairs = [f"u{user},i{item},{(user + item) % 10 / 10}\n" for user in range(40) for item in range(30)]
    (kept / "scores.csv").write_text("user_id,item_id,score\n" + "".join(pairs))
    training = unskew.Training(max_epochs=1, progress=False)
    for name, method in {"model": unskew.make("naive"), "sampled": unskew.make("bayes", sweeps=8)}.items():
        method.fit(str(kept / "ratings.csv"), training=training).save(kept / name)
    (kept / "folder").mkdir()
    shutil.copytree(kept, here)
    monkeypatch.chdir(here)
    return kept


def drawn(chance, commands):
    """Draw a command, its words with some of them lost or exchanged, and options with any values."""
    name = chance.choice(list(WORDS))
    words = [chance.choice(VALUES) if chance.random() < 0.05 else word for word in WORDS[name].split()]
    words = [word for word in words if chance.random() > 0.03]
    known = [parameter for parameter in commands[name].params if parameter.opts[0] not in ("--help", "--verbose")]
    for parameter in chance.sample(known, chance.randint(0, min(3, len(known)))):
        if parameter.opts[0].startswith("--"):
            flag = getattr(parameter, "is_flag", False)
            words += [parameter.opts[0], *([] if flag else (chance.choice(VALUES) for _ in range(parameter.nargs)))]
    return [name, *words, *((LENGTHY[name], IMPOSSIBLE) if name in LENGTHY else ())]


def test_every_command_line_works_or_is_refused_in_a_sentence(folder):
    commands, runner, chance = typer.main.get_command(app).commands, CliRunner(), random.Random(1)
    ended = Counter()
    for _ in range(LINES):
        words = drawn(chance, commands)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = runner.invoke(app, words, input="")
        ended[result.exit_code] += 1
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(f"unskew {words}") from result.exception
        assert result.exit_code in (0, 2), (words, result.output)
        if result.exit_code == 2:
            *_, last = result.stderr.strip().splitlines()
            assert last.startswith("error: "), (words, result.stderr)
        else:
            shutil.rmtree(".", ignore_errors=True)
            shutil.copytree(folder, ".", dirs_exist_ok=True)
    print(f"{LINES:,} command lines: {ended[0]:,} worked, {ended[2]:,} were refused")
    assert ended[0] > LINES / 50


FITS, THREADS, PROCESSES = 200, 8, 20
RECIPES = (("naive", {}), ("dr-jl", {}), ("dce-dr", {}), ("bayes", {"sweeps": 20}), ("dce-bayes", {"sweeps": 20}))
READER = """
import hashlib, sys
import numpy as np
import unskew
model = unskew.load(sys.argv[1])
print(hashlib.sha256(model.predict(np.arange(60), np.arange(60) % 40).tobytes()).hexdigest())
"""


def megabytes():
    """Return what this process holds in memory."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(60, 40, density=0.3, seed=0).log


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's account of memory")
def test_two_hundred_fits_leave_no_memory_and_no_threads(log):
    training = unskew.Training(max_epochs=3, progress=False)

    def fit(number):
        name, settings = RECIPES[number % len(RECIPES)]
        unskew.make(name, **settings).fit(log, seed=number, training=training).recommend(k=3)

    def standing():
        gc.collect()
        return megabytes(), threading.active_count(), len(list(Path("/proc/self/task").iterdir()))

    for number in range(20):
        fit(number)
    before = standing()
    for number in range(20, FITS):
        fit(number)
    after = standing()
    print(f"{FITS} fits: {before[0]:.0f} MB after 20 of them, {after[0]:.0f} MB at the end, {after[2]} threads")
    assert after[0] < before[0] + 30
    assert after[1:] == before[1:]


@pytest.mark.parametrize("name", ["naive", "dce-bayes"])
def test_threads_and_processes_read_one_model_alike(name, log, tmp_path):
    settings = {"sweeps": 20} if name == "dce-bayes" else {}
    unskew.make(name, **settings).fit(log, training=unskew.Training(max_epochs=3, progress=False)).save(tmp_path / "m")
    model = unskew.load(tmp_path / "m")
    users, items = np.arange(60), np.arange(60) % 40
    alone, lists = model.predict(users, items), model.recommend(k=5)
    with ThreadPoolExecutor(THREADS) as pool:
        for answers, others in pool.map(lambda _: (model.predict(users, items), model.recommend(k=5)), range(80)):
            assert answers.tobytes() == alone.tobytes()
            assert others.equals(lists)
    words = [sys.executable, "-c", READER, str(tmp_path / "m")]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    digests = {child.communicate()[0].strip() for child in children}
    assert digests == {hashlib.sha256(alone.tobytes()).hexdigest()}


def test_the_blocks_of_the_readme_run_where_its_command_has_installed_it(tmp_path):
    """Nothing but what the command brings is there; the files are those that the blocks name."""
    shutil.copytree(ROOT, tmp_path / "copy", ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__"))
    text = (ROOT / "README.md").read_text()
    command = re.search(r"<!-- main command -->\n```sh\n(.*?)```", text, re.DOTALL)[1]
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run(["bash", "-ec", command], cwd=tmp_path / "copy", env=clean, check=True)
    programs = tmp_path / "copy" / ".venv" / "bin"
    clean["PATH"] = f"{programs}{os.pathsep}{clean['PATH']}"
    log = unskew.simulate(100, 50, density=0.3, selection="popularity", seed=0).log
    rows = zip(log.users, log.items, 2 + 2 * log.ratings, strict=True)
    work = tmp_path / "work"
    work.mkdir()
    lines = [f"u{user},i{item},{rating:g}\n" for user, item, rating in rows]
    (work / "ratings.csv").write_text("user_id,item_id,rating\n" + "".join(lines))
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([str(programs / "python"), "-c", python], cwd=work, env=clean, check=True)
    shell = next(block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "diagnose" in block)
    other = "unskew fit ratings.csv --method naive --out other-model\n"
    subprocess.run(["bash", "-ec", other + shell], cwd=work, env=clean, check=True)
    assert (work / "report.html").exists()
    assert (work / "top.csv").exists()


@pytest.mark.realdata
@pytest.mark.parametrize("notebook", sorted((ROOT / "docs/tutorial").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path):
    if not os.environ.get("UNSKEW_DATA"):
        pytest.skip("needs the published files: set UNSKEW_DATA to the folder that holds them")
    shutil.copy(notebook, tmp_path)
    subprocess.run([sys.executable, str(ROOT / ".ci/notebooks.py"), notebook.name], cwd=tmp_path, check=True)
