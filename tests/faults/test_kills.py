"""Commands that are killed: nothing half written is ever taken for whole, and the same command ends with the same bits.

A command is killed before one of the steps in which it touches files, in the middle of a write, or whenever it happens.
"""

from __future__ import annotations

import json
import random
import signal
import time
from functools import partial

import pytest

import unskew

COMMANDS = {
    "fit": "fit --out out --method dr-jl --set propensity.n_folds=2",
    "calibrated fit": "fit --out out --method dce-tdr --set base.propensity.n_folds=2",
    "tune": "tune --out out.toml --method ips --set propensity=additive --trials 3",
    "benchmark": "benchmark --out out --methods naive,snips --tune 2 --seeds 2",
    "benchmark by two": "benchmark --out out --methods naive,ips --seeds 3 --workers 2",
}
SHORT = {("fit", "step"), ("fit", "write"), ("fit", "whenever"), ("tune", "step"), ("benchmark", "step")}
KILLS = {"step": (2, 20), "write": (1, 10), "whenever": (1, 20)}  # how often in the tests, and in the long run
MEASURED = ("seconds", "peak_megabytes", "sha256")  # what differs from run to run


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(held) for key, held in value.items() if key not in MEASURED}
    return [timeless(held) for held in value] if isinstance(value, list) else value


def found_in(folder):
    """What stands in the files of a command by their names, but for costs and what is not finished."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.suffix in (".journal", ".lock") or path.name == "results.csv" or "/." in f"/{name}":
            continue
        if path.suffix == ".jsonl":
            *lines, _ = path.read_bytes().split(b"\n")
            records = map(json.loads, lines)
            found[name] = {record["key"]: timeless(record["values"]) for record in records}
        else:
            found[name] = timeless(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()
    return found


def assert_nothing_is_half(folder, expected):
    """Whatever has its final name is whole."""
    for name, held in found_in(folder).items():
        if name.endswith(".jsonl"):
            assert held.items() <= expected[name].items()
        else:
            assert held == expected[name]
    if (folder / "out" / "model.json").exists():
        unskew.load(folder / "out")


def words_of(name, ratings, folder):
    command, *options = COMMANDS[name].split()
    placed = (folder / word if word.startswith("out") else word for word in options)
    judged = ("--test", ratings.with_name("test.csv"), "--on-unknown", "fallback") if command == "benchmark" else ()
    few = ("--set", "training.max_epochs=3", "--set", "training.batch_size=64")
    return (command, ratings, *placed, *judged, *few)


@pytest.fixture(scope="module")
def undisturbed(ratings, commanded, tmp_path_factory):
    """What a command leaves that nobody kills, and how long it takes."""
    known = {}

    def of(name):
        if name not in known:
            for _ in range(2):  # the first time takes longer
                folder = tmp_path_factory.mktemp("undisturbed")
                began = time.perf_counter()
                commanded(*words_of(name, ratings, folder))
                known[name] = found_in(folder), time.perf_counter() - began
        return known[name]

    return of


def size_limited(limit, work):
    """Killed by the system in the middle of the write that makes a file larger than this."""

    def limited():
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
        work()

    return limited


@pytest.mark.parametrize("how", KILLS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_goes_on_to_the_same_bits(
    name, how, ratings, undisturbed, commanded, forked, dying, tmp_path, long
):
    if (name, how) not in SHORT and not long:
        pytest.skip("only in the long run")
    expected, seconds = undisturbed(name)
    largest = max(len(held) for held in expected.values() if isinstance(held, bytes))
    chance, killed, wanted = random.Random(f"{name} {how}"), 0, KILLS[how][long]
    for number in range(5 * wanted + 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        work = partial(commanded, *words_of(name, ratings, folder))
        if how == "step":
            child = forked(dying(chance.randrange(60), folder, work))
        elif how == "write":
            child = forked(size_limited(chance.randrange(100, largest), work))
        else:
            child = forked(work)
        child.join(chance.uniform(0, seconds) if how == "whenever" else 60)
        child.kill()
        child.join()
        assert_nothing_is_half(folder, expected)
        work()
        assert found_in(folder) == expected
        killed += child.exitcode < 0
        if killed == wanted:
            return
    raise AssertionError(f"it was killed {killed} times only")
