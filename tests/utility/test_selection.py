"""What two traces of one slope say together, and what is used where they contradict one another."""

import numpy as np
import pytest

from unskew.utility.numbers import Numbers
from unskew.utility.ordered import Levels
from unskew.utility.selection import Selection


def selection(estimate, error, item_slope, item_error):
    """Interactions and item counts with these slopes and standard errors."""
    reach = 1.959964 * error
    numbers = Numbers.nothing(1.0)._replace(
        estimate=estimate,
        low=estimate - reach,
        high=estimate + reach,
        gain=(estimate / error) ** 2 / 2,
        item_slope=item_slope,
        item_error=item_error,
        interaction_calibration=1.0,
    )
    return Selection(numbers, Levels(np.array([0.0, 1.0]), np.array([0.5])), np.zeros(1), np.ones(3))


def test_traces_that_agree_are_weighted_by_their_precision():
    found = selection(0.10, 0.05, 0.20, 0.10)
    assert found.finding == "evidence"
    assert found.slope == pytest.approx((4 * 0.10 + 0.20) / 5)
    low, high = found.interval
    assert (high - low) / (2 * 1.959964) == pytest.approx(0.05 * 0.8**0.5)
    assert found.gain == pytest.approx(found.slope**2 / (2 * 0.05**2 * 0.8))


def test_item_counts_never_weigh_more_than_interactions():
    found = selection(0.10, 0.05, 0.16, 0.001)
    assert found.slope == pytest.approx(0.13)
    assert selection(0.01, 0.2, 0.3, 0.001).slope == 0  # sure item counts are no evidence by themselves


def test_item_counts_can_take_evidence_away_as_they_can_add_it():
    alone = selection(0.09, 0.05, 0.0, np.inf)
    assert alone.finding == "none"
    assert selection(0.09, 0.05, 0.12, 0.05).finding == "evidence"
    assert selection(0.11, 0.05, 0.0, np.inf).finding == "evidence"
    assert selection(0.11, 0.05, 0.0, 0.05).finding == "none"


def test_item_counts_that_know_nothing_change_nothing():
    found = selection(0.15, 0.05, 0.7, np.inf)
    assert found.slope == pytest.approx(0.15)
    assert found.gain == pytest.approx(found.numbers.gain)
    assert found.interval == pytest.approx(found.numbers.interaction_interval)


@pytest.mark.parametrize("side", [1, -1])
def test_traces_that_disagree_leave_no_more_than_either_allows(side):
    confounded = selection(side * 0.40, 0.03, side * 0.15, 0.05)
    assert confounded.finding == "disagreement"
    assert confounded.slope == pytest.approx(side * (0.15 + 1.959964 * 0.05))
    promoted = selection(side * 0.15, 0.03, side * 0.40, 0.05)
    assert promoted.slope == pytest.approx(side * 0.15)
    contradicted = selection(side * 0.40, 0.03, -side * 0.40, 0.05)
    assert contradicted.slope == 0
    assert "No more than either allows is used: 0.245" in selection(0.40, 0.03, 0.147, 0.05).verdict


@pytest.mark.parametrize(
    ("slope", "error", "said", "advice"),
    [(0.01, 0.02, 0.4, "raise"), (0.05, 0.01, 0.4, "raise"), (0.4, 0.4, 0.002, "lower"), (5.0, 0.5, 0.1, "lower")],
    ids=["noise", "mostly noise", "pruned", "understated"],
)
def test_advice_about_interactions_points_to_where_they_are_lost(slope, error, said, advice):
    numbers = Numbers.nothing(1.0)._replace(
        interaction_calibration=slope, interaction_calibration_error=error, interaction_spread=slope * said
    )
    assert numbers.finding == "no interactions"
    assert f"{advice} its l2 or collect more ratings" in numbers.verdict
    assert numbers.slope == 0
