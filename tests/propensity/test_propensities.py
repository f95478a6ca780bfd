"""Every propensity against its formula, in worlds whose propensities are known."""

import numpy as np
import pyarrow as pa
import pytest

from unskew.data.log import RatingLog
from unskew.datasets.world import simulate
from unskew.errors import DataError, ParameterError
from unskew.propensity.base import FittedPropensity, refuse_collapsed
from unskew.propensity.counted import Known, NaiveBayes, Popularity, Uniform
from unskew.propensity.factors import Factors
from unskew.propensity.logistic import Logistic
from unskew.training.options import Training


@pytest.fixture(scope="module")
def world():
    return simulate(n_users=400, n_items=200, density=0.1, selection="taste", strength=1.0, seed=2)


@pytest.fixture(scope="module")
def pairs(world):
    return np.divmod(np.random.default_rng(0).integers(world.n_pairs, size=20_000), world.n_items)


@pytest.fixture(scope="module")
def featured():
    """A log in which features drive seeing, and the true propensities."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    truth = 1 / (1 + np.exp(-(-2.5 + 0.8 * x[:, :1] + 0.5 * y[:, 0] + 0.7 * x[:, 1:] * y[:, 1])))
    users, items = np.nonzero(rng.random((300, 200)) < truth)
    log = RatingLog.from_arrays(
        users,
        items,
        rng.integers(0, 2, len(users)),
        positive=1,
        user_ids=range(300),
        item_ids=range(200),
        user_features=pa.table({"user_id": np.arange(300), "a": x[:, 0], "b": x[:, 1]}),
        item_features=pa.table({"item_id": np.arange(200), "c": y[:, 0], "d": y[:, 1]}),
    )
    return log, truth


def base_rate(world):
    return len(world.log) / world.n_pairs


def _all(log):
    return np.divmod(np.arange(log.n_pairs), log.n_items)


def test_uniform_is_the_base_rate(world, pairs):
    np.testing.assert_allclose(Uniform().fit(world.log).pair(*pairs), base_rate(world), rtol=1e-6)


def test_popularity_follows_the_counts_at_the_base_rate(world):
    p = Popularity(exponent=0.5).fit(world.log).pair(np.zeros(200, int), np.arange(200))
    counts = np.maximum(np.bincount(world.log.items, minlength=200), 0.5)
    np.testing.assert_allclose(p / p[0], np.sqrt(counts / counts[0]), rtol=1e-5)
    assert p.mean() == pytest.approx(base_rate(world), rel=1e-6)


def test_relative_popularity_is_the_published_score():
    log = RatingLog.from_arrays([0, 1, 2, 0], [0, 0, 0, 1], [1, 0, 1, 0], positive=1, item_ids=[0, 1, 2])
    fitted = Popularity(relative=True).fit(log, training=Training(holdout=0.5))
    found = fitted.pair(np.zeros(3, int), np.arange(3))
    np.testing.assert_allclose(found, [1, np.sqrt(1 / 3), np.sqrt(0.5 / 3)], rtol=1e-6)
    assert "1 items without a rating" in fitted.notes[0]


def test_naive_bayes_is_exact_where_only_ratings_select():
    world = simulate(n_users=500, n_items=300, density=0.1, selection="rating", strength=1.5, seed=3)
    fitted = NaiveBayes().fit(world.log, random_ratings=world.test)
    ones, zeros = fitted.given_rating(np.zeros(2, int), np.zeros(2, int), [1.0, 0.0])
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    ratings = world.rating(users, items)
    truth = world.propensity(users, items, ratings)
    assert ones == pytest.approx(truth[ratings == 1].mean(), rel=0.05)
    assert zeros == pytest.approx(truth[ratings == 0].mean(), rel=0.05)
    assert fitted.knows_ratings


def test_naive_bayes_is_schnabels_ratio():
    """P(r given seen) / P(r), counted by hand with a prior of two ratings of the log's kind."""
    log = RatingLog.from_arrays([0, 1, 2, 3], [0, 0, 1, 1], [1, 1, 1, 0], positive=1, item_ids=range(9))
    random = RatingLog.from_arrays([0, 1, 2, 3, 0, 1], [2, 3, 4, 5, 6, 7], [1, 0, 0, 0, 1, 0], positive=1)
    fitted = NaiveBayes(prior=2.0).fit(log, random_ratings=random, training=Training(holdout=0.5))
    zeros = np.zeros(2, int)
    expected = [0.25 / ((4 + 2 * 0.25) / 8), 0.75 / ((2 + 2 * 0.75) / 8)]
    np.testing.assert_allclose(fitted.rating_ratio(zeros, zeros, np.array([0.0, 1.0])), expected, rtol=1e-6)


