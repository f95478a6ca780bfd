"""Claims about published datasets: their formats, what is refused and in which words, and the real Coat."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew import datasets
from unskew.errors import DataError, ParameterError

YAHOO_TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
YAHOO_TEST = "ydata-ymusic-rating-study-v1_0-test.txt"


def write(folder: Path, **texts: str) -> Path:
    """Files by name, where "__" stands for the dot."""
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_bytes(text.encode())
    return folder


@pytest.fixture
def small_coat(tmp_path: Path) -> Path:
    """3 users x 4 items in Coat's formats; (1, 2) is rated in train and test."""
    write(
        tmp_path,
        train__ascii="5 0 0 1\n0 0 3 0\n2 4 0 0\n",
        test__ascii="0 2 0 0\n0 0 4 1\n0 0 0 3\n",
        propensities__ascii="1e-1 0.2 0.3 0.4\n0.5 0.6 0.7 0.8\n0.9 1.0 0.11 0.12\n",
    )
    features = tmp_path / "user_item_features"
    features.mkdir()
    write(
        features,
        user_features__ascii="0 1\n1 0\n1 1\n",
        user_features_map__txt="gender:men\nage:over 60",
        item_features__ascii="0 0 1\n1 0 0\n0 1 0\n1 1 1\n",
        item_features_map__txt="color:red\ncolor:blue\nonfrontpage:no",
    )
    return tmp_path


@pytest.fixture
def small_yahoo_r3(tmp_path: Path) -> Path:
    (tmp_path / YAHOO_TRAIN).write_text("1\t3\t5\n1\t5\t1\n3\t1\t3\n")
    (tmp_path / YAHOO_TEST).write_text("2\t1\t4\n2\t6\t2\n")
    return tmp_path


@pytest.fixture
def small_kuairec(tmp_path: Path) -> Path:
    return write(tmp_path, user__txt="0,3,0.99\n2,1,1.0\n4,0,12.5\n", random__txt="0,2,0.0\n1,5,1.5\n")


def triples(log) -> set[tuple[int, int, float]]:
    columns = log.to_arrow().to_pydict()
    return set(zip(columns["user_id"], columns["item_id"], columns["rating"], strict=True))


# Formats


def test_coat_rows_are_users_columns_are_items_and_zeros_are_missing(small_coat):
    data = datasets.coat(small_coat, expect_original=False)
    assert triples(data.train) == {(0, 0, 1), (0, 3, 0), (1, 2, 1), (2, 0, 0), (2, 1, 1)}
    assert triples(data.test) == {(0, 1, 0), (1, 2, 1), (1, 3, 0), (2, 3, 1)}
    assert (data.train.n_users, data.train.n_items) == (3, 4)
    assert "1 pairs occur in both train and test; kept" in data.notes


def test_coat_propensities_are_looked_up_by_user_and_item_codes(small_coat):
    data = datasets.coat(small_coat, expect_original=False)
    found = data.propensities(np.array([0, 2, 1]), np.array([0, 3, 2]))
    assert found.tolist() == [0.1, 0.12, 0.7]


def test_coat_features_carry_their_names_into_both_logs(small_coat):
    data = datasets.coat(small_coat, expect_original=False)
    for log in (data.train, data.test):
        assert log.user_features.names == ("gender:men", "age:over 60")
        assert log.user_features.values.tolist() == [[0, 1], [1, 0], [1, 1]]
        assert log.item_features.names == ("color:red", "color:blue", "onfrontpage:no")
        assert log.item_features.values[3].tolist() == [1, 1, 1]


def test_yahoo_keeps_the_published_ids_and_a_catalogue_without_gaps(small_yahoo_r3):
    data = datasets.yahoo_r3(small_yahoo_r3, expect_original=False)
    assert triples(data.train) == {(1, 3, 1), (1, 5, 0), (3, 1, 1)}
    assert triples(data.test) == {(2, 1, 1), (2, 6, 0)}
    assert list(data.train.user_ids) == [1, 2, 3]
    assert list(data.train.item_ids) == [1, 2, 3, 4, 5, 6]
    assert data.propensities is None


def test_yahoo_csv_variant_gives_the_same_logs_and_says_that_ids_were_moved(small_yahoo_r3, tmp_path):
    published = datasets.yahoo_r3(small_yahoo_r3, expect_original=False)
    for name in (YAHOO_TRAIN, YAHOO_TEST):
        (tmp_path / name).unlink()
    write(tmp_path, user__txt="0,2,5\n0,4,1\n2,0,3\n", random__txt="1,0,4\n1,5,2\n")
    variant = datasets.yahoo_r3(tmp_path, expect_original=False)
    assert triples(variant.train) == triples(published.train)
    assert triples(variant.test) == triples(published.test)
    assert list(variant.train.user_ids) == list(published.train.user_ids)
    assert any("1 was added to every id" in note for note in variant.notes)


