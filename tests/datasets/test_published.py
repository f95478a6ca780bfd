"""Claims about published data sets: their formats, their counts, what is refused, and the real files where they are."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from unskew import DataError, ParameterError, datasets

YAHOO_TRAIN, YAHOO_TEST = (f"ydata-ymusic-rating-study-v1_0-{part}.txt" for part in ("train", "test"))
JESTER = "2,7.5,99,-9.95\n3,0,1.5,2\n"
SMALL = {
    "coat": {
        "train.ascii": "5 0 0 1\n0 0 3 0\n2 4 0 0\n",
        "test.ascii": "0 2 0 0\n0 0 4 1\n0 0 0 3\n",
        "user_item_features/user_features.ascii": "0 1\n1 0\n1 1\n",
        "user_item_features/user_features_map.txt": "gender:men\nage:over 60",
        "user_item_features/item_features.ascii": "0 0 1\n1 0 0\n0 1 0\n1 1 1\n",
        "user_item_features/item_features_map.txt": "color:red\ncolor:blue\nonfrontpage:no",
    },
    "yahoo_r3": {YAHOO_TRAIN: "1\t3\t5\n1\t5\t1\n3\t1\t3\n", YAHOO_TEST: "2\t1\t4\n2\t6\t2\n"},
    "kuairec": {"user.txt": "0,3,0.99\n2,1,1.0\n4,0,12.5\n", "random.txt": "0,2,0.0\n1,5,1.5\n"},
    "movielens": {
        "ratings.csv": "userId,movieId,rating,timestamp\n1,10,4.0,964982703\n1,20,3.5,964981247\n2,10,0.5,964982224\n",
        "movies.csv": "movieId,title,genres\n10,Toy Story (1995),Comedy\n20,Heat (1995),Action|Crime\n",
        "README.txt": "Summary\n",
    },
    "jester": {"jester-data-1.csv": JESTER},
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def small(name, folder, **changes):
    return write(folder, SMALL[name] | changes)


def triples(log):
    columns = log.to_arrow().to_pydict()
    return set(zip(*(columns[name] for name in log.names[:3]), strict=True))


TRAIN = {
    "coat": {(0, 0, 1), (0, 3, 0), (1, 2, 1), (2, 0, 0), (2, 1, 1)},
    "yahoo_r3": {(1, 3, 1), (1, 5, 0), (3, 1, 1)},
    "kuairec": {(0, 3, 0), (2, 1, 1), (4, 0, 1)},
    "movielens": {(1, 10, 1), (1, 20, 0), (2, 10, 0)},
    "jester": {(1, 1, 1), (1, 3, 0), (2, 1, 0), (2, 2, 0), (2, 3, 1)},
}
TEST = {
    "coat": {(0, 1, 0), (1, 2, 1), (1, 3, 0), (2, 3, 1)},
    "yahoo_r3": {(2, 1, 1), (2, 6, 0)},
    "kuairec": {(0, 2, 0), (1, 5, 1)},
}


SIZES = {"coat": (3, 4), "yahoo_r3": (3, 6), "kuairec": (5, 6), "movielens": (2, 2), "jester": (2, 3)}


@pytest.mark.parametrize("name", SMALL)
def test_files_are_read_as_published(name, tmp_path):
    (tmp_path / name).mkdir()
    small(name, tmp_path / name)
    data = datasets.load(name, tmp_path)  # which holds the folder
    assert triples(data.train) == TRAIN[name]
    assert (data.train.n_users, data.train.n_items) == SIZES[name]
    assert all(note in str(data) for note in data.notes)
    assert any("; the original has" in note for note in data.notes)
    if name in TEST:
        assert triples(data.test) == TEST[name]
        assert data.train.user_ids is data.test.user_ids or list(data.train.user_ids) == list(data.test.user_ids)
        assert f"{len({t[:2] for t in TRAIN[name]} & {t[:2] for t in TEST[name]})} pairs occur in both" in str(data)
    else:
        with pytest.raises(DataError, match="no ratings of random pairs"):
            _ = data.test


def test_the_variant_of_yahoo_gives_the_same_logs(tmp_path):
    data = datasets.load(
        "yahoo_r3", write(tmp_path, {"user.txt": "0,2,5\n0,4,1\n2,0,3\n", "random.txt": "1,0,4\n1,5,2\n"})
    )
    assert (triples(data.train), triples(data.test)) == (TRAIN["yahoo_r3"], TEST["yahoo_r3"])
    assert any("1 was added to every id" in note for note in data.notes)


def test_coat_has_named_features_and_a_note_without(tmp_path):
    data = datasets.load("coat", small("coat", tmp_path))
    for log in (data.train, data.test):
        assert log.user_features.names == ("gender:men", "age:over 60")
        assert log.user_features.values.tolist() == [[0, 1], [1, 0], [1, 1]]
    (tmp_path / "user_item_features/item_features_map.txt").unlink()
    data = datasets.load("coat", tmp_path)
    assert data.train.item_features is None
    assert "item features are missing; left out" in data.notes


def test_movielens_has_titles_and_times_in_each_release(tmp_path):
    rows, films = (
        "1::10::4::964982703\n1::20::3::964981247\n2::10::1::964982224\n",
        "10::Toy Story (1995)::Comedy\n20::Heat (1995)::Action\n",
    )
    latin = (films + "30::Caf\xe9::\n").replace("::", "|").encode("latin-1")
    releases = {
        "latest": SMALL["movielens"],
        "packed": {f"{name}.gz": gzip.compress(text.encode()) for name, text in SMALL["movielens"].items()},
        "1m": {"ratings.dat": rows, "movies.dat": films},
        "100k": {"u.data": rows.replace("::", "\t"), "u.item": latin},
    }
    for name, files in releases.items():
        (tmp_path / name).mkdir()
        log = datasets.load("movielens", write(tmp_path / name, files)).train
        assert triples(log) == TRAIN["movielens"]
        assert log.times.tolist() == [964982703, 964981247, 964982224]
        assert log.titles.to_pylist() == ["Toy Story (1995)", "Heat (1995)"]
        assert ("1" in name) == any("is no header" in note for note in log.notes)


def test_jester_leaves_out_what_was_not_rated(tmp_path):
    plain = datasets.load("jester", small("jester", tmp_path), positive=None).train
    assert (1, 1, 7.5) in triples(plain)
    assert len(plain) == 5
    two = datasets.load("jester", write(tmp_path, {"jester-data-2.csv": JESTER})).train
    assert (two.n_users, len(two)) == (4, 10)
    (tmp_path / "complete").mkdir()
    files = {"complete.csv.gz": gzip.compress(b"user,j1,j2\n3,408,-29\n8,-995,1000\n")}
    log = datasets.load("jester", write(tmp_path / "complete", files), positive=None).train
    assert {(u, i, round(r, 4)) for u, i, r in triples(log)} == {(3, 1, 4.08), (3, 2, -0.29), (8, 1, -9.95), (8, 2, 10)}


def test_open_bandit_is_a_frame_of_impressions(tmp_path):
    rows = "row,item_id,position,click,propensity_score\n0,2,2,0,0.045\n1,9,3,1,0.059\n"
    write(tmp_path, {"men_bts.csv.gz": gzip.compress(rows.encode())})
    frame = datasets.open_bandit(tmp_path, "men", "bts")
    assert frame["click"].to_pylist() == [0, 1]
    for refused in ({"campaign": "all"}, {"campaign": "kids"}, {"policy": "best"}):
        with pytest.raises((DataError, ParameterError), match=r"neither|must be"):
            datasets.open_bandit(tmp_path, **refused)
    with pytest.raises(ParameterError, match="impressions and no ratings"):
        datasets.load("open_bandit", tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "text", "complaint"),
    [
        ("coat", "train.ascii", "5 0 0 1\n0 0 7 0\n2 4 0 0\n", "train.ascii makes no rating log: row 3 .* outside"),
        ("coat", "train.ascii", "5 0 0 1\n0 x 3 0\n2 4 0 0\n", "row 2 of column '2' of train.ascii holds 'x'"),
        ("coat", "train.ascii", "0 0 0 0\n" * 3, "train.ascii makes no rating log: there are no ratings"),
        ("coat", "train.ascii", "", "train.ascii is empty"),
        ("coat", "test.ascii", "0 2 0 0 3\n0 0 4 1 0\n", "the catalogue of 4 ids does not list"),
        ("coat", "user_item_features/user_features_map.txt", "gender:men", r"where there must be \(3, 1\)"),
        ("coat", "user_item_features/user_features_map.txt", "a\na", "same name"),
        ("yahoo_r3", YAHOO_TRAIN, "1\t3\t5\n1\t5\t6\n", "row 2 of ratings holds the rating 6, which is outside"),
        ("yahoo_r3", YAHOO_TRAIN, "0\t3\t5\n1\t5\t1\n", "ids from 0 to 5, not from 1 to 10,000,000"),
        ("yahoo_r3", YAHOO_TRAIN, "1\t1.5\t5\n1\t5\t1\n", "column '2' of ydata.* holds '1.5'"),
        ("kuairec", "user.txt", "0,3,0.99\n2,1,-0.1\n", "outside the scale"),
        ("jester", "jester-data-1.csv", "2,7.5,99\n3,0,\n", "has no rating"),
    ],
)
def test_damage_is_refused_with_its_place(name, file, text, complaint, tmp_path):
    with pytest.raises(DataError, match=complaint) as refusal:
        datasets.load(name, small(name, tmp_path, **{file: text}))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "file"),
    [("coat", "test.ascii"), ("yahoo_r3", YAHOO_TRAIN), ("kuairec", "random.txt"), ("movielens", "ratings.csv")],
)
def test_a_missing_file_is_named(name, file, tmp_path):
    (small(name, tmp_path) / file).unlink()
    with pytest.raises(DataError, match=f"has no file {file}"):
        datasets.load(name, tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        datasets.load(name, write(tmp_path, {"a.txt": "1"}) / "a.txt")


@pytest.fixture(scope="module")
def real_coat(coat_folder):
    return datasets.load("coat", coat_folder)


def test_real_coat_has_the_published_counts_and_rates(real_coat, coat_folder):
    assert any(note.endswith("as in the original") for note in real_coat.notes)
    assert "366 pairs occur in both train and test; kept" in real_coat.notes
    above_3 = datasets.load("coat", coat_folder, positive=4)
    for log, stricter, per_user, rate, stricter_rate in (
        (real_coat.train, above_3.train, 24, 0.520, 0.274),
        (real_coat.test, above_3.test, 16, 0.401, 0.185),
    ):
        assert (np.bincount(log.users, minlength=290) == per_user).all()
        assert log.positive_rate == pytest.approx(rate, abs=5e-4)
        assert stricter.positive_rate == pytest.approx(stricter_rate, abs=5e-4)
    assert len(real_coat.train.user_features.names) == 14
    assert real_coat.train.item_features.names[-1] == "onfrontpage:no"


def folder(name):
    path = Path(os.environ.get("UNSKEW_DATA", ".")) / name
    return path if path.is_dir() else pytest.skip(f"needs {name}/ in UNSKEW_DATA")


@pytest.mark.parametrize(("name", "place"), [("movielens", "movielens-latest-small"), ("jester", "jester")])
def test_the_real_files_have_the_published_counts(name, place):
    data = datasets.load(name, folder(place))
    assert any(note.endswith("as in the original") for note in data.notes)
    assert name == "jester" or data.train.titles[0].as_py() == "Toy Story (1995)"


def test_real_open_bandit_logs_its_propensities():
    frame = datasets.open_bandit(folder("open-bandit"), "men", "random")
    assert len(frame) == 10_000
    assert np.mean(1 / frame["propensity_score"].to_numpy()) / 34 == pytest.approx(1, abs=0.07)
