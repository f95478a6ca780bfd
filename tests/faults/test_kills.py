"""Runs that are killed, interrupted, meet each other or come back to a log that has changed.

Nothing half written is ever taken for whole, the same command ends with the same bits, and what cannot go on is
refused. A command is killed before one of the steps in which it touches files, in the middle of a write, or whenever.
"""

import json
import os
import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest

import unskew
from unskew.bench import search
from unskew.bench.run import Records
from unskew.training.loop import Loop

BRIEF = unskew.Training(max_epochs=1, progress=False)
KILLED = {
    "fit": "fit RATINGS --out out --method dr-jl --set propensity.n_folds=2",
    "calibrated fit": "fit RATINGS --out out --method dce-tdr --set base.propensity.n_folds=2",
    "update": "update BAYES NEW --out out",
    "split": "split RATINGS --out out",
    "tune": "tune RATINGS --out out.toml --method ips --set propensity=additive --trials 3",
    "benchmark": "benchmark RATINGS --out out --methods naive,snips --tune 2 --seeds 2",
    "benchmark by two": "benchmark RATINGS --out out --methods naive,ips --seeds 3 --workers 2",
}
SHORT = [("fit", "step"), ("fit", "write"), ("fit", "whenever"), ("tune", "step"), ("benchmark", "step")]
KILLS = {"step": (1, 20), "write": (1, 10), "whenever": (1, 20)}  # how often in the tests, and in the long run
ALL = [(name, how) for name in KILLED for how in KILLS]
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
        unfinished = path.suffix in (".journal", ".lock", ".rename") or "/." in f"/{name}"
        if path.is_dir() or unfinished or path.name == "results.csv":
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


@pytest.fixture(scope="module")
def words_of(ratings, tmp_path_factory):
    """The words of a command that writes into a folder."""
    bayes = tmp_path_factory.mktemp("sampled") / "model"
    unskew.make("bayes", sweeps=8).fit(str(ratings), training=BRIEF).save(bayes)
    test, new = ratings.with_name("test.csv"), bayes.with_name("new.csv")
    known = {row.rpartition(",")[0] for row in ratings.read_text().splitlines()[1:]}
    new.write_text("\n".join(row for row in test.read_text().splitlines() if row.rpartition(",")[0] not in known))

    def of(name, folder):
        places = {"RATINGS": ratings, "NEW": new, "BAYES": bayes}
        command, *options = KILLED[name].split()
        placed = (folder / word if word.startswith("out") else places.get(word, word) for word in options)
        judged = ("--test", test, "--on-unknown", "fallback") if command == "benchmark" else ()
        few = ("--set", "training.max_epochs=3", "--set", "training.batch_size=64")
        return (command, *placed, *judged, *(few if command in ("fit", "tune", "benchmark") else ()))

    return of


@pytest.fixture(scope="module")
def undisturbed(words_of, commanded, tmp_path_factory):
    """What a command leaves that nobody kills, and how long it takes."""
    known = {}

    def of(name):
        if name not in known:
            for _ in range(2):  # the first time takes longer
                folder = tmp_path_factory.mktemp("undisturbed")
                began = time.perf_counter()
                commanded(*words_of(name, folder))
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


@pytest.mark.parametrize(("name", "how"), ALL if os.environ.get("UNSKEW_LONG") else SHORT)
def test_a_killed_command_goes_on_to_the_same_bits(
    name, how, words_of, undisturbed, commanded, forked, dying, tmp_path, long
):
    expected, seconds = undisturbed(name)
    largest = max(len(held) for held in expected.values() if isinstance(held, bytes))
    chance, killed, wanted, steps = random.Random(f"{name} {how}"), 0, KILLS[how][long], 60
    for number in range(5 * wanted + 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        work = partial(commanded, *words_of(name, folder))
        if how == "step":
            step = chance.randrange(steps)
            child = forked(dying(step, folder, work))
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
        steps = max(step, 1) if how == "step" and child.exitcode == 0 else steps  # it has no more than these
        if killed == wanted:
            return
    raise AssertionError(f"it was killed {killed} times only")


@pytest.fixture(scope="module")
def models():
    """Two models of one log."""
    log = unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1).log
    return [unskew.Naive(net=unskew.MF(n_factors=2)).fit(log, seed=seed, training=BRIEF) for seed in (0, 1)]


def answers(model):
    return model.predict_codes(model.log.users, model.log.items).tolist()


