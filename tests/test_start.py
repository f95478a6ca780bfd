"""A quick start: heavy imports wait until they are needed, and compiling says what it is."""

import os
import subprocess
import sys

import numba
import pytest

from unskew.runtime import SENTENCE, announced

HELP = "import sys; from unskew.cli import main; sys.argv = ['unskew', '--help']; main()"
FIT = """
import unskew
log = unskew.simulate(n_users=30, n_items=20, density=0.3, selection="taste", seed=0).log
unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=True))
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("code", "limit"), [("import unskew", 0.5), (HELP, 0.5)], ids=["import", "help"])
def test_starting_is_quick(code, limit):
    """Processor seconds of the whole process, the best of three: the machine may be busy."""
    seconds = []
    for _ in range(3):
        before = os.times()
        run(code)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds) < limit


HEAVY = ("torch", "numba", "scipy", "matplotlib", "pandas")
COMMAND = "from unskew.cli import main; import sys; sys.argv = ['unskew', {}]; main()"
LIGHT = {
    "import": "import unskew",
    "help": HELP,
    "help of fit": COMMAND.format("'fit', '--help'"),
    "help of list": COMMAND.format("'list', '--help'"),
    "version": COMMAND.format("'--version'"),
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_what_only_looks_up_words_imports_nothing_heavy(code):
    checked = f"""
import atexit, sys
atexit.register(lambda: print("heavy:", *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
{code}
"""
    assert run(checked).stderr.splitlines()[-1].split() == ["heavy:"]


def test_no_fit_imports_torch():
    assert "torch" not in run(FIT + "import sys; print(*sys.modules)").stdout.split()


def test_compiling_is_announced_once_and_only_where_progress_is_shown(capsys):
    for progress, times in ((True, 1), (False, 0)):
        with announced(progress):
            for kernel in (numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)):
                kernel(1)
        assert capsys.readouterr().err.count(SENTENCE) == times


def test_a_second_process_has_nothing_to_compile():
    """What this one compiles or has compiled is kept for all."""
    exec(FIT, {})
    second = run(FIT)
    assert second.returncode == 0
    assert SENTENCE not in second.stderr
