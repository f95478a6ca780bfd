"""Functions of single numbers against their formulas, in single and in double precision."""

import numpy as np
import pytest

from unskew.losses.elementwise import ERRORS, root, sigmoid

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


def test_a_root_is_found_or_the_end_nearest_to_it():
    cubic = lambda x: (x**3 - 2, 3 * x * x)  # noqa: E731
    assert root(cubic, -5, 5) == pytest.approx(2 ** (1 / 3), abs=1e-12)
    assert root(cubic, 2, 5) == pytest.approx(2, abs=1e-12)
    assert root(cubic, -5, 1) == pytest.approx(1, abs=1e-12)
    assert root(lambda x: (float(x > 0.3) - 0.5, 0.0), -1, 1) == pytest.approx(0.3, abs=1e-12)  # no slope at all


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_at_extreme_logits_all_stays_finite(dtype):
    s = np.array([-1e4, -300, 300, 1e4], dtype)
    assert np.isfinite(sigmoid(s)).all()
    for name in ERRORS:
        for y in (0.0, 0.5, 1.0):
            value, slope = error_of(name, s, y)
            assert np.isfinite(value).all()
            assert not slope.any()  # beyond 13.8 logits are held, so nothing drives them further


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_number_stays_none(dtype):
    """A logit that is NaN reaches the loss, where the loop notices it."""
    s = np.array([np.nan, -np.nan, np.inf, -np.inf], dtype)
    np.testing.assert_allclose(sigmoid(s), [np.nan, np.nan, 1, 0], atol=1e-37)
    for name in ERRORS:
        assert np.isnan(error_of(name, s, 0.5)[0]).tolist() == [True, True, False, False]


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


def test_a_soft_label_adds_its_variance_to_the_square():
    s, y = np.array([0.3]), np.array([0.25])
    r = 1 / (1 + np.exp(-s))
    np.testing.assert_allclose(error_of("squared", s, y)[0], (r - y) ** 2 + y * (1 - y))
