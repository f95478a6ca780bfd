"""What follows from the log where a recipe says nothing."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.data.split import scarcity
from unskew.training.rules import by_rules, usual_l2


def grid(n_users, n_items, **ids):
    """Everybody rates everything, in turn 1 and 0."""
    users, items = np.divmod(np.arange(n_users * n_items), n_items)
    return unskew.RatingLog.from_arrays(users, items, (users + items) % 2, positive=1, **ids)


def test_the_usual_l2_is_a_quarter_of_the_noise_of_a_user_and_of_an_item():
    assert usual_l2(grid(9, 4)) == pytest.approx((1 / 2 + 1 / 3) / 4)  # users have 4 ratings, items 9


def test_those_without_ratings_do_not_count_and_uneven_counts_are_scarcer_than_even_ones():
    padded = grid(9, 4, user_ids=np.arange(50), item_ids=np.arange(70))
    assert scarcity(padded) == scarcity(grid(9, 4))
    users = np.repeat([0, 1], [7, 1])
    uneven = unskew.RatingLog.from_arrays(users, np.arange(8), np.arange(8) % 2, positive=1)
    even = unskew.RatingLog.from_arrays(np.repeat([0, 1], 4), np.arange(8), np.arange(8) % 2, positive=1)
    assert scarcity(uneven) > scarcity(even)


def test_a_plan_leaves_l2_and_clip_to_the_log_unless_a_recipe_has_numbers():
    log = grid(12, 10)
    facts = unskew.holdout_split(log).facts
    free, fixed = (by_rules(method.plan(), facts).roles for method in (unskew.DRJL(), unskew.DRJL(l2=0.3, clip=0.2)))
    assert free["prediction"].l2 == free["imputation"].l2 == pytest.approx(usual_l2(log))
    assert free["propensity"].clip == 1.0
    assert (fixed["prediction"].l2, fixed["imputation"].l2, fixed["propensity"].clip) == (0.3, 0.3, 0.2)
    differentiated = by_rules(unskew.make("tdr-jl").plan(), facts).roles["prediction"]
    assert differentiated.l2 == pytest.approx(2 * usual_l2(log))


def test_the_rule_is_what_its_number_would_be():
    log = unskew.simulate(40, 30, density=0.3, seed=1).log
    training = unskew.Training(max_epochs=2, progress=False)
    ruled, numbered = unskew.Naive(), replace(unskew.Naive(), l2=usual_l2(log))
    one, other = (
        method.fit(log, training=training).predict_codes(log.users, log.items) for method in (ruled, numbered)
    )
    assert (one == other).all()


def test_a_model_tells_the_numbers_it_was_trained_with():
    log = unskew.simulate(40, 30, density=0.3, seed=1).log
    training = unskew.Training(max_epochs=1, progress=False)
    found = unskew.DRJL(propensity=unskew.Additive(), imputation_l2=0.5).fit(log, training=training).settings
    density = len(log) / log.n_pairs
    expected = {
        "batch size": 64,
        "l2 of imputation": 0.5,
        "l2 of prediction": usual_l2(log),
        "clip of propensity": density,
    }
    assert found == pytest.approx(expected)
