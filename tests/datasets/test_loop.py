"""The loop is the same by seed, its figures are what they are called, and chances make the level right."""

from itertools import permutations
from math import perm

import numpy as np
import pytest

import unskew
from unskew.datasets import simulate_loop
from unskew.datasets.loop import total_by_chances
from unskew.errors import ParameterError
from unskew.posterior import defaults

QUICK = unskew.Naive()


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(40, 30, density=0.2, selection="uniform", seed=4, test_per_user=5)


def test_the_total_by_chances_is_right_in_the_mean_over_all_lists():
    """Enumerated: lists of 2 of 5 candidates, a fixed order or, with chance epsilon, a random one; poor predictions."""
    ratings, wrong = np.array([1.0, 0.0, 0.0, 1.0, 1.0]), np.array([0.9, 0.8, 0.1, 0.3, 0.2])
    n, k, epsilon, mean, certain = 5, 2, 0.3, 0.0, 0.0
    for shown in permutations(range(n), k):
        chance = epsilon / perm(n, k) + (1 - epsilon) * (shown == (0, 1))
        at_place = epsilon / n + (1 - epsilon) * (np.array(shown) == np.arange(k))
        places = list(shown)
        mean += chance * total_by_chances(wrong, ratings[places], wrong[places], at_place, k)
        certain += chance
    assert certain == pytest.approx(1)
    assert mean == pytest.approx(ratings.sum())


def test_the_level_is_that_of_a_world_of_all_pairs(world):
    (only,) = simulate_loop(world, method=QUICK, policy="epsilon", explore=1.0, rounds=1, k=25, start=5)
    pairs = np.divmod(np.arange(world.n_pairs), world.n_items)
    assert only.level_by_chances == pytest.approx(float(world.rating(*pairs).mean()))  # everything was shown
    assert only.true_level == pytest.approx(float(world.preference(*pairs).mean()))


def test_what_lists_promise_is_what_the_model_answers_for_them(world):
    one = {"policy": "greedy", "rounds": 1, "start": 5, "seed": 3}
    every, few = (simulate_loop(world, method=QUICK, k=k, **one)[0] for k in (25, 2))
    assert 0 < every.promised < few.promised < 1  # all that is left, and the best two of it
    before = (each.liked_in_log * (5 + k) - each.liked * k for each, k in ((every, 25), (few, 2)))
    assert next(before) == pytest.approx(next(before))  # liked of what was rated before


def test_rounds_are_by_seed_and_cover_more_and_more(world):
    one, two = (simulate_loop(world, method=QUICK, policy="greedy", rounds=3, seed=1) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert [each.round for each in one] == [1, 2, 3]
    assert 0 < one[0].coverage <= one[1].coverage <= one[2].coverage <= 1
    assert np.isnan(one[-1].level_by_chances)


def test_showing_the_best_costs_less_than_showing_anything(world, monkeypatch):
    monkeypatch.setattr(defaults, "least_sweeps", lambda n: 40)
    bayes = unskew.make("bayes", sweeps=30)
    drawn, random = (
        simulate_loop(world, method=method, policy=policy, explore=explore, rounds=2, seed=2)
        for method, policy, explore in ((bayes, "thompson", 0.05), (QUICK, "epsilon", 1.0))
    )
    assert drawn[-1].regret < random[-1].regret
    assert np.isfinite(drawn[-1].level_by_chances)


def test_what_makes_no_loop_is_refused(world):
    for settings, words in (
        ({"policy": "best"}, "policy must be 'greedy', 'epsilon' or 'thompson'"),
        ({"rounds": 6}, "30 items are too few"),
        ({"policy": "greedy", "explore": 0.1, "rounds": 1}, "epsilon explores, greedy does not"),
        ({"policy": "epsilon", "explore": 0.0, "rounds": 1}, "epsilon explores, greedy does not"),
    ):
        with pytest.raises(ParameterError, match=words):
            simulate_loop(world, method=QUICK, **settings)
