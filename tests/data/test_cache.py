"""Claims about cached logs: the same bits as in memory, found again if whole, noticed and built again if not."""

import contextlib
import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.data import build, cache, columns, stream
from unskew.data import text as text_files
from unskew.data.read import read_log
from unskew.data.vocabulary import Vocabulary
from unskew.errors import CacheWarning, DataError, ParameterError
from unskew.files.seal import sealed

N_USERS, N_ITEMS, N_ROWS = 40, 30, 500
RNG = np.random.default_rng(0)
PAIRS = RNG.integers(0, N_USERS * N_ITEMS, N_ROWS)  # many of them more than once
TABLE = pa.table({"user_id": PAIRS // N_ITEMS, "item_id": PAIRS % N_ITEMS, "rating": RNG.integers(1, 11, N_ROWS) / 2})
DISTINCT = TABLE.take(np.unique(PAIRS, return_index=True)[1][RNG.permutation(len(np.unique(PAIRS)))])


def as_text(table):
    """The same rows with ids that are no integers."""
    names = {"user_id": "user ünd {:03}", "item_id": "{:04}"}
    columns = {name: [form.format(value) for value in table[name].to_pylist()] for name, form in names.items()}
    return pa.table(columns | {"rating": table["rating"]})


def csv(table, delimiter=","):
    rows = zip(*table.to_pydict().values(), strict=True)
    return "".join(delimiter.join(map(str, row)) + "\n" for row in itertools.chain([table.column_names], rows)).encode()


def parquet(table, path):
    pq.write_table(table, path, row_group_size=70)


def folder_of(write, ending):
    def written(table, path):
        path.mkdir()
        for part, start in enumerate((0, 100, 100, 333)):
            stop = (100, 100, 333, None)[part]
            write(table[start:stop], path / f"part-{part}{ending}")
        (path / "_SUCCESS").touch()

    return written


SOURCES = {
    "log.parquet": parquet,
    "log.csv": lambda table, path: path.write_bytes(csv(table)),
    "log.tsv": lambda table, path: path.write_bytes(csv(table, "\t")),
    "log.csv.gz": lambda table, path: path.write_bytes(gzip.compress(csv(table))),
    "parquet files": folder_of(parquet, ".parquet"),
    "text files": folder_of(lambda table, path: path.write_bytes(csv(table)), ".csv"),
}
SCALES = {"binary": {}, "graded": {"positive": None, "rating_scale": (0.5, 5)}}


@pytest.fixture
def _in_small_steps(monkeypatch):
    """Lets a small log need many batches, pieces and passes."""
    monkeypatch.setattr(stream, "_BATCH", 37)
    monkeypatch.setattr(text_files, "_BLOCK", 256)
    monkeypatch.setattr(columns, "_PIECE", 41)
    monkeypatch.setattr(columns, "_PASS", 29)


@pytest.fixture
def source(tmp_path):
    parquet(DISTINCT, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


@pytest.fixture
def again(source, tmp_path):
    """Reads the source through the cache."""
    return lambda **settings: read_log(source, cache=tmp_path / "cache", **settings)


@contextlib.contextmanager
def quietly(builds):
    """Nothing is warned of, and so many logs are built."""
    counted, count = cache.build, itertools.count()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(cache, "build", lambda *given: (next(count), counted(*given))[1])
        yield
    assert next(count) == builds


def same(one, other):
    for name in ("users", "items", "ratings"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
        assert not left.flags.writeable
    for name in ("user_ids", "item_ids"):
        assert getattr(one, name).arrow.equals(getattr(other, name).arrow)
    assert (one.scale, one.duplicates_merged) == (other.scale, other.duplicates_merged)
    return True


def stored(folder):
    """The folder of the one log that a cache holds."""
    (found,) = folder.glob("cache/*/log")
    return found


def leftovers(folder):
    return [path for path in (folder / "cache").rglob("*") if path.name.startswith(".") or path.name == "scratch"]


@pytest.mark.usefixtures("_in_small_steps")
@pytest.mark.parametrize("duplicates", ["error", "last", "mean"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("ids", ["integers", "text"])
@pytest.mark.parametrize("name", SOURCES)
def test_the_log_from_a_cache_is_the_log_from_memory_bit_for_bit(tmp_path, name, ids, scale, duplicates):
    table = DISTINCT if duplicates == "error" else TABLE
    SOURCES[name](table if ids == "integers" else as_text(table), tmp_path / name)
    settings = SCALES[scale] | {"duplicates": duplicates}
    expected = read_log(tmp_path / name, **settings)
    assert expected.duplicates_merged == (0 if duplicates == "error" else N_ROWS - len(DISTINCT))
    with quietly(builds=1):
        assert same(read_log(tmp_path / name, cache=tmp_path / "cache", **settings), expected)
        opened = read_log(tmp_path / name, cache=tmp_path / "cache", **settings)
    assert same(opened, expected)
    assert all(isinstance(column, np.memmap) for column in (opened.users, opened.items, opened.ratings))
    assert not leftovers(tmp_path)


@pytest.mark.usefixtures("_in_small_steps")
def test_catalogues_and_features_are_those_of_a_log_in_memory(source, again):
    people = pa.table({"user_id": range(N_USERS), "age": range(20, 20 + N_USERS)})
    settings = {"user_ids": range(N_USERS + 5), "item_ids": [str(item) for item in range(N_ITEMS)][::-1]}
    with quietly(builds=1):
        for log in (again(**settings), again(**settings, user_features=people)):
            assert same(log, read_log(source, **settings))
    assert log.n_users == N_USERS + 5
    np.testing.assert_array_equal(log.user_features.values[:3, 0], [20, 21, 22])
    assert again(item_ids=Vocabulary(range(N_ITEMS))).items.tolist() == DISTINCT["item_id"].to_pylist()


@pytest.mark.usefixtures("_in_small_steps")
@pytest.mark.parametrize(
    ("row", "settings", "sentence"),
    [
        ({"user_id": 7, "item_id": 8, "rating": None}, {}, r"row 335 of column 'rating' of log.parquet has no rating"),
        ({"user_id": None, "item_id": 8, "rating": 1}, {}, r"row 335 of column 'user_id' of log.parquet has no id"),
        ({"user_id": 7, "item_id": 99, "rating": 9}, {"rating_scale": (0, 5)}, r"row 335 .* holds the rating 9"),
        ({"user_id": 7, "item_id": 99, "rating": 1}, {"item_ids": range(N_ITEMS)}, r"row 335 .* holds 99, which"),
        (DISTINCT.to_pylist()[200], {}, r"user \d+ rated item \d+ twice, in rows 201 and 335: pass duplicates='last'"),
        ({"user_id": 7, "item_id": 99, "rating": 1}, {"positive": 6}, r"every rating is negative \(below 6\)"),
        ({"user_id": 7, "item_id": 99, "rating": 1}, {"rating": "stars"}, r"has no column 'stars'"),
    ],
)
def test_what_is_no_log_is_refused_in_the_same_words_and_leaves_nothing(tmp_path, row, settings, sentence):
    rows = DISTINCT.to_pylist()
    rows.insert(334, row)
    parquet(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    said = []
    for folder in (None, tmp_path / "cache"):
        with pytest.raises(DataError, match=sentence) as refused:
            read_log(tmp_path / "log.parquet", cache=folder, **settings)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert not list(tmp_path.glob("cache/*/log"))
    assert not leftovers(tmp_path)


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


def flip(path):
    """Change one bit and leave size and time of change as they were."""
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap(path):
    path.unlink()
    path.symlink_to(path.parent)


HARMS = {
    cut: r"(i32|f32|arrow) has [0-9,]+ bytes, not the [0-9,]+ that were|json has been altered or damaged",
    flip: "has been altered or damaged|cache.json does not describe an unskew cache",
    Path.unlink: "is missing",
    swap: "is not a regular file",
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", [*build.COLUMNS, *build.IDS, cache.CONTENTS])
def test_a_harmed_cache_is_noticed_said_once_and_built_again(source, again, tmp_path, name, harm):
    expected = read_log(source)
    again()
    harm(stored(tmp_path) / name)
    with pytest.warns(CacheWarning, match=rf"the cache .*log is built again: .*({HARMS[harm]})") as warned:
        assert same(again(), expected)
    (sentence,) = (str(warning.message) for warning in warned)
    assert warned[0].filename == __file__
    assert "\n" not in sentence
    assert sentence.endswith(".")
    with quietly(builds=0):
        assert same(again(), expected)


def test_a_log_in_use_outlives_the_rebuilding_of_its_cache(again, tmp_path):
    log, expected = again(), again().users.tolist()
    cut(stored(tmp_path) / "items.i32")
    with pytest.warns(CacheWarning):
        again()
    assert log.users.tolist() == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": cache.VERSION + 1}, r"it has format version 2, and this unskew has 1\."),
        ({"version": "1"}, r"it has format version '1'"),
        ({"format": "unskew model"}, r"cache.json does not describe an unskew cache"),
        ({"asked": {}}, r"it was made with other settings"),
    ],
)
def test_a_cache_of_another_version_or_making_is_noticed(again, tmp_path, change, reason):
    expected, path = again(), stored(tmp_path) / cache.CONTENTS
    content = json.loads(path.read_text())
    del content["sha256"]
    path.write_bytes(sealed({}, content | change))
    with pytest.warns(CacheWarning, match=reason):
        assert same(again(), expected)


def test_the_contents_tell_rows_source_settings_and_files(source, again, tmp_path):
    again(duplicates="last")
    content = json.loads((stored(tmp_path) / cache.CONTENTS).read_text())
    state = source.stat()
    assert content["source"] == [["log.parquet", state.st_size, state.st_mtime_ns]]
    assert (content["rows"], content["duplicates_merged"]) == (len(DISTINCT), 0)
    assert content["asked"]["scale"] == ["3.0", "-inf", "inf"]
    sizes = {path.name: path.stat().st_size for path in stored(tmp_path).iterdir() if path.name != cache.CONTENTS}
    assert {name: entry["size"] for name, entry in content["files"].items()} == sizes
    assert sizes["users.i32"] == 4 * len(DISTINCT)


def test_a_changed_source_is_noticed_and_read_again(source, again, tmp_path):
    again()
    parquet(DISTINCT[:100], source)
    with pytest.warns(CacheWarning, match=r"log.parquet has changed since\."):
        assert len(again()) == 100
    os.utime(source, ns=(0, 0))
    with pytest.warns(CacheWarning, match="has changed since"):
        assert len(again()) == 100
    assert len(list(tmp_path.glob("cache/*/log"))) == 1


def test_a_folder_in_which_a_file_came_went_or_changed_its_name_is_a_changed_source(tmp_path):
    SOURCES["parquet files"](DISTINCT, folder := tmp_path / "log")
    read_log(folder, cache=tmp_path / "cache")
    steps = (
        lambda: parquet(TABLE.slice(0, 0), folder / "part-9.parquet"),
        (folder / "part-9.parquet").unlink,
        lambda: (folder / "part-0.parquet").rename(folder / "part-7.parquet"),
    )
    for step in steps:
        step()
        with pytest.warns(CacheWarning, match="log has changed since"):
            log = read_log(folder, cache=tmp_path / "cache")
        assert same(log, read_log(folder))


def test_a_source_that_changes_while_it_is_read_is_refused(source, again, tmp_path, monkeypatch):
    def disturbed(*given):
        os.utime(source, ns=(1, 1))
        return build.build(*given)

    monkeypatch.setattr(cache, "build", disturbed)
    with pytest.raises(DataError, match=r"log.parquet has changed while it was read: read it again\."):
        again()
    assert not list(tmp_path.glob("cache/*/log"))


OTHER = (
    {"positive": 4},
    {"positive": None, "rating_scale": (0, 5)},
    {"positive": None, "rating_scale": (0, 10)},
    {"duplicates": "last"},
    {"duplicates": "mean"},
    {"user": "item_id", "item": "user_id"},
    {"user_ids": range(N_USERS)},
    {"item_ids": range(N_ITEMS)},
    {"item_ids": range(N_ITEMS)[::-1]},
)


def test_other_settings_and_other_sources_have_caches_of_their_own(source, again, tmp_path):
    with quietly(builds=1 + len(OTHER)):
        for settings in ({}, *OTHER, {}, *OTHER):
            assert same(again(**settings), read_log(source, **settings))
    shutil.copytree(tmp_path, twin := tmp_path.with_name("twin"))  # same names, sizes and times
    with quietly(builds=1):
        read_log(twin / "log.parquet", cache=tmp_path / "cache")


def test_a_cache_that_moves_is_still_believed_and_opening_one_writes_nothing(source, again, tmp_path, monkeypatch):
    expected = again()
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    monkeypatch.delattr(cache, "FileLock")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert same(read_log(source, cache=tmp_path / "copy"), expected)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_a_cache_is_refused_in_one_sentence(source, tmp_path):
    for folder, sentence in (
        (source, r"the cache .*log.parquet is a file: pass a folder as cache\."),
        (source / "cache", r"the cache .* cannot be used: not a directory; nothing half written is left there"),
        ("", "cannot name a file or folder"),
        (3, "A path must be a text"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            read_log(source, cache=folder)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that may not be written to")
def test_a_folder_that_may_not_be_written_to_is_refused(source, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(ParameterError, match="permission denied"):
        read_log(source, cache=tmp_path / "closed")


def finished(child):
    child.join(60)
    return child.exitcode


@pytest.mark.parametrize("limit", [1000, 4000], ids=["staged column", "file of ids"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(source, tmp_path, forked, limit):
    long = [f"{item:0200}" for item in DISTINCT["item_id"].to_pylist()]
    parquet(DISTINCT.set_column(1, "item_id", pa.array(long)), source)

    def build_on_a_full_disk():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))  # stands for a disk that is full
        with pytest.raises(ParameterError, match=r"cannot be used: file too large; nothing half written is left there"):
            read_log(source, cache=tmp_path / "cache", duplicates="last")

    assert finished(forked(build_on_a_full_disk)) == 0
    assert not list(tmp_path.glob("cache/*/log"))
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("moment", ["in the middle", "at the end"])
def test_a_killed_build_is_never_taken_for_a_cache_and_its_remains_are_removed(source, again, tmp_path, forked, moment):
    half = tmp_path / "half"

    def stop_half_way(*given, finish=build._finish):
        if moment == "at the end":
            finish(*given)
        half.touch()
        time.sleep(60)

    def build_until_killed():
        stream._BATCH, build._finish = 50, stop_half_way
        again()

    child = forked(build_until_killed)
    while not half.exists():
        assert child.is_alive()
        time.sleep(0.01)
    child.kill()
    child.join()
    assert leftovers(tmp_path)
    with quietly(builds=1):
        assert same(again(), read_log(source))
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("harmed", [False, True])
def test_two_processes_that_build_the_same_cache_both_end_well(source, again, tmp_path, forked, harmed):
    if harmed:
        again()
        cut(stored(tmp_path) / "users.i32")
    expected = read_log(source)

    def slow(*given, build=cache.build):
        with (tmp_path / "builds").open("a") as file:
            file.write("built\n")
        time.sleep(0.3)  # in which the other one comes
        return build(*given)

    def both():
        cache.build = slow
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheWarning)
            assert same(again(), expected)

    children = [forked(both) for _ in range(2)]
    assert [finished(child) for child in children] == [0, 0]
    assert (tmp_path / "builds").read_text() == "built\n"  # the other one waited
    assert not leftovers(tmp_path)
    with quietly(builds=0):
        assert same(again(), expected)


MEMORY = """
import sys, threading, time
from unskew.data import columns, stream
from unskew.data.read import read_log
stream._BATCH, columns._PIECE, columns._PASS = 1 << 15, 1 << 16, 1 << 16
def anonymous():
    return int(open("/proc/self/status").read().partition("RssAnon:")[2].split()[0]) / 1024
cache = sys.argv[3] if len(sys.argv) > 3 else None
read_log(sys.argv[1], cache=cache, duplicates="mean")  # a small log first, to import and warm up everything
before, peak, done = anonymous(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, anonymous() - before)
        time.sleep(0.001)
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
log = read_log(sys.argv[2], cache=cache, duplicates="mean")
assert log.duplicates_merged == 1
repr(log), log.positive_rate, log.take(slice(5, None)), log.take(log.users == 5)
done = True
watcher.join()
print(peak)
"""


def peak_of(*words):
    """In a fresh interpreter, whose memory no test before has filled."""
    command = [sys.executable, "-c", MEMORY, *map(str, words)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
def test_a_cache_is_built_and_opened_in_memory_that_does_not_grow_with_the_log(source, tmp_path):
    n_rows, n_users, n_items = 1_500_000, 2_000, 1_000
    pairs = np.arange(n_rows) * 1_299_709 % (n_users * n_items)
    pairs[-1] = pairs[0]
    table = pa.table({"user_id": pairs // n_items, "item_id": pairs % n_items, "rating": pairs % 5 + 1})
    pq.write_table(table, large := tmp_path / "large.parquet", row_group_size=1 << 16)
    in_memory, built, opened = (peak_of(source, large, *folder) for folder in ((), *[(tmp_path / "cache",)] * 2))
    assert in_memory > 60  # MB, of which 18 are the columns
    assert built < 20
    assert opened < 4


def test_a_method_learns_the_same_from_a_cached_log(tmp_path):
    world = unskew.simulate(50, 40, density=0.2, seed=3)
    pq.write_table(world.log.to_arrow(), path := tmp_path / "world.parquet")
    fits = [
        unskew.Naive().fit(read_log(path, positive=1, cache=folder), seed=1, training=unskew.Training(progress=False))
        for folder in (None, tmp_path / "cache")
    ]
    users, items = world.log.user_ids.take(world.log.users), world.log.item_ids.take(world.log.items)
    assert fits[0].predict(users, items).tobytes() == fits[1].predict(users, items).tobytes()
