"""Places that cannot be written to, memory that is not there, numbers and seeds out of range: one sentence.

What was there is still there, and the process lives on.
"""

from shutil import copytree

import numpy as np
import pytest

import unskew
from unskew.bench import Validation, tune
from unskew.errors import ParameterError
from unskew.metrics.calibration import calibration_interval

BRIEF = unskew.Training(max_epochs=1, progress=False)
FEW = ("--set", "training.max_epochs=2", "--set", "training.batch_size=64")
WRITERS = {
    "fit": "fit RATINGS --method naive --seed 1 --out PLACE/model",
    "tune": "tune RATINGS --method naive --trials 3 --out PLACE/naive.toml",
    "benchmark": "benchmark RATINGS --test TEST --on-unknown fallback --methods naive --seeds 3 --out PLACE/bench",
    "predict": "predict PLACE/model TEST --on-unknown fallback --out PLACE/predictions.csv",
    "recommend": "recommend PLACE/model --k 5 --out PLACE/recommendations.parquet",
    "evaluate": "evaluate PLACE/model TEST --on-unknown fallback --per-user PLACE/users.csv",
    "diagnose": "diagnose PLACE/bench --out PLACE/report.html",
}


def words_of(name, ratings, place):
    places = {"RATINGS": ratings, "TEST": ratings.with_name("test.csv")}
    words = [places.get(word) or word.replace("PLACE", str(place)) for word in WRITERS[name].split()]
    return (*words, *{"fit": FEW, "tune": FEW, "benchmark": FEW}.get(name, ()))


def bytes_in(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def place(ratings, commanded, tmp_path_factory):
    """A folder in which every command has been given before."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "place").mkdir()
    for name in WRITERS:
        commanded(*words_of(name, ratings, folder / "place"))
    return folder / "place"


def refused(commanded, words, because):
    printed = commanded(*words, code=2)
    (error,) = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert because in error, error
    assert error.endswith(".")
    assert "Traceback" not in printed


@pytest.fixture
def mine(place, tmp_path):
    """A copy of that folder."""
    return copytree(place, tmp_path / "place")


def further(words):
    """The same command with something that it has not done before."""
    return ["9" if word == "3" and words[at - 1] in ("--trials", "--seeds") else word for at, word in enumerate(words)]


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_a_sentence_and_keeps_what_was_there(name, ratings, mine, commanded, contained):
    before = bytes_in(mine)
    records = {"tune": "naive.trials.journal", "benchmark": "bench/records.jsonl"}.get(name)
    limit = 300 + (len(before[records]) if records else 0)

    def with_full_disk():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
        refused(commanded, further(words_of(name, ratings, mine)), "file too large")

    contained(with_full_disk)
    after = bytes_in(mine)
    journal = "naive.trials.journal"
    if name == "tune":  # to which lines of unfinished trials may have been added
        after[journal] = after[journal][: len(before[journal])]
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if ".unskew-" in path]


def test_a_fit_that_needs_more_memory_than_there_is_says_so(contained):
    log = unskew.simulate(20, 20, density=0.3, test_per_user=5, seed=1).log
    many = unskew.simulate(20_000, 20, density=0.3, test_per_user=5, seed=1).log

    def check():
        for method, of in (
            (unskew.Naive(net=unskew.MF(n_factors=100_000)), many),
            (unskew.DRJL(propensity=unskew.Additive(), pairs_per_row=1000), many),
        ):
            with pytest.raises(ParameterError, match="needs more memory than there is: lower n_factors"):
                method.fit(of, training=unskew.Training(max_epochs=1, batch_size=1 << 20, progress=False))
        unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=False))

    contained(check, gigabytes=0.5)


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
