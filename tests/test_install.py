"""What an installation without extras brings, and what it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(os.environ.get("UNSKEW_TORCH") == "1", reason="the extra unskew[torch] was asked for")
def test_no_torch_unless_it_was_asked_for():
    assert find_spec("torch") is None, "set UNSKEW_TORCH=1 where unskew[torch] is installed on purpose"


def test_torch_is_an_extra():
    wanted = [line for line in requires("unskew") or [] if line.startswith("torch")]
    assert wanted
    assert all("extra == 'torch'" in line or 'extra == "torch"' in line for line in wanted)


def test_a_fit_imports_no_torch():
    code = (
        "import sys, unskew; from unskew.registry import make;"
        "log = unskew.simulate(n_users=30, n_items=20, density=.3).log; make('dce-dr').fit(log);"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_torch_the_net_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import unskew.nets.torch"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert "pip install 'unskew[torch]'" in found.stderr
