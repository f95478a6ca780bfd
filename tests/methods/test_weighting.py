"""What sets Naive, IPS, SNIPS, EIB, CVIB and AT apart, in worlds whose truth is known."""

import numpy as np
import pytest

from unskew.datasets.world import simulate
from unskew.errors import DataError
from unskew.losses.weighting import snips
from unskew.methods.robust import DRJL, TDR
from unskew.methods.weighting import AT, EIB, IPS, SNIPS, Naive
from unskew.propensity.counted import Known, NaiveBayes, Uniform
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.weights import weights_of

QUIET = Training(progress=False)
BRIEF = Training(max_epochs=5, progress=False)


@pytest.fixture(scope="module")
def world():
    return simulate(n_users=500, n_items=200, density=0.15, selection="taste", strength=1.0, seed=1)


@pytest.fixture(scope="module")
def fitted(world):
    """By name; weights are by true propensities."""
    true = {"propensity": Known(world.propensity), "clip": 0.02}
    methods = {"naive": Naive(), "ips": IPS(**true), "snips": SNIPS(**true), "dr-jl": DRJL(**true)}
    return {name: method.fit(world.log, training=QUIET) for name, method in methods.items()}


def everywhere(world):
    return tuple(codes.astype(np.int32) for codes in np.divmod(np.arange(world.n_pairs), world.n_items))


@pytest.mark.parametrize("name", ["ips", "snips", "dr-jl"])
def test_true_propensities_lower_the_true_risk(world, fitted, name):
    assert world.risk(fitted[name].predict_codes) < world.risk(fitted["naive"].predict_codes)


def test_naive_predicts_too_many_positives_and_weighting_fewer(world, fitted):
    pairs = everywhere(world)
    truth = world.preference(*pairs).mean()
    naive, ips = (fitted[name].predict_codes(*pairs).mean() for name in ("naive", "ips"))
    assert naive > truth + 0.05
    assert abs(ips - truth) < (naive - truth) / 2


def test_clipping_is_counted_and_reported(world, fitted):
    weights = IPS(propensity=Known(world.propensity), clip=0.2).fit(world.log, training=BRIEF).weights
    truth = world.propensity(world.log.users, world.log.items)
    assert weights.clipped_share_of_seen == pytest.approx((truth < 0.2).mean(), abs=0.02)
    assert weights.clipped_share_of_pairs == pytest.approx(
        (world.propensity(*everywhere(world)) < 0.2).mean(), abs=0.01
    )
    assert weights.largest_weight == pytest.approx(5.0)
    assert "clip 0.2 raised" in str(weights)
    assert fitted["naive"].weights is None


def test_the_report_on_weights_is_that_of_the_training_rows(world):
    method = IPS(propensity=Known(world.propensity), clip=0.05)
    trained = train(method.plan(), BRIEF.split(world.log, 0), training=BRIEF)
    report, rows = weights_of(trained), BRIEF.split(world.log, 0).train
    w = 1 / np.maximum(world.propensity(rows.users, rows.items), 0.05)
    assert report.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-4)
    assert report.mean_over_pairs == pytest.approx(report.base_rate, rel=0.05)
    assert report.smallest_seen == pytest.approx(world.propensity(rows.users, rows.items).min(), rel=1e-3)


def test_a_column_of_propensities_is_enough_for_weighting_alone(world, fitted):
    column = Known(world.propensity(world.log.users, world.log.items))
    by_column = IPS(propensity=column, clip=0.02).fit(world.log, training=QUIET)
    test = world.test.users, world.test.items
    np.testing.assert_allclose(by_column.predict_codes(*test), fitted["ips"].predict_codes(*test), atol=1e-5)
    assert by_column.weights.mean_over_pairs is None
    assert "known of seen pairs only" in str(by_column.weights)
    with pytest.raises(DataError, match="pass a function"):
        TDR(propensity=column, differentiate=True).fit(world.log, training=QUIET)


def test_snips_is_naive_when_all_propensities_are_equal(world, fitted):
    equal = SNIPS(propensity=Uniform(), clip=0.0).fit(world.log, training=QUIET)
    test = world.test.users, world.test.items
    np.testing.assert_allclose(fitted["naive"].predict_codes(*test), equal.predict_codes(*test), atol=1e-3)


@pytest.mark.parametrize("form", ["same", "absolute"])
def test_eib_pulls_unseen_pairs_towards_the_imputed_rating(world, form):
    low, high = (
        EIB(imputed_rating=rating, weight=0.5, form=form)
        .fit(world.log, training=BRIEF)
        .predict_codes(*everywhere(world))
        for rating in (0.05, 0.95)
    )
    assert low.mean() < high.mean() - 0.1


def test_at_keeps_the_third_learner_of_lowest_weighted_risk(world):
    method = AT(propensity=Known(world.propensity))
    trained = train(method.plan(), BRIEF.split(world.log, 0), training=BRIEF)
    risks = [epoch.validation for epoch in trained.history.of("prediction")]
    assert trained.history.kept["prediction"] == 1 + np.argmin(risks)
    kept = snips(trained.view(trained.feed.holdout))
    assert kept == pytest.approx(min(risks), abs=5e-3)  # rows at rest may answer as the average


def test_naive_bayes_weighs_each_pair_by_its_own_rating():
    world = simulate(n_users=300, n_items=200, density=0.15, selection="rating", strength=1.5, seed=2)
    split = QUIET.split(world.log, 0)
    risks = []
    for method in (SNIPS(propensity=NaiveBayes(), clip=0.0), Naive()):
        trained = train(method.plan(), split, training=QUIET, random_ratings=world.test)
        risks.append(world.risk(lambda users, items, parts=trained.parts: parts.answer("prediction", users, items)))
    assert risks[0] < risks[1]
