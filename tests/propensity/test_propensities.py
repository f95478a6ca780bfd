"""Every propensity against its formula, in worlds whose propensities are known."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from unskew import DataError, Factors, Logistic, ParameterError, RatingLog, Training, read_log, simulate
from unskew.propensity.additive import Additive, activity, solve_margins
from unskew.propensity.base import FittedPropensity, refuse_collapsed
from unskew.propensity.counted import Known, NaiveBayes, Popularity


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
    known = {"user_ids": range(300), "item_ids": range(200), "positive": 1}
    known["user_features"] = pa.table({"user_id": np.arange(300), "a": x[:, 0], "b": x[:, 1]})
    known["item_features"] = pa.table({"item_id": np.arange(200), "c": y[:, 0], "d": y[:, 1]})
    return RatingLog.from_arrays(users, items, rng.integers(0, 2, len(users)), **known), truth


def base_rate(world):
    return len(world.log) / world.n_pairs


def _all(log):
    return np.divmod(np.arange(log.n_pairs), log.n_items)


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
    pair = np.zeros(2, int), np.zeros(2, int)
    ones, zeros = fitted.pair(*pair) * fitted.rating_ratio(*pair, np.array([1.0, 0.0]))
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    ratings = world.rating(users, items)
    truth = world.propensity(users, items, ratings)
    assert ones == pytest.approx(truth[ratings == 1].mean(), rel=0.05)
    assert zeros == pytest.approx(truth[ratings == 0].mean(), rel=0.05)
    assert fitted.knows_ratings


@pytest.mark.parametrize(("low", "scale"), [(0, {"positive": 1}), (1, {"positive": None, "rating_scale": (1, 5)})])
def test_naive_bayes_is_schnabels_ratio(low, scale):
    """P(r given seen) / P(r), counted by hand with a prior of two ratings of the log's kind; binary and graded."""
    high = 1 if low == 0 else 4
    log = RatingLog.from_arrays([0, 1, 2, 3], [0, 0, 1, 1], [high, high, high, low], item_ids=range(9), **scale)
    ratings = [high, low, low, low, high, low]
    random = RatingLog.from_arrays([0, 1, 2, 3, 0, 1], [2, 3, 4, 5, 6, 7], ratings, **scale)
    fitted = NaiveBayes(prior=2.0).fit(log, random_ratings=random, training=Training(holdout=0.5))
    zeros, given = np.zeros(2, int), np.unique(log.ratings)
    expected = [0.25 / ((4 + 2 * 0.25) / 8), 0.75 / ((2 + 2 * 0.75) / 8)]
    np.testing.assert_allclose(fitted.rating_ratio(zeros, zeros, given), expected, rtol=1e-6)


class Fixed(FittedPropensity):
    def __init__(self, p):
        self.p = p

    def logits(self, users, items):
        p = self.p + 1e-6 * (users % 7) if self.p < 0.2 else self.p + 0.001 * (users % 7)
        return np.log(p / (1 - p)).astype(np.float32)


def test_logistic_recovers_selection_on_features(featured):
    log, truth = featured
    p = Logistic().fit(log).pair(*_all(log)).reshape(300, 200)
    assert np.abs(p - truth).mean() < 0.02
    assert np.abs(p.mean() - truth.mean()) < 0.005


