"""Runs that meet each other, or come back to something that has changed: they are refused."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.bench import Validation, search, tune
from unskew.bench.records import Records
from unskew.errors import ParameterError
from unskew.metrics.calibration import calibration_interval
from unskew.training.loop import Loop

FEW = "--set training.max_epochs=2 --set training.batch_size=64"
COMMANDS = {
    "tune": f"tune ratings.csv --method naive --trials 2 --out naive.toml {FEW}".split(),
    "benchmark": f"benchmark ratings.csv --methods naive --seeds 2 --out bench --on-unknown fallback {FEW}".split(),
}


@pytest.fixture
def here(tmp_path, monkeypatch, ratings):
    """A folder to work in, with a log of its own."""
    (tmp_path / "ratings.csv").write_text(ratings.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def at_work(forked, name, commanded):
    """The command in another process, in the middle of it for as long as the block lasts; then it is killed."""

    def wait(*_):
        Path("at work").touch()
        time.sleep(60)

    def work():
        Loop._take = wait if name != "benchmark" else Loop._take
        Records.add = wait
        commanded(*COMMANDS[name])

    process = forked(work)
    while not Path("at work").exists():
        assert process.is_alive()
        time.sleep(0.01)
    yield process
    process.kill()
    process.join()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_process_changes_nothing(name, here, forked, commanded):
    with at_work(forked, name, commanded) as process:
        before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        refused = commanded(*COMMANDS[name], code=2)
        assert f"Process {process.pid} is writing to" in refused
        assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
    commanded(*COMMANDS[name])
    assert not list(here.rglob(".*.lock"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_log_that_has_changed_is_noticed(name, here, commanded, monkeypatch):
    with monkeypatch.context() as patched:
        place = (search.Search, "tell") if name == "tune" else (Records, "add")
        usual = getattr(*place)

        def interrupted(*words):
            usual(*words)
            raise KeyboardInterrupt

        patched.setattr(*place, interrupted)
        commanded(*COMMANDS[name], code=130)
    log = Path("ratings.csv").read_text()
    user, item, rating = log.splitlines()[5].split(",")
    Path("ratings.csv").write_text(log.replace(f"{user},{item},{rating}\n", f"{user},{item},{6 - int(rating)}\n"))
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    refused = commanded(*COMMANDS[name], code=2)
    assert "holds records of another log" in refused
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
    Path("ratings.csv").write_text(log)
    commanded(*COMMANDS[name])


BRIEF = unskew.Training(max_epochs=1, progress=False)
SEEDED = {
    "fit": lambda log, seed: unskew.Naive().fit(log, seed=seed, training=BRIEF),
    "propensity": lambda log, seed: unskew.Factors(n_folds=2).fit(log, seed=seed, training=BRIEF),
    "split": lambda log, seed: unskew.holdout_split(log, 0.1, seed=seed),
    "world": lambda log, seed: unskew.simulate(20, 20, density=0.3, test_per_user=5, seed=seed),
    "bootstrap": lambda log, seed: calibration_interval(log.ratings, log.ratings * 0.8 + 0.1, seed=seed),
    "tune": lambda log, seed: tune(log, "naive", 2, validation=Validation(seed=seed, training=BRIEF)),
}


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_out_of_range_are_refused_and_all_others_work(name, ratings):
    log = unskew.read_log(ratings)
    for seed in (-1, 2**63, 10**30, 1.5, float("nan"), "1", None, [1], np.float64(2)):
        with pytest.raises(ParameterError, match=r"seed (must be|is)"):
            SEEDED[name](log, seed)
    for seed in (np.int64(3), 2**32, 2**63 - 1):
        SEEDED[name](log, seed)
