"""`unskew doctor`: a line for each check, and an exit code that tells whether all is well."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from unskew.cli import doctor

Run = Callable[..., Result]


def found(name: str) -> doctor.Check:
    return next(check for check in doctor.checks() if check.name == name)


def test_a_sound_installation_passes_every_check(run: Run) -> None:
    facts = json.loads(run("doctor", "--json").stdout)
    states = {check["name"]: check["state"] for check in facts["checks"]}
    assert facts["failed"] == 0
    assert {"python": "ok", "packages": "ok", "compile cache": "ok", "fit": "ok"}.items() <= states.items()
    assert {"extra onnx", "extra torch", "extra tune"} <= states.keys()


def test_a_check_that_fails_is_one_line_and_an_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise OSError(28, "No space\nleft on device")

    monkeypatch.setattr("unskew.simulate", broken)
    lines = run("doctor", code=1).stdout.splitlines()
    assert "failed    fit: OSError: [Errno 28] No space left on device" in lines
    assert lines[-1].startswith("1 of ")


def test_missing_packages_fail_and_missing_extras_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=1", "nowhere-to-be-found>=1", "elsewhere; extra == 'more'", "pytest; extra == 'dev'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _: wanted)
    assert found("packages") == (
        "packages",
        "failed",
        "nowhere-to-be-found is not installed: install unskew again by pip",
    )
    assert found("extra more") == (
        "extra more",
        "optional",
        "elsewhere is not installed: pip install 'unskew[more]' brings it",
    )


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert found("compile cache").state == "warning"
    assert "set NUMBA_CACHE_DIR" in found("compile cache").text
