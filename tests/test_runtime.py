"""Progress on a terminal, silence elsewhere; the same found by any number of processes, which end when they should."""

import importlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from joblib.externals.loky import get_reusable_executor
from rich.console import Console

import unskew
from unskew import runtime


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
