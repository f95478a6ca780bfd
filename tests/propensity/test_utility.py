"""Selection on utility as a propensity: it finds what a world was made with, and keeps quiet where there is nothing."""

import numpy as np
import pytest
from scipy.special import expit

import unskew
from unskew.errors import ParameterError

SHORT = unskew.Training(max_epochs=2, progress=False)


@pytest.fixture(scope="module")
def rows(liking_world):
    log = liking_world.log
    return log.users, log.items, log.ratings


def test_the_slope_and_the_positive_rate_of_a_world_are_found_from_its_log_alone(liking, liking_world):
    low, high = liking.interval
    assert low < liking_world.strength < high
    assert liking.selection.finding == "evidence"
    assert "Evidence" in liking.verdict
    assert liking.gain > 20
    assert abs(liking.agreement) < 1.96
    assert all(0.5 < slope < 1.5 and error < 0.2 for slope, error in liking.calibration.values())
    assert abs(liking_world.log.positive_rate - 0.35) > 0.2
    assert liking.selection.numbers.positive_rate == pytest.approx(0.35, abs=0.03)


def test_chances_given_the_rating_are_nearer_the_truth_than_without(liking, liking_world, rows):
    truth = liking_world.propensity(*rows)
    ratio = liking.given_rating(*rows) / liking.pair(*rows[:2])
    right = truth / liking_world.propensity(*rows[:2])
    assert np.corrcoef(np.log(ratio), np.log(right))[0, 1] > 0.8
    assert np.abs(np.log(ratio / right)).mean() < 0.7 * np.abs(np.log(right)).mean()


def test_chances_given_the_rating_average_to_the_pairs_own_where_seeing_is_rare(liking, liking_world):
    users, items = np.divmod(np.arange(0, liking_world.n_pairs, 7), liking_world.n_items)
    p = liking.pair(users, items)
    rare = p < 0.05
    liked = expit(liking.selection.map(liking.score(users, items) - liking.selection.thresholds[0]))
    ones, zeros = (liking.given_rating(users, items, np.full(len(users), r)) for r in (1.0, 0.0))
    mean = liked * ones + (1 - liked) * zeros
    np.testing.assert_allclose(mean[rare], p[rare], rtol=0.03)
    assert (ones > zeros)[(p > 0) & (p < 0.9)].all()
    assert (ones <= 1).all()


def test_the_map_to_all_pairs_keeps_every_order_and_lowers_what_was_said(liking):
    said = np.linspace(-6, 6, 200)
    mapped = liking.population(said)
    assert (np.diff(mapped) > 0).all()
    assert (mapped < said).all()


def test_another_assumption_moves_the_level_and_k_zero_maps_nothing(liking, liking_world):
    rates = []
    for k in (0.0, 0.5, 1.0, 2.0):
        found = unskew.Utility(unexplained=k).refitted(liking, liking_world.log)
        rates.append(found.selection.numbers.positive_rate)
        if k == 0:
            said = np.linspace(-3, 3, 5)
            assert (found.population(said) == said).all()
            assert (found.given_rating(*two(1.0)) == found.pair(*two(1.0)[:2])).all()
            assert found.slope == pytest.approx(liking_world.strength, abs=0.06)
    assert rates == sorted(rates, reverse=True)


def two(rating):
    return np.array([0, 1]), np.array([2, 3]), np.array([rating, rating])


def test_without_selection_the_base_answers_to_the_bit(indifferent_world):
    log = indifferent_world.log
    ours = unskew.Utility(base=unskew.Factors(n_folds=2), n_folds=4).fit(log, seed=3, training=SHORT)
    base = unskew.Factors(n_folds=2).fit(log, seed=3, training=SHORT)
    assert ours.slope == 0
    assert ours.tilt is None
    assert (ours.pair(log.users, log.items) == base.pair(log.users, log.items)).all()
    assert (ours.given_rating(log.users, log.items, log.ratings) == base.pair(log.users, log.items)).all()
    assert (ours.vectors(log.users) == base.vectors(log.users)).all()
    assert (ours.population(log.ratings) == log.ratings).all()


def test_a_net_that_has_learned_no_interactions_is_no_evidence_and_the_verdict_says_so(liking_world):
    utility = unskew.Utility(base=unskew.Uniform(), n_folds=2, net=unskew.MF(n_factors=0))
    found = utility.fit(liking_world.log, training=SHORT)
    assert found.selection.finding == "no interactions"
    assert found.slope == 0
    assert "no interactions to go by" in found.verdict
    assert "lower its l2" in found.verdict


def test_a_log_too_small_for_its_folds_is_no_evidence():
    world = unskew.simulate(20, 15, density=0.2, test_per_user=5, seed=1)
    found = unskew.Utility(base=unskew.Uniform()).fit(world.log, training=SHORT)
    assert found.slope == 0
    assert not found.nets


def test_a_base_that_knows_the_rating_itself_is_refused(liking_world):
    with pytest.raises(ParameterError, match="must not depend on the rating, as NaiveBayes does"):
        unskew.Utility(base=unskew.NaiveBayes()).fit(liking_world.log, unbiased=liking_world.test, training=SHORT)


@pytest.mark.parametrize("wrong", [{"unexplained": -1.0}, {"n_folds": 1}, {"l2": -0.1}, {"learning_rate": 0.0}])
def test_settings_out_of_range_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ParameterError, match=f"{name} of Utility .* not {value}"):
        unskew.Utility(**wrong)


def test_folds_are_more_where_ratings_are_fewer():
    utility = unskew.Utility()
    assert [utility.n_folds_for(n) for n in (7_000, 50_000, 10_000_000)] == [20, 10, 5]
    assert unskew.Utility(n_folds=3).n_folds_for(7_000) == 3


def test_nets_of_a_large_log_stop_two_epochs_after_their_best_with_the_same_slope(monkeypatch, liking, liking_world):
    monkeypatch.setattr("unskew.propensity.utility.LARGE_LOG", len(liking_world.log) - 1)
    utility = unskew.Utility(base=unskew.Uniform(), n_folds=4, n_repeats=1)
    found = utility.fit(liking_world.log, training=unskew.Training(progress=False))
    for stage in {epoch.stage for epoch in found.history.epochs}:
        risks = [epoch.validation for epoch in found.history.epochs if epoch.stage == stage]
        assert len(risks) == np.argmin(risks) + 3
    assert any("stopped 2 epochs after their best instead of 6" in note for note in found.notes)
    assert not any("epochs after" in note for note in liking.notes)
    assert found.slope == pytest.approx(liking.slope, abs=0.02)
    assert utility.patience_for(len(liking_world.log), asked=1) == 1
