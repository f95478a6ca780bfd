"""Places that cannot be written to: one sentence, and what was there is still there."""

from __future__ import annotations

from contextlib import suppress
from shutil import copytree

import pytest

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
    words = [str(word).replace("OTHER", str(place.with_name("other"))) for word in words]
    return (*words, *{"fit": FEW, "tune": FEW, "benchmark": FEW}.get(name, ()))


def bytes_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


@pytest.fixture(scope="module")
def place(ratings, commanded, tmp_path_factory):
    """A folder in which every command has been given before."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "place").mkdir()
    (folder / "other").mkdir()
    for name in WRITERS:
        commanded(*words_of(name, ratings, folder / "place"))
    return folder / "place"


def refused(commanded, words, because):
    said = commanded(*words, code=2)
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert because in error, error
    assert error.endswith(".")
    assert "Traceback" not in said


@pytest.fixture
def mine(place, tmp_path):
    """A copy of that folder, and an empty one beside."""
    (tmp_path / "other").mkdir()
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


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_cannot_be_written_to_is_a_sentence(name, ratings, mine, commanded, mounted, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    mounted(
        seen,
        "ro",
        lambda: copytree(mine, seen, dirs_exist_ok=True),
        lambda: refused(commanded, further(words_of(name, ratings, seen)), "read-only file system"),
    )


def test_a_disk_without_room_is_a_sentence_and_keeps_what_was_there(ratings, mine, commanded, mounted, tmp_path):
    small = tmp_path / "small"
    small.mkdir()

    def fill_it():
        copytree(mine / "model", small / "model")
        (small / "ballast").touch()
        with suppress(OSError), (small / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def fit():
        before = bytes_in(small)
        refused(commanded, words_of("fit", ratings, small), "no space left on device")
        assert bytes_in(small) == before

    mounted(small, "size=2m", fill_it, fit)
