"""Numbers that leave the finite ones are told, and never take the process with them."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import unskew
from unskew.errors import DivergedError
from unskew.fast import exp, sigmoid, softplus

ODD = np.resize(np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, -np.nan, 3.0], np.float32), 100)


def test_what_is_no_number_stays_none(contained):
    @numba.njit
    def everywhere(values):
        found = np.empty((3, len(values)), np.float32)
        for n in range(len(values)):
            found[0, n], found[1, n], found[2, n] = exp(values[n]), sigmoid(values[n]), softplus(values[n])
        return found

    contained(lambda: np.testing.assert_array_equal(np.isnan(everywhere(ODD)), np.tile(np.isnan(ODD), (3, 1))))


def test_training_that_diverges_says_so(contained):
    log = unskew.simulate(20, 20, density=0.3, test_per_user=5, seed=1).log
    training = unskew.Training(max_epochs=4, progress=False)

    def check():
        for method in (unskew.Naive, unskew.StableDR, unskew.TDR, unskew.ESCM2DR, unskew.CVIB):
            with (
                np.errstate(all="ignore"),
                pytest.raises(DivergedError, match=r"left the finite numbers|validation risk"),
            ):
                method(learning_rate=1e38).fit(log, training=training)

    contained(check)
