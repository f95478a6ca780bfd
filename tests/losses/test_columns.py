"""Columns and totals carry the right slopes, rows stand for their cells, functions of numbers are their formulas."""

import numpy as np
import pytest

from unskew.data.feed import Block
from unskew.losses.batch import Parts, Rows
from unskew.losses.columns import ERRORS, Column, Total, clip, exp, log, logit, root, sigmoid, square, where
from unskew.testing.worlds import Listed, listed_view

X, Y = np.array([0.3, 1.2, 2.5, 0.9]), np.array([1.4, 0.2, 0.7, 2.2])
K = np.array([0.5, 2.0, 1.5, 3.0])
FUNCTIONS = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "x * x": lambda x, y: x * x,
    "k + x": lambda x, y: K + x,
    "k - x": lambda x, y: K - x,
    "k * x": lambda x, y: K * x,
    "k / x": lambda x, y: K / x,
    "x / k": lambda x, y: x / K,
    "-x": lambda x, y: -x,
    "2 - x": lambda x, y: 2.0 - x,
    "log": lambda x, y: log(x) * y,
    "exp": lambda x, y: exp(x - y),
    "square": lambda x, y: square(x - 2 * y),
    "where": lambda x, y: where(K > 1.7, x * y, x),
    "where of a constant": lambda x, y: where(K > 1.7, x * y, 3.0 * y),
    "clip": lambda x, y: clip(x * y, 0.4, 1.5),
    "clip from below": lambda x, y: clip(x, 1.0),
    "all": lambda x, y: log(1 + exp(x * y)) / (1 + square(x)) - where(K > 1, clip(y, 0.3), x / y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_column_has_the_slopes_of_differences(name):
    f, h = FUNCTIONS[name], 1e-5
    found = f(Column(X, {"x": np.ones(4)}), Column(Y, {"y": np.ones(4)}))
    np.testing.assert_allclose(found.value, f(X, Y), rtol=1e-15)
    by_hand = {"x": (f(X + h, Y) - f(X - h, Y)) / (2 * h), "y": (f(X, Y + h) - f(X, Y - h)) / (2 * h)}
    for key, slope in by_hand.items():
        np.testing.assert_allclose(found.slopes.get(key, 0.0) * np.ones(4), slope, atol=1e-8)


def test_a_column_with_a_total_is_refused():
    column, total = Column(X, {"x": np.ones(4)}), Total(1.0, {("x", 0): np.ones(4)})
    for mix in (lambda: column * total, lambda: total + column, lambda: column / total, lambda: total - column):
        with pytest.raises(TypeError, match="total the column first"):
            mix()


def test_float32_columns_stay_float32():
    x, y = (Column(values.astype(np.float32), {0: np.ones(4, np.float32)}) for values in (X, Y))
    for name in ("x * y", "x / y", "where", "clip", "square", "log", "exp"):
        assert FUNCTIONS[name](x, y).value.dtype == np.float32


def test_rows_stand_for_their_cells():
    parts = Parts({"prediction": Listed([0.0, 1.0, -1.0])})
    codes = np.arange(3, dtype=np.int32)
    cells = np.array([1.0, 2.0, 4.0])
    rows = Rows(parts, Block(codes, codes), slice(0, 3), cells)
    assert rows.total() == 7
    assert rows.total(cells) == 21
    assert rows.mean(cells) == 3
    assert Rows(parts, Block(codes, codes, cells=cells), slice(1, 3), 0.5).cells.tolist() == [1, 2]  # times its own
    parts.learning = ("prediction",)
    p = 1 / (1 + np.exp([0.0, -1.0, 1.0]))
    total = rows.total(rows.probability())
    assert total.value == pytest.approx(cells @ p)
    np.testing.assert_allclose(total.slopes["prediction", rows], cells * p * (1 - p))


def test_pairs_that_were_drawn_have_no_ratings():
    view = listed_view(np.array([True, False]), [1.0, 0.0], {"prediction": [0.5, 0.5]})
    with pytest.raises(LookupError, match="no ratings"):
        view.sampled.error()


def test_what_nothing_moves_is_asked_once_for_a_block():
    asked = []

    class Counting(Listed):
        def logits(self, users, items):
            asked.append(len(users))
            return super().logits(users, items)

    parts = Parts({"propensity": Counting(np.linspace(-2, 1, 6))}, clips={"propensity": 0.2})
    codes = np.arange(6, dtype=np.int32)
    block, order = Block(codes, codes), codes[::-1]
    parts.still = {"propensity"}
    found = [Rows(parts, block, order[n : n + 2], 1.0).inverse_propensity() for n in (0, 2, 4)]
    assert asked == [6]
    p = 1 / (1 + np.exp(-np.linspace(-2, 1, 6)[::-1]))
    np.testing.assert_allclose(np.concatenate(found), 1 / np.maximum(p, 0.2))
    parts.still = ()
    Rows(parts, block, slice(0, 2), 1.0).inverse_propensity()
    assert asked == [6, 2]


def test_the_clip_comes_before_the_rating_counts():
    """1 / min(1, max(p, clip) ratio): the clip bounds what the place of a rating is worth, not the rating."""

    class Rated(Listed):
        knows_ratings = True

        def rating_ratio(self, users, items, ratings):
            return np.where(ratings == 1, 4.0, 0.5)

    p = np.array([0.05, 0.05, 0.4])
    view = listed_view(
        np.ones(3, bool), [1.0, 0.0, 1.0], {"propensity": Rated(np.log(p / (1 - p)))}, clips={"propensity": 0.1}
    )
    np.testing.assert_allclose(view.observed.inverse_propensity(), [1 / 0.4, 1 / 0.05, 1.0])
    np.testing.assert_allclose(view.sampled.inverse_propensity(), [10, 10, 2.5])


# Functions of single numbers

TYPES = [(np.float32, 4e-7), (np.float64, 1e-15)]


def error_of(name, s, y):
    """The error and its slope from the terms."""
    zero, effect, r, scale = ERRORS[name](s)
    return zero + y * effect, scale * (r - y)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_the_sigmoid_is_exact_at_both_ends(dtype, tolerance):
    x = np.linspace(-80, 80, 20_001).astype(dtype)
    found = sigmoid(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.exp(-np.logaddexp(0, -x.astype(np.float64))), rtol=8 * tolerance, atol=1e-37)
    np.testing.assert_allclose(logit([0.0, 1e-30, 0.3, 1.0]), [-87, np.log(1e-30), np.log(3 / 7), 87], rtol=1e-12)
    np.testing.assert_allclose(logit([0.0, 0.3, 1.0], 0.01), np.log([1 / 99, 3 / 7, 99]), rtol=1e-12)


def test_a_root_is_found_or_the_end_nearest_to_it():
    cubic = lambda x: (x**3 - 2, 3 * x * x)  # noqa: E731
    assert root(cubic, -5, 5) == pytest.approx(2 ** (1 / 3), abs=1e-12)
    assert root(cubic, 2, 5) == pytest.approx(2, abs=1e-12)
    assert root(cubic, -5, 1) == pytest.approx(1, abs=1e-12)
    assert root(lambda x: (float(x > 0.3) - 0.5, 0.0), -1, 1) == pytest.approx(0.3, abs=1e-12)  # no slope at all
    for flat, first in ((min, 0), (max, -4)):  # of many roots the lowest
        assert root(lambda x, flat=flat: (flat(x, 0.0), float(flat(x, 0) != 0)), -4, 6) == pytest.approx(
            first, abs=1e-9
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_logits_are_held_and_no_number_stays_none(dtype):
    """Beyond 13.8 nothing drives a logit further; a NaN reaches the loss, where the loop notices it."""
    s = np.array([-1e4, -300, 300, 1e4, np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_allclose(sigmoid(s), [0, 0, 1, 1, 1, 0, np.nan], atol=1e-34)
    for name in ERRORS:
        for y in (0.0, 0.5, 1.0):
            value, slope = error_of(name, s, y)
            assert np.isfinite(value).tolist() == [True] * 6 + [False]
            assert not slope[:6].any()
        near = error_of(name, np.array([-13.81, -13.79, 13.79, 13.81], dtype), 0.5)[1]
        assert (near != 0).tolist() == [False, True, True, False]


def exact_error(name, s, y):
    r = 1 / (1 + np.exp(-s))
    return np.logaddexp(0, s) - y * s if name == "log" else y * (1 - r) ** 2 + (1 - y) * r**2


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_and_slopes_are_those_of_their_formulas(name, dtype, tolerance):
    s = np.linspace(-13, 13, 2001)
    for y in (0.0, 0.3, 1.0):
        value, slope = error_of(name, s.astype(dtype), y)
        s32 = s.astype(dtype).astype(np.float64)
        np.testing.assert_allclose(value, exact_error(name, s32, y), rtol=tolerance, atol=tolerance)
        r = 1 / (1 + np.exp(-s32))
        by_hand = r - y if name == "log" else 2 * r * (1 - r) * (r - y)
        np.testing.assert_allclose(slope, by_hand, rtol=tolerance, atol=tolerance)