def test_known_takes_a_function_or_a_column(world):
    log = world.log
    truth = world.propensity(log.users, log.items)
    by_function, by_column = (Known(pairs).fit(log) for pairs in (world.propensity, truth))
    np.testing.assert_allclose(by_column.pair(log.users, log.items), by_function.pair(log.users, log.items))
    order = np.random.default_rng(0).permutation(len(log))
    np.testing.assert_array_equal(by_column.pair(log.users[order], log.items[order]), truth[order])
    assert by_function.answers_unseen
    assert not by_column.answers_unseen


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        (lambda w: NaiveBayes().fit(w.log), ParameterError, "random_ratings=random_log"),
        (lambda w: NaiveBayes().fit(w.log, random_ratings=liked(w.test)), DataError, "imply a propensity above 1"),
        (lambda w: refuse_collapsed(Fixed(0.3), w.log, seed=0), DataError, r"mean of 0.3\d+ over all pairs where"),
        (lambda w: refuse_collapsed(Fixed(0.1), w.log, seed=0), DataError, r"it answers 0\.1 for every pair"),
        (lambda w: Logistic().fit(w.log), DataError, "user_features="),
        (lambda w: column(w).pair(np.zeros(200, int), np.arange(200)), DataError, "pass a function"),
        (lambda w: column(w).logits(np.array([-1]), np.array([0])), DataError, "unknown users or items"),
        (lambda w: repeated([0.1, 0.2, 0.3, 0.1]), DataError, "of one pair have the known propensities 0.1 and 0.3"),
        (lambda w: Known("abc").fit(w.log), DataError, "must be numbers, not 'abc'"),
        (lambda w: column(w).extended(np.array([1])), ParameterError, "do not cover new users"),
        *((lambda w, p=p: known(w, p), DataError, f"is {p}; it must") for p in (0.0, 1.5, np.nan)),
    ],
)
def test_what_cannot_serve_is_refused(world, wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        wrong(world)


def column(world):
    return Known(np.full(len(world.log), 0.1)).fit(world.log)


def liked(log):
    return log.take(log.ratings == 1)


def repeated(p):
    rows = {"user_id": [0, 1, 0, 1], "item_id": [0, 1, 0, 1], "clicked": [1, 0, 0, 1], "time": [0.0, 1.0, 2.0, 3.0]}
    return Known(p).fit(read_log(pa.table(rows), target="click"), training=Training(holdout=0.5))


def known(world, p):
    return Known(lambda users, items: np.full(len(users), p)).fit(world.log).pair(np.array([0]), np.array([0]))


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


# The additive one: margins, maximum likelihood, and counts that would make it infinite


def grid(a, b):
    return expit(a[:, None] + b)


def log_of(seen):
    users, items = np.nonzero(seen)
    ratings = np.arange(len(users)) % 2
    return RatingLog.from_arrays(
        users, items, ratings, positive=1, user_ids=range(seen.shape[0]), item_ids=range(seen.shape[1])
    )


def test_the_fit_is_maximum_likelihood_over_all_pairs():
    rng = np.random.default_rng(0)
    seen = rng.random((12, 9)) < grid(rng.normal(0, 1, 12), rng.normal(-0.5, 1, 9))

    def loss(x):
        z = x[:12, None] + x[12:]
        gap = expit(z) - seen
        return (np.logaddexp(0, z) - seen * z).sum(), np.append(gap.sum(1), gap.sum(0))

    found = minimize(loss, np.zeros(21), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    a, b, _ = solve_margins(seen.sum(1), seen.sum(0))
    np.testing.assert_allclose(grid(a, b), grid(found[:12], found[12:]), atol=1e-6)


def test_nobody_and_nothing_gets_zero_or_one():
    seen = np.zeros((5, 6), bool)
    seen[0] = True
    seen[1:4, 1] = [True, True, False]
    seen[2, 3] = seen[3, 2] = True
    fitted = Additive().fit(log_of(seen))
    p = fitted.pair(*(x.ravel() for x in np.indices(seen.shape))).reshape(seen.shape)
    assert (p > 1e-3).all()
    assert (p < 1 - 1e-3).all()
    assert p.sum() == pytest.approx(seen.sum(), rel=1e-5)
    assert p[0].min() > p[1:].max() > 0.1 > p[4].mean()
    assert fitted.notes == ("2 users without a rating, or with all of them, were counted as half one off.",)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_margins_are_matched_or_the_gap_is_reported(n_users, n_items, seed, density):
    seen = np.random.default_rng(seed).random((n_users, n_items)) < density
    sides = [np.clip(seen.sum(axis), 0.5, n - 0.5) for axis, n in ((1, n_items), (0, n_users))]
    sides = [side * np.clip(seen.sum(), 0.5, seen.size - 0.5) / side.sum() for side in sides]
    a, b, gap = solve_margins(*sides)
    p = grid(a, b)
    left = max(np.abs(p.sum(1) - sides[0]).max(), np.abs(p.sum(0) - sides[1]).max())
    assert left <= gap + 1e-8
    assert gap < 1e-4


def test_new_users_are_as_active_as_their_counts():
    b = np.random.default_rng(0).normal(-2, 1, 50)
    a = activity(np.array([0, 7, 20, 7, 50]), b)
    np.testing.assert_allclose(expit(a[:, None] + b).sum(1), [0.5, 7, 20, 7, 49.5], rtol=1e-6)
    log = simulate(n_users=60, n_items=50, density=0.2, seed=1).log
    longer = Additive().fit(log).extended(np.array([7, 20]))
    for user, count in ((60, 7), (61, 20)):
        assert longer.pair(np.full(50, user), np.arange(50)).sum() == pytest.approx(count, rel=1e-5)