def test_naive_bayes_refuses_what_cannot_serve(world):
    with pytest.raises(ParameterError, match="random_ratings=random_log"):
        NaiveBayes().fit(world.log)
    one_class = world.test.take(np.flatnonzero(world.test.ratings == 1))
    with pytest.raises(DataError, match="imply a propensity above 1"):
        NaiveBayes().fit(world.log, random_ratings=one_class)
    with pytest.raises(ParameterError, match="must not depend on the rating, as NaiveBayes does"):
        NaiveBayes(base=NaiveBayes()).fit(world.log, random_ratings=world.test)


class Fixed(FittedPropensity):
    def __init__(self, p):
        self.p = p

    def logits(self, users, items):
        p = self.p + 1e-6 * (users % 7) if self.p < 0.2 else self.p + 0.001 * (users % 7)
        return np.log(p / (1 - p)).astype(np.float32)


def test_useless_propensities_are_refused(world):
    with pytest.raises(DataError, match=r"mean of 0.3\d+ over all pairs where"):
        refuse_collapsed(Fixed(0.3), world.log, seed=0)
    with pytest.raises(DataError, match=r"has collapsed: it answers 0\.1 for every pair"):
        refuse_collapsed(Fixed(0.1), world.log, seed=0)


def test_logistic_recovers_selection_on_features(featured):
    log, truth = featured
    p = Logistic().fit(log).pair(*_all(log)).reshape(300, 200)
    assert np.abs(p - truth).mean() < 0.02
    assert np.abs(p.mean() - truth.mean()) < 0.005


def test_logistic_without_features_is_refused(world):
    with pytest.raises(DataError, match="user_features="):
        Logistic().fit(world.log)
    with pytest.raises(ParameterError, match=r"l2 of Logistic .* not -1"):
        Logistic(l2=-1)


def test_known_takes_a_function_or_a_column(world):
    log = world.log
    truth = world.propensity(log.users, log.items)
    by_function, by_column = (Known(pairs).fit(log) for pairs in (world.propensity, truth))
    np.testing.assert_allclose(by_column.pair(log.users, log.items), by_function.pair(log.users, log.items))
    order = np.random.default_rng(0).permutation(len(log))
    again = Known(None).from_state(by_column.state())
    np.testing.assert_array_equal(again.pair(log.users[order], log.items[order]), truth[order])
    assert by_function.answers_unseen
    assert not again.answers_unseen


def test_a_known_column_answers_for_seen_pairs_alone(world):
    fitted = Known(np.full(len(world.log), 0.1)).fit(world.log)
    with pytest.raises(DataError, match="pass a function"):
        fitted.pair(*np.divmod(np.arange(1000), world.n_items))
    with pytest.raises(DataError, match="unknown users or items"):
        fitted.logits(np.array([-1]), np.array([0]))
    with pytest.raises(ParameterError, match="do not cover new users"):
        fitted.extended(np.array([1]))


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, np.nan])
def test_known_values_out_of_range_are_refused(world, wrong):
    known = Known(lambda users, items: np.full(len(users), wrong))
    with pytest.raises(DataError, match=str(wrong)):
        known.fit(world.log).pair(np.array([0]), np.array([0]))


def test_known_may_depend_on_the_rating(world):
    known = Known(lambda u, i: np.full(len(u), 0.1), given_rating=lambda u, i, r: 0.05 + 0.1 * r)
    given = known.fit(world.log).given_rating(np.zeros(2, int), np.zeros(2, int), [0.0, 1.0])
    np.testing.assert_allclose(given, [0.05, 0.15], rtol=1e-6)


def test_new_users_of_a_cross_fitted_propensity_are_as_active_as_their_counts(world):
    spec = Factors(n_folds=3)
    fitted = spec.fit(world.log, training=Training(max_epochs=5, progress=False))
    counts, items = np.array([5, 40, 90]), np.arange(200, dtype=np.int32)
    longer = fitted.extended(counts[:1]).extended(counts[1:])
    again = spec.from_state(longer.state())
    for user, count in enumerate(counts, 400):
        found = again.pair(np.full(200, user, np.int32), items)
        assert found.sum() == pytest.approx(count, rel=1e-4)
        np.testing.assert_array_equal(found, longer.pair(np.full(200, user, np.int32), items))
    assert longer.sizes() == again.sizes() == (403, 200)
    known = np.arange(200, dtype=np.int32), items
    np.testing.assert_array_equal(longer.pair(*known), fitted.pair(*known))
    vectors = longer.user_vectors(np.array([401, -1]))
    np.testing.assert_array_equal(*vectors)
