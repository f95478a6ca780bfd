"""Claims about external ids and their codes."""

import uuid
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from unskew.data import ids as rooms
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
