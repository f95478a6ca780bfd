"""Fixtures that more than one folder of tests needs."""

import multiprocessing
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner

import unskew
from unskew import registry
from unskew.cli import app

# The same examples in every run, so that a change is what breaks a test; the long run draws others.
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # the machine may be busy
settings.register_profile("usual", derandomize=not os.environ.get("UNSKEW_LONG"), **patient)
settings.load_profile("usual")

COMPILING = """
import unskew
unskew.make({!r}).fit(unskew.simulate(40, 30, density=0.3, seed=0).log, training=unskew.Training(max_epochs=1))
"""


def pytest_sessionstart(session):
    """Compile kernels before workers start, which would each compile all of them: gradients next to the sampler."""
    if session.config.getoption("numprocesses", None) and not hasattr(session.config, "workerinput"):
        words = [[sys.executable, "-c", COMPILING.format(name)] for name in ("dce-dr", "dce-bayes")]
        for child in [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for each in words]:
            child.wait()


@pytest.fixture(autouse=True)
def _registered_for_one_test(monkeypatch):
    """What a test registers is gone after it, and what registers when it is imported is imported again."""
    registry.registered()
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.delitem(sys.modules, "benchmarks.published", raising=False)


@pytest.fixture(scope="session")
def forked():
    """Starts a copy of this process, with all it has imported, that does one thing and may be killed at any time."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")

    def start(work):
        def do():
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)

        process = multiprocessing.get_context("fork").Process(target=do)
        process.start()
        return process

    return start


@pytest.fixture(scope="session")
def run():
    """Run a command; `code` is the exit code it must have."""

    def invoke(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture(scope="session")
def ratings(tmp_path_factory):
    """A file of some 240 ratings from 1 to 5, next to test.csv."""
    folder = tmp_path_factory.mktemp("ratings")
    world = unskew.simulate(40, 30, density=0.2, test_per_user=6, seed=2)
    for name, log in (("ratings", world.log), ("test", world.test)):
        rows = zip(log.users, log.items, 1 + 4 * log.ratings, strict=True)
        lines = [f"u{user},i{item},{rating:g}\n" for user, item, rating in rows]
        (folder / f"{name}.csv").write_text("user_id,item_id,rating\n" + "".join(lines))
    return folder / "ratings.csv"


@pytest.fixture(scope="session")
def coat_folder():
    """The published Coat files, in the folder coat/ of the one that UNSKEW_DATA names."""
    data = os.environ.get("UNSKEW_DATA")
    if not data:
        pytest.skip("needs the published Coat files: set UNSKEW_DATA to a folder that holds coat/")
    folder = Path(data) / "coat"
    if not folder.is_dir():
        pytest.skip(f"needs the published Coat files, but UNSKEW_DATA={data} holds no folder coat/")
    return folder
