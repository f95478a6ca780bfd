"""Children that may die, hang or run out of room without harm to the tests, and how hard to try."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

LONG = bool(os.environ.get("UNSKEW_LONG"))
settings.register_profile(
    "faults",
    max_examples=2500 if LONG else 100,
    derandomize=not LONG,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether this is the long run (UNSKEW_LONG=1), which tries everything more often."""
    return LONG


@pytest.fixture(scope="session")
def contained(forked: Callable[..., BaseProcess]) -> Callable[..., None]:
    """Does something in a child that must end well, in time and in so much more memory than there is now."""

    def run(work: Callable[[], object], *, gigabytes: float = 2.0, seconds: float = 1200 if LONG else 100) -> None:
        def limited() -> None:
            import resource

            most = _megabytes("VmSize") + int(gigabytes * 1000)
            resource.setrlimit(resource.RLIMIT_AS, (most << 20, -1))
            work()

        process = forked(limited)
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            raise AssertionError(f"it hangs: not done after {seconds:g} s")
        code = process.exitcode or 0
        assert code >= 0, f"it crashed: {signal.Signals(-code).name}"
        assert code == 0, "see what the child said"

    return run


@pytest.fixture
def peak(contained: Callable[..., None], tmp_path: Path) -> Callable[..., float]:
    """How many megabytes something needs at most, in a child of its own."""

    def measure(work: Callable[[], object]) -> float:
        def measured() -> None:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            before = _megabytes("VmHWM")
            work()
            (tmp_path / "peak").write_text(str(_megabytes("VmHWM") - before))

        contained(measured)
        return float((tmp_path / "peak").read_text())

    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux's account of memory")
    return measure


def _megabytes(of: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(f"{of}:")[2].split()[0]) // 1024