def test_a_save_that_dies_before_any_one_of_its_steps_leaves_the_old_model_or_the_new(models, tmp_path, forked, dying):
    old, new = models
    before, after, moments = answers(old), answers(new), []
    for step in range(100):
        place = tmp_path / str(step) / "model"
        place.parent.mkdir()
        old.save(place)
        child = forked(dying(step, place.parent, lambda place=place: new.save(place)))
        child.join(60)
        found = answers(unskew.load(place))
        assert found in (before, after)
        moments.append(found == after)
        new.save(place)  # whatever was left does not stand in the way
        assert answers(unskew.load(place)) == after
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert step > 10
    assert moments == sorted(moments)  # the new one, once it is there, is there for good
    assert moments[0] is False


def test_remains_of_the_dead_are_removed_by_the_next_save(models, tmp_path, forked):
    gone = forked(lambda: None)
    gone.join()
    for process in (gone.pid, os.getpid()):
        (tmp_path / f".unskew-{process}-0.new").mkdir()
        (tmp_path / f".unskew-{process}-0.new" / "weights.safetensors").touch()
    models[0].save(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".unskew-{os.getpid()}-0.new", "model"]


FEW = "--set training.max_epochs=2 --set training.batch_size=64"
RUNS = {
    "fit": f"fit ratings.csv --method naive --out out {FEW}".split(),
    "tune": f"tune ratings.csv --method naive --trials 2 --out out.toml {FEW}".split(),
    "benchmark": f"benchmark ratings.csv --methods naive --seeds 2 --out out --on-unknown fallback {FEW}".split(),
}


@pytest.fixture
def here(tmp_path, monkeypatch, ratings):
    """A folder to work in, with a log of its own."""
    (tmp_path / "ratings.csv").write_text(ratings.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused_without_a_trace(name, sentence, here, commanded):
    """The command ends with this sentence, and every file stays as it was."""

    def held():
        return {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}

    before = held()
    assert sentence in commanded(*RUNS[name], code=2)
    assert held() == before


@pytest.mark.parametrize("name", ["tune", "benchmark"])
def test_a_second_process_changes_nothing(name, here, forked, commanded):
    """While the first is in the middle of its work."""

    def wait(*_):
        Path("at work").touch()
        time.sleep(60)

    def work():
        Loop._take = wait if name != "benchmark" else Loop._take
        Records.add = wait
        commanded(*RUNS[name])

    first = forked(work)
    while not Path("at work").exists():
        assert first.is_alive()
        time.sleep(0.01)
    refused_without_a_trace(name, f"Process {first.pid} is writing to", here, commanded)
    first.kill()
    first.join()
    commanded(*RUNS[name])
    assert not list(here.rglob(".*.lock"))


KEPT = {
    "fit": "interrupted: no half-written file was left behind.",
    "tune": "finished trials are kept in out.trials.journal; run the same command again to go on.",
    "benchmark": "of 2 jobs finished and kept in out/records.jsonl; run the same command again to go on.",
}
OUTCOMES = {"fit": "out/weights.safetensors", "tune": "out.toml", "benchmark": "out/table.md"}


@pytest.fixture
def interruptible():
    """Let Ctrl-C interrupt also where tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", RUNS)
def test_ctrl_c_says_how_to_go_on_and_going_on_has_the_same_bits(name, here, commanded, monkeypatch, interruptible):
    """Not on another log, which is noticed."""
    commanded(*RUNS[name])
    undisturbed = Path(OUTCOMES[name]).read_bytes()
    for path in here.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with monkeypatch.context() as patched:
        place = {"fit": (Loop, "_take"), "tune": (search.Search, "tell"), "benchmark": (Records, "add")}[name]
        usual = getattr(*place)

        def interrupted(*words):
            usual(*words)
            signal.raise_signal(signal.SIGINT)

        patched.setattr(*place, interrupted)
        lines = commanded(*RUNS[name], code=130).strip().splitlines()
    if name != "fit":  # which begins anew
        assert lines.pop() == f"to go on: unskew {' '.join(RUNS[name])}"
    assert KEPT[name] in lines[-1]
    if name != "fit":
        log = Path("ratings.csv").read_text()
        user, item, rating = log.splitlines()[5].split(",")
        Path("ratings.csv").write_text(log.replace(f"{user},{item},{rating}\n", f"{user},{item},{6 - int(rating)}\n"))
        refused_without_a_trace(name, "holds records of another log", here, commanded)
        Path("ratings.csv").write_text(log)
    commanded(*RUNS[name])
    assert Path(OUTCOMES[name]).read_bytes() == undisturbed
