"""Compiled functions of single numbers against NumPy, in single and in double precision."""

import numba
import numpy as np
import pytest

from unskew.losses.elementwise import ERRORS, exp, log_one_plus, sigmoid


@numba.njit
def compiled_exp(x):
    return np.array([exp(v) for v in x])


@numba.njit
def compiled_log_one_plus(x):
    return np.array([log_one_plus(v) for v in x])


TYPES = [(np.float32, 4e-7), (np.float64, 1e-15)]
EXACT = {
    compiled_exp: np.exp,
    sigmoid: lambda x: np.exp(-np.logaddexp(0, -x)),
}


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("function", EXACT, ids=["exp", "sigmoid"])
def test_functions_are_those_of_numpy(function, dtype, tolerance):
    x = np.linspace(-80, 80, 20_001).astype(dtype)
    found = function(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, EXACT[function](x.astype(np.float64)), rtol=8 * tolerance, atol=1e-37)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_the_logarithm_of_one_plus_is_that_of_numpy(dtype, tolerance):
    x = np.linspace(0, 1, 20_001).astype(dtype)
    np.testing.assert_allclose(compiled_log_one_plus(x), np.log1p(x.astype(np.float64)), rtol=8 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_at_extreme_logits_all_stays_finite(dtype):
    s = np.array([-1e4, -300, 300, 1e4], dtype)
    assert np.isfinite(sigmoid(s)).all()
    for error in ERRORS.values():
        for y in (0.0, 0.5, 1.0):
            value, slope = error.of(s, np.full(4, y, dtype))
            assert np.isfinite(value).all()
            assert not slope.any()  # beyond 13.8 logits are held, so nothing drives them further
        assert np.isfinite(error.label_effect(s)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_number_stays_none_and_harms_nothing(dtype):
    """A logit that is NaN reaches the loss, where the loop notices it; the table of powers is not left."""
    s = np.array([np.nan, -np.nan, np.inf, -np.inf] * 50, dtype)
    found = sigmoid(s).reshape(-1, 4)
    assert np.isnan(found[:, :2]).all()
    np.testing.assert_allclose(found[:, 2:], [[1, 0]] * 50, atol=1e-37)
    for error in ERRORS.values():
        value, _ = error.of(s, np.full(len(s), 0.5, dtype))
        assert np.isnan(value.reshape(-1, 4)[:, :2]).all()


def exact_error(name, s, y):
    r = 1 / (1 + np.exp(-s))
    return np.logaddexp(0, s) - y * s if name == "log" else y * (1 - r) ** 2 + (1 - y) * r**2


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_and_slopes_are_those_of_their_formulas(name, dtype, tolerance):
    s = np.linspace(-13, 13, 2001)
    for y in (0.0, 0.3, 1.0):
        value, slope = ERRORS[name].of(s.astype(dtype), np.full(len(s), y, dtype))
        s32 = s.astype(dtype).astype(np.float64)
        np.testing.assert_allclose(value, exact_error(name, s32, y), rtol=tolerance, atol=tolerance)
        r = 1 / (1 + np.exp(-s32))
        by_hand = r - y if name == "log" else 2 * r * (1 - r) * (r - y)
        np.testing.assert_allclose(slope, by_hand, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_linear_in_the_label(name):
    s = np.linspace(-9, 9, 101)
    zero, one = (ERRORS[name].of(s, np.full(101, y))[0] for y in (0.0, 1.0))
    np.testing.assert_allclose(ERRORS[name].of(s, np.full(101, 0.3))[0], 0.3 * one + 0.7 * zero, rtol=1e-12)
    np.testing.assert_allclose(ERRORS[name].label_effect(s), one - zero, atol=1e-12)


def test_a_soft_label_adds_its_variance_to_the_square():
    s, y = np.array([0.3]), np.array([0.25])
    r = 1 / (1 + np.exp(-s))
    np.testing.assert_allclose(ERRORS["squared"].of(s, y)[0], (r - y) ** 2 + y * (1 - y))


def test_functions_for_kernels_are_refused_outside():
    for function in (exp, log_one_plus):
        with pytest.raises(TypeError, match="compiled code"):
            function(1.0)
