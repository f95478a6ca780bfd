"""Features become numbers in one declared way."""

import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unskew.data.features import FARTHEST, FeatureFrame, Features
from unskew.data.ids import Vocabulary

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
