"""Which of two models is better: the answer is the world's, also where the naive answer is not."""

import math

import numpy as np
import pytest
from scipy.special import expit

import unskew

FAST = unskew.Training(progress=False, max_epochs=5)


@pytest.fixture(scope="module")
def taste():
    return unskew.simulate(200, 100, density=0.2, selection="taste", n_factors=2, seed=7)


@pytest.fixture(scope="module")
def rivals(taste):
    """`honest` errs alike everywhere; `flatterer` is right about what people like to rate and wrong about the rest."""

    def honest(users, items):
        return expit(taste.logit(users, items) + 2.0 * np.sin(users * 7.0 + items))

    def flatterer(users, items):
        return expit(np.maximum(taste.logit(users, items), 0.3))

    return honest, flatterer


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr", "tdr"])
def test_compare_picks_the_truly_better_model_where_the_naive_estimate_picks_the_other(taste, rivals, estimator):
    honest, flatterer = rivals
    assert taste.risk(honest) < taste.risk(flatterer)
    naive = unskew.compare(honest, flatterer, taste.log, estimator="naive")
    assert naive.better == "B"  # and is sure of it
    found = unskew.compare(
        honest, flatterer, taste.log, estimator=estimator, propensity=unskew.Known(taste.propensity), imputation=0.5
    )
    assert found.better == "A"
    truth = taste.risk(honest) - taste.risk(flatterer)
    if estimator != "tdr":  # whose interval is too narrow where weights are heavy
        assert found.difference.low < truth < found.difference.high
    assert "A is better than B: its mse is lower by" in str(found)
    assert "unweighted, B would look better" in str(found)


@pytest.mark.parametrize("propensity", [unskew.Factors(n_folds=2), unskew.Additive()], ids=["factors", "additive"])
def test_it_does_so_with_propensities_estimated_from_the_log_alone(propensity):
    """One model knows popular items well and the others badly, and popular items are what the log is made of."""
    world = unskew.simulate(250, 100, density=0.2, selection="popularity", seed=3)

    def even(users, items):
        return expit(world.logit(users, items) + 2.2 * np.sin(users * 7.0 + items))

    def popular(users, items):
        return np.where(world.log_exposure[items] > 0, world.preference(users, items), 0.8)

    assert world.risk(even) < world.risk(popular)
    settings = {"names": ("even", "popular"), "training": unskew.Training(progress=False, max_epochs=20)}
    assert unskew.compare(even, popular, world.log, estimator="naive", **settings).better == "popular"
    assert unskew.compare(even, popular, world.log, propensity=propensity, **settings).better == "even"


def test_the_interval_of_the_difference_is_paired(taste):
    def slightly_better(users, items):
        return expit(taste.logit(users, items) + 0.5)

    def slightly_worse(users, items):
        return expit(taste.logit(users, items) + 0.6)

    found = unskew.compare(slightly_better, slightly_worse, taste.log, propensity=unskew.Known(taste.propensity))
    wide = found.first.high - found.first.low
    assert found.difference.high - found.difference.low < wide / 3
    assert found.better == "A"


def test_equal_models_cannot_be_told_apart(taste, rivals):
    found = unskew.compare(rivals[0], rivals[0], taste.log, propensity=unskew.Known(taste.propensity))
    assert found.better is None
    assert found.difference.value == 0
    assert str(found).startswith("This log cannot tell A from B: their difference in mse is +0.0000")


@pytest.mark.parametrize("metric", ["auc", "ndcg@5", "recall@5"])
def test_where_more_is_better_the_higher_one_wins(taste, metric):
    found = unskew.compare(
        lambda u, i: expit(taste.logit(u, i)),
        lambda u, i: expit(-taste.logit(u, i)),
        taste.log,
        metric=metric,
        estimator="dr",
        propensity=unskew.Known(taste.propensity),
        imputation=0.5,
    )
    assert found.better == "A"
    assert f"its {metric} is higher by" in str(found)
    assert (found.overturning_factor is None) == (metric == "auc")


def test_the_overturning_factor_is_that_of_the_weighted_differences(taste, rivals):
    log = taste.log
    found = unskew.compare(*rivals, log, propensity=unskew.Known(taste.propensity))
    a, b = (f(log.users, log.items) for f in rivals)
    d = ((a - log.ratings) ** 2 - (b - log.ratings) ** 2) / log.n_pairs
    w = 1 / taste.propensity(log.users, log.items)
    factor = unskew.theory.overturning_factor(d, w)
    assert found.overturning_factor == pytest.approx(factor)
    assert 1 < factor < math.inf
    assert f"by a factor of {factor:.2f} could overturn this" in str(found)


def test_two_models_of_one_log_are_judged_by_what_both_held_out(taste):
    one, other = (method.fit(taste.log, seed=1, training=FAST) for method in (unskew.Naive(), unskew.Naive(l2=5.0)))
    found = unskew.compare(one, other, propensity=unskew.Additive())
    assert found.n_ratings == len(one.holdout)
    elsewhere = unskew.Naive().fit(taste.draw(1), seed=1, training=FAST)
    with pytest.raises(unskew.DataError, match="fitted on different logs"):
        unskew.compare(one, elsewhere)
