"""Every propensity against its formula, in worlds whose propensities are known."""

import numpy as np
import pytest

import unskew
from unskew.errors import DataError, ParameterError
from unskew.nets.factors import MF
from unskew.propensity.base import FittedPropensity, refuse_collapsed

FAST = unskew.Training(max_epochs=30, patience=3, progress=False)


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=400, n_items=200, density=0.1, selection="taste", strength=1.0, seed=2)


@pytest.fixture(scope="module")
def pairs(world):
    return np.divmod(np.random.default_rng(0).integers(world.n_pairs, size=20_000), world.n_items)


def base_rate(world):
    return len(world.log) / world.n_pairs


def test_uniform_is_the_base_rate(world, pairs):
    np.testing.assert_allclose(unskew.Uniform().fit(world.log).pair(*pairs), base_rate(world))


def test_popularity_follows_the_counts_and_meets_the_base_rate(world):
    items = np.arange(200)
    p = unskew.Popularity(exponent=0.5).fit(world.log).pair(np.zeros(200, int), items)
    counts = np.bincount(world.log.items, minlength=200)
    np.testing.assert_allclose(p / p[0], np.sqrt(np.maximum(counts, 0.5) / max(counts[0], 0.5)))
    assert p.mean() == pytest.approx(base_rate(world))


def test_relative_popularity_is_the_published_score():
    log = unskew.RatingLog.from_arrays([0, 1, 2, 0], [0, 0, 0, 1], [1, 0, 1, 0], positive=1, item_ids=[0, 1, 2])
    fitted = unskew.Popularity(relative=True).fit(log, training=unskew.Training(holdout=0.5))
    np.testing.assert_allclose(fitted.pair(np.zeros(3, int), np.arange(3)), [1, np.sqrt(1 / 3), np.sqrt(0.5 / 3)])
    assert "1 items without a rating" in fitted.notes[0]


def test_naive_bayes_is_exact_when_only_the_rating_drives_selection():
    world = unskew.simulate(n_users=500, n_items=300, density=0.1, selection="rating", strength=1.5, seed=3)
    fitted = unskew.NaiveBayes().fit(world.log, random_ratings=world.test)
    ones, zeros = fitted.given_rating(np.zeros(2, int), np.zeros(2, int), [1.0, 0.0])
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    ratings = world.rating(users, items)
    truth = world.propensity(users, items, ratings)
    assert ones == pytest.approx(truth[ratings == 1].mean(), rel=0.05)
    assert zeros == pytest.approx(truth[ratings == 0].mean(), rel=0.05)
    assert fitted.knows_ratings


def test_naive_bayes_asks_for_a_slice_and_refuses_one_that_makes_propensities_exceed_one(world):
    with pytest.raises(ParameterError, match="random_ratings=random_log"):
        unskew.NaiveBayes().fit(world.log)
    one_class = world.test.take(np.flatnonzero(world.test.ratings == 1))
    with pytest.raises(DataError, match="imply a propensity above 1"):
        unskew.NaiveBayes().fit(world.log, random_ratings=one_class)


def test_factors_come_nearer_to_the_truth_than_counts_under_taste_driven_selection():
    world = unskew.simulate(
        n_users=500, n_items=300, density=0.15, n_factors=2, selection="taste", strength=1.0, seed=2
    )
    training = unskew.Training(progress=False)
    factors, additive = (
        world.propensity_error(recipe.fit(world.log, training=training).pair)
        for recipe in (unskew.Factors(n_folds=2), unskew.Additive())
    )
    assert factors < 0.95 * additive


def test_cross_fitted_factors_are_honest_on_seen_pairs_where_one_net_is_overconfident():
    log = unskew.simulate(n_users=200, n_items=150, density=0.1, selection="uniform", seed=1).log
    training = unskew.Training(max_epochs=20, patience=20, progress=False)
    crossed, same = (
        unskew.Factors(n_folds=folds, l2=0.0).fit(log, training=training).pair(log.users, log.items).mean()
        for folds in (4, 1)
    )
    assert same > 0.108
    assert abs(crossed - 0.1) < (same - 0.1) / 2


def test_factors_are_fitted_to_the_true_base_rate_at_any_ratio_of_sampled_pairs(world, pairs):
    for ratio in (1.0, 8.0):
        fitted = unskew.Factors(n_folds=2, pairs_per_row=ratio).fit(world.log, training=FAST)
        assert fitted.pair(*pairs).mean() == pytest.approx(base_rate(world), rel=0.1)