def test_kuairec_ratios_of_at_least_1_are_liked_and_have_no_upper_bound(small_kuairec):
    data = datasets.kuairec(small_kuairec, expect_original=False)
    assert triples(data.train) == {(0, 3, 0), (2, 1, 1), (4, 0, 1)}
    assert triples(data.test) == {(0, 2, 0), (1, 5, 1)}
    assert (data.train.n_users, data.train.n_items) == (5, 6)
    stricter = datasets.kuairec(small_kuairec, positive=1.2, expect_original=False)
    assert triples(stricter.train) == {(0, 3, 0), (2, 1, 0), (4, 0, 1)}


@pytest.mark.parametrize("name", ["coat", "yahoo_r3", "kuairec"])
def test_train_and_test_share_their_vocabularies(name, request):
    folder = request.getfixturevalue(f"small_{name}")
    data = datasets.load(name, folder, expect_original=False)
    assert data.train.user_ids is data.test.user_ids
    assert data.train.item_ids is data.test.item_ids
    assert data.name == name
    for note in data.notes:
        assert note in str(data)


def test_windows_line_ends_byte_order_mark_and_blank_lines_change_nothing(small_yahoo_r3):
    plain = triples(datasets.yahoo_r3(small_yahoo_r3, expect_original=False).train)
    (small_yahoo_r3 / YAHOO_TRAIN).write_bytes(b"\xef\xbb\xbf1\t3\t5\r\n1\t5\t1\r\n\r\n3\t1\t3\r\n\r\n")
    assert triples(datasets.yahoo_r3(small_yahoo_r3, expect_original=False).train) == plain


def test_graded_ratings_are_kept_when_positive_is_none(small_coat):
    data = datasets.load("coat", small_coat, positive=None, expect_original=False)
    assert triples(data.train) == {(0, 0, 5), (0, 3, 1), (1, 2, 3), (2, 0, 2), (2, 1, 4)}


def test_load_uses_the_usual_threshold_of_each_dataset_unless_told(small_kuairec):
    assert datasets.load("kuairec", small_kuairec, expect_original=False).train.scale.positive == 1
    told = datasets.load("kuairec", small_kuairec, positive=1.5, expect_original=False)
    assert told.train.scale.positive == 1.5


# The catalogue of datasets


def test_every_source_says_where_it_comes_from_and_can_be_loaded_by_name():
    sources = datasets.available()
    assert [source.name for source in sources] == ["coat", "yahoo_r3", "kuairec"]
    for source in sources:
        assert all(getattr(source, field.name) for field in dataclasses.fields(source))
        with pytest.raises(DataError, match=r"does not exist: get .* name the folder"):
            datasets.load(source.name, "no such folder")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Coat", "did you mean 'coat'"),
        ("yahoo", "did you mean 'yahoo_r3'"),
        ("KuaiRand", "did you mean 'kuairec'"),
        ("movielens", "choose from 'coat', 'yahoo_r3', 'kuairec'"),
    ],
)
def test_unknown_dataset_is_refused_with_the_nearest_name(name, hint, tmp_path):
    with pytest.raises(ParameterError, match=f"no dataset called '{name}': {hint}"):
        datasets.load(name, tmp_path)


# Comparison with the original


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("coat", "train ratings: 5, in the original 6,960"),
        ("yahoo_r3", "share of test ratings at least 3: 0.500, in the original 0.232"),
        ("kuairec", "share of test ratios of at least 2: 0.0000, in the original 0.0495"),
    ],
)
def test_other_figures_than_the_originals_are_refused_or_noted(name, expected, request):
    folder = request.getfixturevalue(f"small_{name}")
    with pytest.raises(DataError) as refusal:
        datasets.load(name, folder)
    assert expected in str(refusal.value)
    assert "pass expect_original=False" in str(refusal.value)
    assert expected in datasets.load(name, folder, expect_original=False).notes


def shares(size: int, *parts: tuple[float, float], lowest: float = 1) -> np.ndarray:
    """Ratings of which given shares reach given values: (share, value) from the highest value down."""
    ratings = np.full(size, lowest, dtype=float)
    for share, value in reversed(parts):
        ratings[: round(share * size)] = value
    return ratings


