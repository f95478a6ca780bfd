"""`unskew doctor`: a line for each check, and an exit code that says whether all is well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from typer.testing import Result

from unskew import health
from unskew.nets import kernels

Run = Callable[..., Result]


def found(name: str) -> health.Check:
    return next(check for check in health.checks() if check.name == name)


def test_a_sound_installation_passes_every_check(run: Run) -> None:
    facts = json.loads(run("doctor", "--json").stdout)
    assert facts["failed"] == 0
    names = [check["name"] for check in facts["checks"]]
    for name in ("python", "packages", "extra onnx", "threads", "compile cache", "memory", "disk", "fit"):
        assert name in names
    states = {check["name"]: check["state"] for check in facts["checks"]}
    assert (states["packages"], states["fit"]) == ("ok", "ok")


def test_a_check_that_fails_is_one_line_and_an_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise OSError(28, "No space\nleft on device")

    monkeypatch.setattr("unskew.simulate", broken)
    lines = run("doctor", code=1).stdout.splitlines()
    assert "failed    fit: OSError: [Errno 28] No space left on device" in lines
    assert lines[-1].startswith("1 of ")


def test_missing_and_old_packages_are_named_and_extras_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = [Requirement("numpy>=999"), Requirement("nowhere-to-be-found>=1")]
    extras = {"more": [Requirement("nowhere-to-be-found")], "dev": [Requirement("pytest")]}
    monkeypatch.setattr(health, "_requirements", lambda: (needed, extras))
    packages = found("packages")
    assert packages.state == "failed"
    assert "but >=999 is needed; nowhere-to-be-found is not installed" in packages.text
    more = found("extra more")
    assert (more.state, more.text) == (
        "optional",
        "nowhere-to-be-found is not installed: pip install 'unskew[more]' brings it",
    )


def test_the_requirements_are_those_of_the_project_when_run_from_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> None:
        raise health.importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(health.importlib.metadata, "requires", unknown)
    needed, extras = health._requirements()
    assert "numba" in {requirement.name for requirement in needed}
    assert {"onnx", "torch", "tune"} <= set(extras)


def test_a_cache_that_cannot_be_written_and_little_room_are_warnings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(health.os, "access", lambda *_: False)
    monkeypatch.setattr(health, "available_memory", lambda: 5e8)
    cache = found("compile cache")
    assert cache.state == "warning"
    assert "set NUMBA_CACHE_DIR" in cache.text
    assert found("disk").state == found("memory").state == "warning"
    stats = SimpleNamespace(cache_path=str(tmp_path / "not" / "yet"))
    monkeypatch.setattr(kernels, "adam", SimpleNamespace(stats=stats))
    monkeypatch.setattr(health.os, "access", lambda *_: True)
    assert found("compile cache").text == f"compiled kernels are kept in {tmp_path / 'not' / 'yet'}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"}, 2048 * 1024),
        (
            {
                "/proc/meminfo": "MemAvailable: 2048 kB\n",
                "/sys/fs/cgroup/memory.max": "1000\n",
                "/sys/fs/cgroup/memory.current": "400\n",
            },
            600,
        ),
        ({"/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": "400\n"}, None),
    ],
)
def test_memory_is_what_system_and_container_leave(
    files: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_read", lambda path: files.get(path, ""))
    assert health.available_memory() == expected
