"""Claims about external ids and their codes, and about features that become numbers in one declared way."""

import math
import uuid
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import unskew
from unskew.data import ids as rooms
from unskew.data.features import FARTHEST, FeatureFrame, Features
from unskew.data.ids import Vocabulary, encoded
from unskew.errors import DataError

integers = st.integers(-(2**63), 2**63 - 1)


def test_integers_and_their_usual_spelling_are_the_same_id():
    numbers, spelled = Vocabulary(range(20)), Vocabulary([str(number) for number in range(20)])
    asked, found = ["12", "012", "+12", " 12", "12.0", "twelve", "٣"], [12, -1, -1, -1, -1, -1, -1]
    assert numbers.codes(asked).tolist() == spelled.codes(asked).tolist() == found
    assert spelled.codes([12, 99]).tolist() == [12, -1]


def test_ids_may_come_in_any_kind_of_array():
    kinds = [list, np.array, partial(np.array, dtype=object), partial(np.array, dtype="S"), pa.array, Vocabulary]
    kinds += [pd.Series, partial(pd.Series, dtype="category"), pl.Series, partial(pl.Series, dtype=pl.Categorical)]
    for kind in (*kinds, lambda ids: pa.array(ids).dictionary_encode()):
        assert list(Vocabulary(kind(["b", "a"]))) == ["b", "a"]
        assert Vocabulary(["a", "b"]).codes(kind(["b", "a"])).tolist() == [1, 0]
    for ids in (np.array([3, 1], np.uint64), np.array([3.0, 1.0]), range(3, 0, -2), pd.Series([3, 1], dtype="Int64")):
        assert Vocabulary(ids).arrow.equals(pa.array([3, 1]))


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([1, None], r"row 2 of ids has no id"),
        (pd.Series([1, None]), r"row 2 of ids has no id"),
        ([1.0, 2.5], r"row 2 of ids holds the float 2\.5"),
        ([1.0, 2.0**60], r"row 2 of ids holds the float"),
        ([True, False], r"ids of type bool"),
        (["a", 1], r"values of one kind: it holds 'a' \(str\) and 1 \(int\)"),
        (pd.Series(["a", 1], index=[7, 8]), r"values of one kind: it holds 'a'"),
        ([2**70, 5], r"integers beyond 64 bits: give them as strings"),
        (np.array([2**64 - 1], dtype=np.uint64), r"integers beyond 64 bits"),
        (["a\0b"], r"row 1 of ids holds a NUL"),
        ([b"a", b"\xff"], r"row 2 of ids holds b'\\xff', which is not UTF-8"),
        (np.zeros((2, 2)), r"one-dimensional"),
        ("abc", r"wrap it in a list"),
        (pa.array([0, 1], pa.timestamp("s")), r"ids of type timestamp"),
        ([{"a": 1}], r"ids of type struct"),
        ([uuid.UUID(int=1)], r"ids of type .*uuid|values of one kind: .* UUID"),
        (pl.Series([1, "a"], dtype=pl.Object), r"ids of type fixed_size_binary"),
        ([7, 8, 7], r"holds the id 7 more than once"),
    ],
)
def test_what_is_no_id_is_refused_with_its_row(ids, sentence):
    with pytest.raises(DataError, match=sentence):
        Vocabulary(ids)


def test_codes_are_in_the_order_of_first_appearance():
    plain, chunks = ["b", "a", "b", "c"], pa.chunked_array([["b", "a"], ["b", "c"]]).dictionary_encode()
    categories = pd.Categorical(plain, categories=["unused", "a", "b", "c"])
    for column in (plain, chunks, pd.Series(categories), pl.Series(plain, dtype=pl.Categorical)):
        codes, known = encoded(column, "users")
        assert codes.tolist() == [0, 1, 0, 2]
        assert list(known) == ["b", "a", "c"]
        assert codes.dtype == np.int32


def test_a_vocabulary_takes_on_what_it_does_not_hold_yet():
    assert list(Vocabulary([1, 2]).extended(["2", "3"])) == [1, 2, 3]
    assert list(Vocabulary([1, 2]).extended(["2", "x"])) == ["1", "2", "x"]


