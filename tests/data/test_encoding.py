"""Features become numbers in one declared way, the same for whoever comes later."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unskew.data.encoding import FARTHEST, MOST_CATEGORIES, Column, Encoding
from unskew.data.features import Features
from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError

NAN = math.nan
IDS = Vocabulary(np.arange(40))


def aligned(encoding=None, **columns):
    """Features of the ids 0, 1, ... as far as the columns go."""
    frame = pa.table({"id": np.arange(len(next(iter(columns.values())))), **columns})
    return Features.aligned(frame, IDS, "id", encoding)


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
    assert features.n_missing == 10


def test_what_is_missing_contributes_nothing():
    features = aligned(age=[1.0, NAN, 3.0], kind=["a", None, "b"])
    assert features.encoded[[1]].nnz == 0


def test_what_few_have_in_common_weighs_less():
    features = aligned(kind=["a"] * 30 + ["b"])
    weights = features.encoded.toarray().max(0) * features.encoding.length
    np.testing.assert_allclose(weights, [math.sqrt(30 / 40), math.sqrt(1 / 11)], rtol=1e-6)


def test_too_many_texts_are_refused():
    texts = [f"name {number}" for number in range(MOST_CATEGORIES + 1)]
    frame = pa.table({"id": np.arange(len(texts)), "name": texts})
    with pytest.raises(DataError, match=r"feature 'name' has 1,001 distinct texts, .* leave the column out"):
        Features.aligned(frame, Vocabulary(np.arange(len(texts))), "id")


def test_numbers_too_far_from_their_mean_are_believed_up_to_a_point():
    features = aligned(price=[0.0, 1.0] * 19 + [0.5, 1e6])
    matrix = features.encoded.toarray()[:, 0] * features.encoding.length
    assert matrix.max() == pytest.approx(FARTHEST, rel=1e-6)


def test_whoever_comes_later_is_encoded_as_those_before_and_unknown_texts_are_missing_and_counted():
    before = aligned(age=[20.0, 40.0], kind=["a", "b"])
    later = aligned(before.encoding, kind=["b", "c", None], age=[60.0, 20.0, 20.0])
    assert later.encoding == before.encoding
    assert later.names == before.names
    np.testing.assert_array_equal(later.values[:3], [[60, 1], [20, NAN], [20, NAN]])
    assert later.n_unknown == 1
    assert later.encoded[0, 0] * before.encoding.length == pytest.approx(3)


def test_features_can_be_put_into_another_encoding():
    one, other = aligned(kind=["b", "c", "b"]), aligned(kind=["a", "b"])
    under = one.under(other.encoding)
    np.testing.assert_array_equal(under.values[:4, 0], [1, NAN, 1, NAN])
    assert under.n_unknown == 1
    with pytest.raises(DataError, match="feature 'kind' is a number in one log and text in the other"):
        aligned(kind=[1.0, 2.0]).under(other.encoding)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"age": [1.0]}, "the feature frame has no column 'kind', only 'age'"),
        ({"age": ["old"], "kind": ["a"]}, "feature 'age' holds texts, but the model knows it as a number"),
    ],
)
def test_a_frame_that_does_not_fit_a_known_encoding_is_refused_in_one_sentence(columns, sentence):
    with pytest.raises(DataError, match=sentence):
        aligned(aligned(age=[20.0, 40.0], kind=["a", "b"]).encoding, **columns)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Column("a", scale=0.0), "feature 'a' cannot have the center 0.0 and the scale 0.0"),
        (lambda: Column("a", categories=("x", "y"), counts=(1,)), "feature 'a' has 2 numbers and cannot have"),
        (lambda: Encoding((), length=NAN), "the length of encoded features must be a finite number above 0"),
        (lambda: Features(("a",), [[2]], encoding=Encoding((Column("a", categories=("x", "y")),))), "outside its 2"),
        (lambda: Features(("a",), [[0]], encoding=Encoding((Column("b"),))), r"do not fit an encoding of \['b'\]"),
    ],
)
def test_an_encoding_that_cannot_be_is_refused(make, sentence):
    with pytest.raises(DataError, match=sentence):
        make()


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, (7, 3), elements=st.floats(width=32, allow_infinity=False)))
def test_any_numbers_become_finite_ones(values):
    features = Features(("a", "b", "c"), values)
    assert np.isfinite(features.encoded.data).all()
    assert np.isfinite(features.encoding.length)
