"""What sets Naive, IPS, SNIPS and EIB apart, in worlds whose truth is known."""

import numpy as np
import pytest

import unskew
from unskew.errors import DataError

QUIET = unskew.Training(progress=False)
BRIEF = unskew.Training(max_epochs=5, progress=False)


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=500, n_items=200, density=0.15, selection="taste", strength=1.0, seed=1)


@pytest.fixture(scope="module")
def naive(world):
    return unskew.Naive().fit(world.log, training=QUIET)


@pytest.fixture(scope="module")
def ips(world):
    """By true propensities."""
    return unskew.IPS(propensity=unskew.Known(world.propensity), clip=0.02).fit(world.log, training=QUIET)


def test_ips_with_true_propensities_has_lower_true_risk_than_naive_under_taste_driven_selection(world, naive, ips):
    assert world.risk(ips.predict_codes) < world.risk(naive.predict_codes)


def test_naive_predicts_too_many_positives_and_ips_is_nearer_to_the_world(world, naive, ips):
    pairs = np.divmod(np.arange(world.n_pairs), world.n_items)
    truth, by_naive, by_ips = (
        says(*pairs).mean() for says in (world.preference, naive.predict_codes, ips.predict_codes)
    )
    assert by_naive > truth + 0.05
    assert abs(by_ips - truth) < (by_naive - truth) / 2


def test_naive_bayes_weights_use_each_pairs_own_rating():
    world = unskew.simulate(n_users=300, n_items=200, density=0.15, selection="rating", strength=1.5, seed=2)
    naive = unskew.Naive().fit(world.log, training=QUIET)
    method = unskew.SNIPS(propensity=unskew.NaiveBayes(), clip=0.0)
    weighted = method.fit(world.log, training=QUIET, random_ratings=world.test)
    assert world.risk(weighted.predict_codes) < world.risk(naive.predict_codes)


def test_clipping_is_counted_and_reported(world, naive):
    model = unskew.IPS(propensity=unskew.Known(world.propensity), clip=0.2).fit(world.log, training=BRIEF)
    truth = world.propensity(world.log.users, world.log.items)
    assert model.overlap.clipped_share_of_seen == pytest.approx((truth < 0.2).mean(), abs=0.02)
    assert model.overlap.largest_weight == pytest.approx(5.0)
    assert "clip 0.2 raised" in str(model.overlap)
    assert naive.overlap is None


def test_a_column_of_known_propensities_is_enough_for_weighting_and_too_little_to_differentiate_a_correction(
    world, ips
):
    column = unskew.Known(world.propensity(world.log.users, world.log.items))
    by_column = unskew.IPS(propensity=column, clip=0.02).fit(world.log, training=QUIET)
    test = world.test.users, world.test.items
    np.testing.assert_allclose(by_column.predict_codes(*test), ips.predict_codes(*test), atol=1e-5)
    assert by_column.overlap.mean_over_pairs is None
    assert "known of seen pairs only" in str(by_column.overlap)
    with pytest.raises(DataError, match="pass a function"):
        unskew.TDR(propensity=column, differentiate=True).fit(world.log, training=QUIET)


def test_snips_equals_naive_when_all_propensities_are_equal(world, naive):
    snips = unskew.SNIPS(propensity=unskew.Uniform(), clip=0.0).fit(world.log, training=QUIET)
    np.testing.assert_allclose(
        naive.predict_codes(world.test.users, world.test.items),
        snips.predict_codes(world.test.users, world.test.items),
        atol=1e-3,
    )


@pytest.mark.parametrize("form", ["same", "absolute"])
def test_eib_pulls_unseen_pairs_towards_the_imputed_rating(world, form):
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    low, high = (
        unskew.EIB(imputed_rating=rating, weight=0.5, form=form)
        .fit(world.log, training=BRIEF)
        .predict_codes(users, items)
        for rating in (0.05, 0.95)
    )
    assert low.mean() < high.mean() - 0.1
