"""Numbers that leave the finite ones are told, and never take the process with them."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew.errors import DivergedError, ParameterError
from unskew.losses.elementwise import sigmoid

ODD = np.resize(np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, -np.nan, 3.0], np.float32), 100)


def test_what_is_no_number_stays_none(contained):
    contained(lambda: np.testing.assert_array_equal(np.isnan(sigmoid(ODD)), np.isnan(ODD)))


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


def test_a_fit_that_needs_more_memory_than_there_is_says_so(contained):
    log = unskew.simulate(20, 20, density=0.3, test_per_user=5, seed=1).log
    many = unskew.simulate(20_000, 20, density=0.3, test_per_user=5, seed=1).log

    def check():
        for method, of in (
            (unskew.Naive(net=unskew.MF(n_factors=100_000)), many),
            (unskew.DRJL(propensity=unskew.Additive(), pairs_per_row=1000), many),
        ):
            with pytest.raises(ParameterError, match="needs more memory than there is: lower n_factors"):
                method.fit(of, training=unskew.Training(max_epochs=1, batch_size=1 << 20, progress=False))
        unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=False))

    contained(check, gigabytes=0.5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            lambda: unskew.MF(n_factors=10**30),
            "n_factors of MF must be a number .* at most 100000, not 10{30}",
        ),
        (lambda: unskew.MF(init_std=1e300), "init_std of MF must be a number at least 0 and at most"),
        (lambda: unskew.Naive(learning_rate=10**30), r"must be a number above 0 and at most 9.22337e\+18, not 10{30}"),
        (lambda: unskew.ExpertPlatt(n_experts=2**40), r"n_experts of ExpertPlatt must be .* at most 1e\+06"),
        (lambda: unskew.Naive(learning_rate=1e300), r"must be a number above 0 and at most 1e\+38, not 1e\+300"),
        (lambda: unskew.Training(batch_size=2**63), r"batch_size must be at least 1 and less than 2\^31"),
        (lambda: unskew.Factors(pairs_per_row=float("nan")), "pairs_per_row of Factors must be a number above 0"),
        (lambda: unskew.Logistic(pairs_per_row=float("inf")), "pairs_per_row of Logistic must be a number above 0"),
        (
            lambda: unskew.DRJL(pairs_per_row=1e30).plan(),
            "pairs_per_row of Plan must be a number at least 0 and at most",
        ),
    ],
)
def test_settings_that_no_machine_can_hold_are_refused(settings, sentence):
    with pytest.raises(ParameterError, match=sentence):
        settings()