def rows_of(users: np.ndarray, items: np.ndarray, ratings: np.ndarray, delimiter: str) -> str:
    table = pa.table({"user": users, "item": items, "rating": ratings})
    pacsv.write_csv(table, text := io.BytesIO(), pacsv.WriteOptions(include_header=False, delimiter=delimiter))
    return text.getvalue().decode()


def test_yahoo_files_with_the_figures_of_the_original_load_without_a_difference(tmp_path):
    counts = np.full(15_400, 20)
    counts[:2] = 10, 648
    counts[2 : 2 + 311_704 - counts.sum()] += 1
    users = np.repeat(np.arange(1, 15_401), counts)
    items = np.concatenate([np.arange(1, count + 1) for count in counts])
    train = rows_of(users, items, shares(311_704, (0.401, 5), (0.559, 3)), "\t")
    (tmp_path / YAHOO_TRAIN).write_text(train)
    users, items = np.repeat(np.arange(1, 5_401), 10), np.tile(np.arange(991, 1_001), 5_400)
    (tmp_path / YAHOO_TEST).write_text(rows_of(users, items, shares(54_000, (0.088, 4), (0.232, 3)), "\t"))
    data = datasets.yahoo_r3(tmp_path)
    assert "all 18 figures checked are those of the original" in data.notes
    assert (len(data.train), len(data.test), data.train.n_pairs) == (311_704, 54_000, 15_400_000)
    assert data.train.positive_rate == pytest.approx(0.559, abs=5e-4)


def test_kuairec_files_with_the_figures_of_the_original_load_although_user_txt_is_unverified(tmp_path):
    users, items = np.repeat(np.arange(1_411), 83), np.arange(1_411 * 83) % 2_519
    users[users == 1_410], items[items == 2_518] = 7_162, 10_552
    random = rows_of(users, items, shares(117_113, (0.0495, 2.5), (0.334, 1), lowest=0.3), ",")
    write(tmp_path, random__txt=random, user__txt="0,3,0.99\n2,1,1.0\n2,1,0.2\n4,10595,12.5\n")
    data = datasets.kuairec(tmp_path)
    assert "unverified figure, train ratings: 4, in the original 201,171" in data.notes
    assert any(note.startswith("unverified figure, train rows that repeat a pair") for note in data.notes)
    assert (len(data.train), data.train.n_users, data.train.n_items) == (3, 7_163, 10_596)


def test_changed_checksums_are_notes(small_coat):
    notes = datasets.coat(small_coat, expect_original=False).notes
    for file in ("train", "test", "propensities"):
        assert f"{file}.ascii: sha256 differs from the original" in notes


def test_unverified_figures_of_kuairec_are_notes_only(small_kuairec):
    notes = datasets.kuairec(small_kuairec, expect_original=False).notes
    assert "unverified figure, train ratings: 3, in the original 201,171" in notes
    with pytest.raises(DataError) as refusal:
        datasets.kuairec(small_kuairec)
    assert "201,171" not in str(refusal.value)


def test_coat_without_propensities_and_features_loads_only_when_asked_and_says_so(small_coat):
    (small_coat / "propensities.ascii").unlink()
    (small_coat / "user_item_features" / "item_features_map.txt").unlink()
    with pytest.raises(DataError, match=r"has no file propensities\.ascii.*expect_original=False"):
        datasets.coat(small_coat)
    data = datasets.coat(small_coat, expect_original=False)
    assert data.propensities is None
    assert data.train.item_features is None
    assert data.train.user_features is not None
    assert "propensities.ascii is missing; left out" in data.notes
    assert "user_item_features/item_features_map.txt is missing; left out" in data.notes


def test_pairs_listed_twice_are_counted_and_the_last_row_counts(small_yahoo_r3):
    with (small_yahoo_r3 / YAHOO_TRAIN).open("a") as file:
        file.write("1\t3\t2\n")
    data = datasets.yahoo_r3(small_yahoo_r3, expect_original=False)
    assert triples(data.train) == {(1, 3, 0), (1, 5, 0), (3, 1, 1)}
    assert "train rows that repeat a pair (the last counts): 1, in the original 0" in data.notes
    assert data.train.duplicates_merged == 1