def test_a_pair_is_answered_the_same_in_any_company(world, pairs):
    fitted = unskew.Factors(n_folds=3).fit(world.log, training=unskew.Training(max_epochs=2, progress=False))
    together = fitted.pair(*pairs)
    order = np.random.default_rng(1).permutation(len(together))
    np.testing.assert_allclose(fitted.pair(pairs[0][order], pairs[1][order]), together[order], rtol=1e-6)
    assert fitted.vectors(np.arange(4)).shape == (4, 3 * 17)


def test_a_collapsed_factor_propensity_is_refused(world):
    heavy = unskew.Factors(net=MF(biases=False, spread=1e-9), n_folds=1, l2=1e6)
    with pytest.raises(DataError, match="collapsed"):
        heavy.fit(world.log, training=FAST)


def test_a_propensity_off_the_base_rate_is_refused(world):
    class Off(FittedPropensity):
        def pair(self, users, items):
            return 0.3 + 0.001 * (users % 7)

    with pytest.raises(DataError, match=r"mean of 0.3\d+ over all pairs where"):
        refuse_collapsed(Off(), unskew.holdout_split(world.log), seed=0)


def test_logistic_recovers_selection_on_features():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    truth = 1 / (1 + np.exp(-(-2.5 + 0.8 * x[:, :1] + 0.5 * y[:, 0] + 0.7 * x[:, 1:] * y[:, 1])))
    users, items = np.nonzero(rng.random((300, 200)) < truth)
    frames = [
        {"user_id": np.arange(300), "a": x[:, 0], "b": x[:, 1]},
        {"item_id": np.arange(200), "c": y[:, 0], "d": y[:, 1]},
    ]
    log = unskew.RatingLog.from_arrays(
        users,
        items,
        rng.integers(0, 2, len(users)),
        positive=1,
        user_ids=range(300),
        item_ids=range(200),
        user_features=frames_of(frames[0]),
        item_features=frames_of(frames[1]),
    )
    fitted = unskew.Logistic().fit(log)
    grid = np.meshgrid(np.arange(300), np.arange(200), indexing="ij")
    p = fitted.pair(grid[0].ravel(), grid[1].ravel()).reshape(300, 200)
    assert np.abs(p - truth).mean() < 0.02
    assert np.abs(p.mean() - truth.mean()) < 0.005


def frames_of(columns):
    import pyarrow as pa

    return pa.table(columns)


def test_logistic_without_features_is_refused(world):
    with pytest.raises(DataError, match="user_features="):
        unskew.Logistic().fit(world.log)


def test_known_takes_a_function_or_a_column(world):
    log = world.log
    truth = world.propensity(log.users, log.items)
    by_function = unskew.Known(world.propensity).fit(log)
    by_column = unskew.Known(truth).fit(log)
    np.testing.assert_allclose(by_column.pair(log.users, log.items), by_function.pair(log.users, log.items))
    shuffled = np.random.default_rng(0).permutation(len(log))
    np.testing.assert_allclose(by_column.pair(log.users[shuffled], log.items[shuffled]), truth[shuffled])


def test_a_known_column_is_silent_about_unseen_pairs_and_says_so(world):
    fitted = unskew.Known(np.full(len(world.log), 0.1)).fit(world.log)
    with pytest.raises(DataError, match="pass a function"):
        fitted.pair(*np.divmod(np.arange(1000), world.n_items))


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, np.nan])
def test_known_propensities_out_of_range_are_refused_with_their_value(world, wrong):
    with pytest.raises(DataError, match=str(wrong)):
        unskew.Known(lambda users, items: np.full(len(users), wrong)).fit(world.log).pair(np.array([0]), np.array([0]))


def test_known_may_depend_on_the_rating():
    fitted = unskew.Known(lambda u, i: np.full(len(u), 0.1), given_rating=lambda u, i, r: 0.05 + 0.1 * r)
    world = unskew.simulate(n_users=50, n_items=40, density=0.2, seed=0)
    given = fitted.fit(world.log).given_rating(np.zeros(2, int), np.zeros(2, int), [0.0, 1.0])
    np.testing.assert_allclose(given, [0.05, 0.15])
