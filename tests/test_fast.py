"""Our exp, sigmoid and softplus say what numpy's say, to single precision, wherever they are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from scipy.special import expit

from unskew import fast

EVERYWHERE = np.concatenate([np.linspace(-86, 86, 20_001), np.linspace(-1, 1, 2_001), [-0.0, 1e-30, -1e-30]])


def over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    @numba.njit(fastmath=fast.WIDE, error_model="numpy")
    def loop(x: Any) -> Any:
        out = np.empty_like(x)
        for n in range(len(x)):
            out[n] = function(x[n])
        return out

    return loop


@pytest.mark.parametrize(
    ("function", "reference"),
    [(fast.exp, np.exp), (fast.sigmoid, expit), (fast.softplus, lambda x: np.logaddexp(0, x))],
    ids=["exp", "sigmoid", "softplus"],
)
def test_relative_error_is_that_of_single_precision(function: Any, reference: Any) -> None:
    x = EVERYWHERE.astype(np.float32)
    said = over_all(function)(x).astype(np.float64)
    np.testing.assert_allclose(said, reference(x.astype(np.float64)), rtol=5e-7)


def test_beyond_single_precision_the_answer_is_the_limit() -> None:
    far = np.array([-1e30, -200.0, 200.0, 1e30], np.float32)
    np.testing.assert_allclose(over_all(fast.sigmoid)(far), [0, 0, 1, 1], atol=1e-37)
    np.testing.assert_allclose(over_all(fast.softplus)(far), np.maximum(far, 0), atol=1e-37)
