"""Selection that depends on the rating itself: right weights undo it, and the pair's own propensity does not."""

from itertools import product

import numpy as np
import pytest

from unskew.risk.errors import log_error
from unskew.risk.estimators import ips
from unskew.risk.robust import dr
from unskew.testing.enumeration import expectation, listed_view

Z = np.array([-1.0, 0.3, 1.5])
LIKED = 1 / (1 + np.exp(-Z))
GIVEN = 0.1 * np.exp(0.4 * Z) * np.array([[0.7], [1.6]])  # by rating 0 and 1
PAIR = LIKED * GIVEN[1] + (1 - LIKED) * GIVEN[0]
PREDICTION, IMPUTATION = np.array([0.3, 0.2, 0.4]), np.array([0.5, 0.4, 0.9])


def expected(risk, propensity):
    """E over all ratings and all patterns of seen pairs; `propensity` maps ratings to what is believed of each pair."""
    total = 0.0
    for ratings in product((0, 1), repeat=len(Z)):
        r = np.array(ratings)
        chance = np.where(r == 1, LIKED, 1 - LIKED).prod()
        roles = {"prediction": PREDICTION, "imputation": IMPUTATION, "propensity": propensity(r)}
        seen = GIVEN[r, np.arange(len(Z))]
        total += chance * expectation(
            seen, lambda o, r=r, roles=roles: risk(listed_view(o, r, roles, log_error)).item()
        )
    return total


def truth():
    return np.mean(-LIKED * np.log(PREDICTION) - (1 - LIKED) * np.log(1 - PREDICTION))


@pytest.mark.parametrize("risk", [ips, dr])
def test_weighting_by_the_chance_given_the_rating_is_unbiased(risk):
    assert expected(risk, lambda r: GIVEN[r, np.arange(len(Z))]) == pytest.approx(truth(), abs=1e-9)


@pytest.mark.parametrize("risk", [ips, dr])
def test_weighting_by_the_true_chance_of_the_pair_alone_is_biased(risk):
    assert abs(expected(risk, lambda r: PAIR) - truth()) > 0.02
