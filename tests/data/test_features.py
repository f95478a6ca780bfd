"""Features become numbers in one declared way, the same for whoever comes later."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unskew.data.features import FARTHEST, Column, Encoding, FeatureFrame, Features
from unskew.data.ids import Vocabulary
from unskew.errors import DataError

NAN = math.nan
IDS = Vocabulary(np.arange(40))


def aligned(**columns):
    """Features of the ids 0, 1, ... as far as the columns go."""
    frame = pa.table({"id": np.arange(len(next(iter(columns.values())))), **columns})
    return FeatureFrame.of(frame, "item", "id").aligned(IDS)


def test_numbers_are_standardised_and_those_that_are_only_0_or_1_stay_as_they_are():
    features = aligned(age=[20.0, 40.0] * 20, paid=[True, False, False, None] * 10)
    age, paid = features.encoding.columns
    assert (age.center, age.scale, age.counts) == (30, 10, ())
    assert (paid.center, paid.scale, paid.counts) == (0, 1, (10,))
    matrix = features.encoded.toarray() * features.encoding.length
    np.testing.assert_allclose(matrix[:4, 0], [-1, 1, -1, 1], rtol=1e-6)
    np.testing.assert_allclose(matrix[:4, 1], [math.sqrt(10 / 20), 0, 0, 0], rtol=1e-6)


def test_rows_have_a_length_of_one_on_average_over_those_that_are_described():
    features = aligned(age=np.arange(30.0), kind=list("abc") * 10)  # of ten ids nothing is known
    lengths = np.square(features.encoded.toarray()).sum(1)
    assert lengths[:30].mean() == pytest.approx(1, rel=1e-6)
    assert not lengths[30:].any()
    assert features.notes == ("10 of 40 items have no features",)


def test_what_is_missing_contributes_nothing():
    features = aligned(age=[1.0, NAN, 3.0], kind=["a", None, "b"])
    assert features.encoded[[1]].nnz == 0


def test_what_few_have_in_common_weighs_less():
    features = aligned(kind=["a"] * 30 + ["b"])
    weights = features.encoded.toarray().max(0) * features.encoding.length
    np.testing.assert_allclose(weights, [math.sqrt(30 / 40), math.sqrt(1 / 11)], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "values", "what"),
    [
        (
            "title",
            [f"The film number {number}" for number in range(3)],
            "3 different texts in 3 rows",
        ),
        (
            "code",
            [f"c{n // 2}" for n in range(60)] + [f"d{n}" for n in range(60)],
            "90 different texts in 120",
        ),
        ("word", [f"w{number % 1001}" for number in range(3000)], "1,001 different texts in 3,000 rows"),
        ("imdbId", list(range(100, 160)), "60 different numbers, as an identifier does"),
        ("page", ["https://example.org/a", "https://example.org/b", None], "URLs"),
    ],
)
def test_what_only_tells_rows_apart_is_left_out_and_reported(name, values, what):
    frame = pa.table({"id": np.arange(len(values)), name: values, "price": np.arange(float(len(values)))})
    found = FeatureFrame.of(frame, "item", "id")
    assert list(found.columns) == ["price"]
    (note,) = found.notes
    assert note.startswith(f"the frame of item features: {name!r} is left out, as it holds {what}")
    with pytest.raises(DataError, match="has no column that describes anything besides 'id'"):
        FeatureFrame.of(frame.drop_columns("price"), "item", "id")


def test_lists_become_a_column_for_each_entry():
    features = aligned(genres=["Action|Comedy", "Comedy", None, "Drama"])
    assert features.names == ("genres=Action", "genres=Comedy", "genres=Drama")
    np.testing.assert_array_equal(features.values[:4], [[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]])


def test_the_column_of_ids_is_found_by_its_name():
    frame = pa.table({"movieId": [1, 2], "year": [1990, 2000]})
    assert list(FeatureFrame.of(frame, "item", "item_id").columns) == ["year"]


def test_numbers_too_far_from_their_mean_are_believed_up_to_a_point():
    features = aligned(price=[0.0, 1.0] * 19 + [0.5, 1e6])
    matrix = features.encoded.toarray()[:, 0] * features.encoding.length
    assert matrix.max() == pytest.approx(FARTHEST, rel=1e-6)


def test_an_encoding_of_other_columns_is_refused():
    with pytest.raises(DataError, match="do not fit an encoding of other columns"):
        Features(("a",), [[0]], encoding=Encoding((Column("b"),)))


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, (7, 3), elements=st.floats(width=32, allow_infinity=False)))
def test_any_numbers_become_finite_ones(values):
    features = Features(("a", "b", "c"), values)
    assert np.isfinite(features.encoded.data).all()
    assert np.isfinite(features.encoding.length)
