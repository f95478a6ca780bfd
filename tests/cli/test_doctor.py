"""`unskew doctor`: a line for each check, and an exit code that tells whether all is well."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from unskew.cli import about

Run = Callable[..., Result]


def test_a_sound_installation_passes_every_check(run: Run) -> None:
    facts = json.loads(run("doctor", "--json").stdout)
    states = {check["name"]: check["state"] for check in facts["checks"]}
    assert facts["failed"] == 0
    assert states == {"python": "ok", "packages": "ok", "compile cache": "ok", "fit": "ok"}


def test_what_is_wrong_is_one_line_and_an_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing extras are not wrong, and a cache that cannot be written is a warning."""

    def broken(**_: object) -> None:
        raise OSError(28, "No space\nleft on device")

    monkeypatch.setattr("unskew.simulate", broken)
    monkeypatch.setattr(about, "requires", lambda _: ["numpy>=1", "no-such>=1", "elsewhere; extra == 'more'"])
    monkeypatch.setattr(about.os, "access", lambda *_: False)
    lines = run("doctor", code=1).stdout.splitlines()
    assert "failed    fit: OSError: [Errno 28] No space left on device" in lines
    assert "failed    packages: no-such is not installed: install unskew again by pip" in lines
    assert any(line.startswith("warning   compile cache") and "set NUMBA_CACHE_DIR" in line for line in lines)
    assert lines[-1] == "2 of 4 checks failed, 1 warn"