def test_long_columns_of_integers_get_the_codes_that_short_ones_get(monkeypatch):
    """They are counted instead of hashed: the same codes, in the order of first appearance."""
    values = pa.array(np.random.default_rng(0).integers(-40, 60, 500))
    expected = encoded(values, "users")
    monkeypatch.setattr(rooms, "FEWEST_COUNTED", 1)
    assert rooms._numbered(values) is not None
    found = encoded(pa.chunked_array([values[:200], values[200:]]), "users")
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].arrow.equals(expected[1].arrow)
    assert rooms._numbered(pa.array([1, 2**62])) is None
    assert rooms._numbered(pa.array([1, None])) is None


NAN = math.nan
IDS = Vocabulary(np.arange(40))


def aligned(**columns):
    """Features of the ids 0, 1, ... as far as the columns go."""
    frame = pa.table({"id": np.arange(len(next(iter(columns.values())))), **columns})
    return FeatureFrame.of(frame, "item", "id").aligned(IDS)


def test_encoding_is_its_formula():
    features = aligned(age=[20.0, 40.0] * 15, paid=[True, False, False] * 10, kind=["a"] * 29 + [None])
    assert features.names == ("age", "paid", "kind=a")
    age, few = np.where(np.arange(30) % 2, 1.0, -1.0), lambda n: math.sqrt(n / (n + 10))
    expected = np.stack([age, few(10) * (np.arange(30) % 3 == 0), few(29) * (np.arange(30) < 29)], axis=1)
    expected = np.pad(expected, ((0, 10), (0, 0)))  # of ten ids nothing is known
    expected /= np.sqrt(np.square(expected).sum() / 30)  # rows that are described have length 1 on average
    np.testing.assert_allclose(features.encoded, expected, rtol=1e-6)
    lack = "1 of 40 items lack some features: what is missing tells nothing"
    assert features.notes == ("10 of 40 items have no features", lack)


def test_missing_values_contribute_nothing_and_far_ones_no_more():
    assert not aligned(age=[1.0, NAN, 3.0], kind=["a", None, "b"]).encoded[1].any()
    one, other = (aligned(price=[0.0, 1.0] * 19 + [0.5, far]).encoded[:, 0] for far in (1e6, 1e9))
    assert one[-1] == pytest.approx(other[-1], rel=1e-3)
    assert -one[-1] / one[0] == pytest.approx(FARTHEST * math.sqrt(39), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "values", "what"),
    [
        ("title", [f"The film number {number}" for number in range(3)], "3 different texts in 3 rows"),
        ("code", [f"c{n // 2}" for n in range(60)] + [f"d{n}" for n in range(60)], "90 different texts in 120"),
        ("word", [f"w{number % 1001}" for number in range(3000)], "1,001 different texts in 3,000 rows"),
        ("imdbId", list(range(100, 160)), "60 different numbers, as an identifier does"),
        ("page", ["https://example.org/a", "https://example.org/b", None], "URLs"),
    ],
)
def test_what_only_tells_rows_apart_is_left_out(name, values, what):
    frame = pa.table({"id": np.arange(len(values)), name: values, "price": np.arange(float(len(values)))})
    found = FeatureFrame.of(frame, "item", "id")
    assert list(found.columns) == ["price"]
    (note,) = found.notes
    assert note.startswith(f"the frame of item features: {name!r} is left out, as it holds {what}")


def test_lists_become_a_column_for_each_entry():
    texts = ["Action|Comedy", "Comedy", None, "Drama|"]
    features = aligned(genres=texts)
    assert features.names == ("genres=Action", "genres=Comedy", "genres=Drama")
    np.testing.assert_array_equal(features.values[:4], [[1, 1, 0], [0, 1, 0], [NAN] * 3, [0, 0, 1]])
    frame = pl.DataFrame({"item_id": range(4), "genres": texts}).with_columns(pl.col("genres").str.split("|"))
    lists = FeatureFrame.of(frame, "item", "item_id").aligned(IDS)
    np.testing.assert_array_equal(lists.values, features.values)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, (7, 3), elements=st.floats(width=32, allow_infinity=False)))
def test_any_numbers_become_finite_ones(values):
    assert np.isfinite(Features(("a", "b", "c"), values).encoded).all()


def test_a_method_that_reads_no_features_says_so():
    rows = {"user_id": [0, 0, 1, 1, 2], "item_id": [0, 1, 0, 2, 1], "rating": [1, 0, 0, 1, 1]}
    age = pa.table({"user_id": [0, 1, 2], "age": [1, 5, 9]})
    model = unskew.fit(pa.table(rows), "naive", user_features=age, training=unskew.Training(max_epochs=1, holdout=0.3))
    assert model.history.notes[-1] == "The log has features, and no part of this method reads them."