# What is refused


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("train.ascii", "5 0 0 1\n0 0 7 0\n2 4 0 0\n", "train.ascii line 2 column 3 holds the rating '7'"),
        ("train.ascii", "5 0 0 1\n0 0 3 0\n2 4 -1 0\n", "line 3 column 3 holds the rating '-1'"),
        ("train.ascii", "5 0 0 1\n0 0 2.5 0\n2 4 0 0\n", "'2.5', which is not a whole number from 0 to 5"),
        ("train.ascii", "5 0 0 1\n0 0 nan 0\n2 4 0 0\n", "line 2 column 3 holds the rating 'nan'"),
        ("train.ascii", "5 0 0 1\n\n0 x 3 0\n2 4 0 0\n", "line 3 column 2 holds the rating 'x'"),
        ("train.ascii", "5 0 0 1\n0 0 3\n2 4 0 0\n", "line 2 has 3 columns separated by ' ' instead of 4"),
        ("train.ascii", "5 0  1\n0 0 3 0\n2 4 0 0\n", "line 1 column 3 holds the rating ''"),
        ("train.ascii", "5\t0\t0\t1\n", r"holds the rating '5\\t0\\t0\\t1'"),
        ("train.ascii", "0 0 0 0\n0 0 0 0\n0 0 0 0\n", "train.ascii holds no rating but only zeros"),
        ("train.ascii", "", "train.ascii is empty"),
        ("train.ascii", "\n\n", "train.ascii is empty"),
        (
            "train.ascii",
            "5 5 5 5\n4 0 0 0\n3 0 0 0\n",
            "train.ascii makes no rating log: every rating is positive",
        ),
        (
            "test.ascii",
            "0 2 0 0\n0 0 4 1\n",
            "test.ascii has 2 rows and 4 columns where train.ascii has 3 and 4",
        ),
        (
            "propensities.ascii",
            "0.1 0.2 0.3 0.4\n" * 2,
            "propensities.ascii has 2 rows and 4 columns where train",
        ),
        ("propensities.ascii", "0.1 0.2 0.3 0\n" * 3, "line 1 column 4 holds the propensity '0'"),
        ("propensities.ascii", "0.1 0.2 0.3 1.5\n" * 3, "line 1 column 4 holds the propensity '1.5'"),
        (
            "user_item_features/user_features.ascii",
            "0 1\n1 2\n1 1\n",
            "line 2 column 2 holds the feature '2'",
        ),
        (
            "user_item_features/user_features.ascii",
            "0 1\n1 0\n",
            "2 rows and 2 columns where .* ask for 3 and 2",
        ),
        (
            "user_item_features/user_features_map.txt",
            "gender:men",
            "3 rows and 2 columns where .* ask for 3 and 1",
        ),
        (
            "user_item_features/user_features_map.txt",
            "a\na",
            "user_features_map.txt gives two columns the name 'a'",
        ),
    ],
)
def test_a_damaged_coat_file_is_refused_with_file_row_column_and_value(small_coat, file, text, complaint):
    (small_coat / file).write_text(text)
    with pytest.raises(DataError, match=complaint) as refusal:
        datasets.coat(small_coat, expect_original=False)
    assert str(small_coat) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1\t3\t5\n1\t5\t6\n", "train.txt line 2 column 3 holds the rating '6', which is not .* from 1 to 5"),
        ("1\t3\t5\n1\t5\t0\n", "line 2 column 3 holds the rating '0'"),
        ("0\t3\t5\n1\t5\t1\n", "line 1 column 1 holds the user '0', which is not .* from 1 to 10,000,000"),
        ("1\t99999999999\t5\n1\t5\t1\n", "line 1 column 2 holds the item '99999999999'"),
        ("1\t1.5\t5\n1\t5\t1\n", "line 1 column 2 holds the item '1.5'"),
        ("user\titem\trating\n1\t5\t1\n", "line 1 column 1 holds the user 'user'"),
        ("1\t3\t5\n1\t5\n", r"line 2 has 2 columns separated by '\\t' instead of 3"),
        ("1,3,5\n1,5,1\n", r"line 1 has 1 columns separated by '\\t' instead of 3"),
        ("1\t3\t5\n1\t5\t\n", "line 2 column 3 holds the rating ''"),
        ("1\t3\t1_0\n", "line 1 column 3 holds the rating '1_0'"),
        ("1\t3\t\xff\n", "line 1 column 3 holds the rating"),
    ],
)
def test_a_damaged_yahoo_file_is_refused_with_file_row_column_and_value(small_yahoo_r3, text, complaint):
    (small_yahoo_r3 / YAHOO_TRAIN).write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=complaint):
        datasets.yahoo_r3(small_yahoo_r3, expect_original=False)


