"""Slopes by expert: kinds of users that differ are told apart, and those that do not share the common slope."""

from dataclasses import replace

import numpy as np

import unskew
from unskew.utility.estimate import Trail
from unskew.utility.experts import UserScores, fit_experts

COMMON = 0.25


def users(slopes, information, seed=0):
    """Users whose score is what a quadratic likelihood with this information would say; vectors tell the kinds."""
    rng = np.random.default_rng(seed)
    score = information * (slopes - COMMON) + np.sqrt(information) * rng.normal(size=len(slopes))
    vectors = np.column_stack([np.where(slopes > COMMON, 1.0, -1.0), rng.normal(size=len(slopes))])
    return UserScores(score, np.full(len(slopes), float(information)), vectors.astype(np.float32))


def test_two_kinds_of_users_get_their_own_slopes():
    slopes = np.repeat([0.1, 0.4], 300)
    found = fit_experts(users(slopes, 20.0), COMMON, 1.0, 2, np.random.default_rng(0))
    assert found.gain > 20
    assert np.abs(found.slopes[found.expert] - slopes).mean() < 0.03


def test_users_who_do_not_differ_stay_at_the_common_slope():
    found = fit_experts(users(np.full(600, COMMON), 5.0), COMMON, 1.0, 3, np.random.default_rng(0))
    assert np.abs(found.slopes[found.expert] - COMMON).max() < 0.06


def test_scores_of_users_add_up_to_the_slope_of_the_likelihood(liking, liking_world):
    """At the common maximum they sum to about zero; they know more than it does, as items are not free to adapt."""
    log = liking_world.log
    trace = Trail.of(liking.cross_fitted, log, log.n_pairs).interactions(1.0)
    score, information = trace.user_scores(liking.slope, log.n_users)
    width = (liking.selection.numbers.high - liking.selection.numbers.low) / 2 / 1.96
    assert abs(score.sum()) < np.sqrt(information.sum())
    assert information.sum() > width**-2


def test_experts_reach_the_propensity_and_its_notes(liking, liking_world):
    recipe = unskew.Utility(n_experts=2)
    found = recipe.refitted(liking, liking_world.log)
    users = np.arange(liking_world.n_users)
    assert set(np.unique(found.selection.slope_of(users))) <= set(found.selection.slopes)
    assert any("Slopes by expert" in note for note in found.notes)
    said = np.linspace(-3, 3, liking_world.n_users)
    mapped = found.population(said, users)
    numbers = found.selection.numbers._replace(item_error=np.inf)
    for expert, slope in enumerate(found.selection.slopes):
        inside = found.selection.expert == expert
        alone = replace(found.selection, slopes=np.empty(0), numbers=numbers._replace(estimate=slope))
        np.testing.assert_allclose(mapped[inside], alone.population(said[inside]))
