"""k from random ratings: many tell it, a few change nothing unless they speak against what is assumed."""

import numpy as np
import pytest

import unskew
from unskew.utility.unexplained import unexplained_from


def informed(liking, world, assumed, rows):
    recipe = unskew.Utility(unexplained=assumed)
    return recipe.estimate(liking.cross_fitted, world.log, world.test.take(rows)).numbers


@pytest.fixture(scope="module")
def by_everything(liking, liking_world):
    """What all random ratings say where nothing unexplained was assumed to count."""
    return informed(liking, liking_world, 0.0, np.arange(len(liking_world.test)))


def test_many_random_ratings_tell_k_whatever_was_assumed(liking, liking_world, by_everything):
    """The world has k = 1."""
    for found in (by_everything, informed(liking, liking_world, 2.0, np.arange(len(liking_world.test)))):
        assert found.unexplained_low < 1.1
        assert found.unexplained_high > 0.9
        assert found.unexplained == pytest.approx(1.0, abs=0.25)
        assert found.unexplained_gain > 10
        assert found.positive_rate == pytest.approx(0.35, abs=0.02)


def test_fifty_random_ratings_leave_a_right_assumption_alone_and_say_how_little_they_know(liking, liking_world):
    few = np.random.default_rng(0).choice(len(liking_world.test), 50, replace=False)
    found = informed(liking, liking_world, 1.0, few)
    assert found.unexplained == 1.0
    assert found.unexplained_high - found.unexplained_low > 0.3


def test_the_slope_follows_k_and_the_estimate_is_the_maximum():
    def log_likelihood(k, slope):
        return -50 * (k * slope - 0.3) ** 2 * 100

    found = unexplained_from(log_likelihood, lambda k: 0.3 - 0.05 * k, assumed=0.0)
    k = found.estimate
    assert k * (0.3 - 0.05 * k) == pytest.approx(0.3, abs=0.01)
    assert found.low < k < found.high
    assert found.value == k


def test_without_evidence_for_a_slope_there_is_no_k_to_estimate(indifferent_world):
    recipe = unskew.Utility(base=unskew.Uniform(), n_folds=2, n_repeats=1)
    training = unskew.Training(max_epochs=2, progress=False)
    found = recipe.fit(indifferent_world.log, unbiased=indifferent_world.test, training=training).selection
    assert found.slope == 0
    assert found.numbers.unexplained == 1.0
    assert np.isnan(found.numbers.unexplained_gain)


def test_random_ratings_are_found_by_their_ids_and_strangers_count_as_average(liking, liking_world, by_everything):
    """A slice with a vocabulary of its own, in another order and with somebody unknown, says the same."""
    test = liking_world.test
    users, items = test.user_ids.take(test.users).to_pylist(), test.item_ids.take(test.items).to_pylist()
    strange = unskew.RatingLog.from_arrays(
        [-7, *users[::-1]], [items[0], *items[::-1]], [1.0, *test.ratings[::-1]], positive=1
    )
    assert (strange.users[1:51] != test.users[::-1][:50]).any()
    recipe = unskew.Utility(unexplained=0.0)
    found = recipe.estimate(liking.cross_fitted, liking_world.log, strange).numbers
    assert found.unexplained_estimate == pytest.approx(by_everything.unexplained_estimate, abs=0.01)