@given(st.text('0123456789\t\t\n\n\r .,-+eExX_"\0\u00e9', max_size=40) | st.binary(max_size=40))
@settings(deadline=None, max_examples=60)
def test_garbage_is_refused_as_data_error_or_read_and_nothing_else(tmp_path_factory, garbage):
    folder = tmp_path_factory.getbasetemp() / "garbage"
    folder.mkdir(exist_ok=True)
    content = garbage if isinstance(garbage, bytes) else garbage.encode()
    (folder / YAHOO_TRAIN).write_bytes(b"1\t3\t5\n2\t5\t1\n" + content)
    (folder / YAHOO_TEST).write_text("1\t3\t5\n2\t5\t1\n")
    try:
        data = datasets.yahoo_r3(folder, expect_original=False)
    except DataError as refusal:
        assert str(folder) in str(refusal)  # noqa: PT017 - either outcome is right
        assert "\n" not in str(refusal)  # noqa: PT017
    else:
        lines = [line for line in content.decode().splitlines() if line]
        assert len(data.train) + data.train.duplicates_merged == 2 + len(lines)


@pytest.mark.parametrize("ratio", ["-0.1", "inf", "nan", "long"])
def test_watch_ratio_that_is_negative_or_no_number_is_refused(small_kuairec, ratio):
    write(small_kuairec, user__txt=f"0,3,0.99\n2,1,{ratio}\n")
    with pytest.raises(DataError, match=rf"user\.txt line 2 column 3 holds the watch ratio '{ratio}'"):
        datasets.kuairec(small_kuairec, expect_original=False)


def test_watch_ratios_have_no_graded_form(small_kuairec):
    with pytest.raises(ParameterError, match="watch ratios have no upper bound"):
        datasets.load("kuairec", small_kuairec, positive=None)


@pytest.mark.parametrize(
    ("name", "file"),
    [("coat", "test.ascii"), ("yahoo_r3", YAHOO_TEST), ("yahoo_r3", YAHOO_TRAIN), ("kuairec", "random.txt")],
)
def test_a_missing_file_is_named(name, file, request):
    folder = request.getfixturevalue(f"small_{name}")
    (folder / file).unlink()
    with pytest.raises(DataError, match=f"has no file {file}"):
        datasets.load(name, folder, expect_original=False)


def test_a_file_in_place_of_the_folder_is_refused(small_coat):
    with pytest.raises(DataError, match="is not a folder"):
        datasets.coat(small_coat / "train.ascii")


# The real Coat


@pytest.fixture(scope="module")
def real_coat(coat_folder):
    return datasets.load("coat", coat_folder)


def test_real_coat_is_the_original(real_coat):
    assert "366 pairs occur in both train and test; kept" in real_coat.notes
    assert sum("sha256 matches" in note for note in real_coat.notes) == 3
    assert not any("differs" in note or "in the original" in note for note in real_coat.notes)


def test_real_coat_has_the_published_counts_and_rates(real_coat, coat_folder):
    above_3 = datasets.coat(coat_folder, positive=4)
    for log, stricter, size, per_user, rate, stricter_rate in (
        (real_coat.train, above_3.train, 6960, 24, 0.520, 0.274),
        (real_coat.test, above_3.test, 4640, 16, 0.401, 0.185),
    ):
        assert len(log) == size
        assert (np.bincount(log.users, minlength=290) == per_user).all()
        assert log.positive_rate == pytest.approx(rate, abs=5e-4)
        assert stricter.positive_rate == pytest.approx(stricter_rate, abs=5e-4)
    assert (real_coat.train.n_users, real_coat.train.n_items) == (290, 300)


def test_real_coat_propensities_and_features(real_coat):
    users, items = np.divmod(np.arange(290 * 300), 300)
    propensities = real_coat.propensities(users, items)
    assert propensities.mean() == pytest.approx(0.0800, abs=5e-5)
    assert propensities.sum() == pytest.approx(6961.6, abs=0.05)
    assert len(real_coat.train.user_features.names) == 14
    assert len(real_coat.train.item_features.names) == 33
    assert real_coat.train.item_features.names[-1] == "onfrontpage:no"
    assert np.isin(real_coat.test.user_features.values, (0, 1)).all()


def test_real_coat_with_one_rating_removed_is_refused_by_name_of_the_figure(coat_folder, tmp_path):
    for file in coat_folder.rglob("*.*"):
        copy = tmp_path / file.relative_to(coat_folder)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    text = (tmp_path / "train.ascii").read_text()
    (tmp_path / "train.ascii").write_text(text.replace("5", "0", 1))
    with pytest.raises(DataError) as refusal:
        datasets.coat(tmp_path)
    assert "train ratings: 6,959, in the original 6,960" in str(refusal.value)
    assert "fewest train ratings of a user: 23, in the original 24" in str(refusal.value)
