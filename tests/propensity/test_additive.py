"""The additive propensity: margins, maximum likelihood, and counts that would make it infinite."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from unskew.data.log import RatingLog
from unskew.datasets.world import simulate
from unskew.propensity.additive import Additive, activity, solve_margins


def grid(a, b):
    return expit(a[:, None] + b)


def log_of(seen):
    users, items = np.nonzero(seen)
    ratings = np.arange(len(users)) % 2
    return RatingLog.from_arrays(
        users, items, ratings, positive=1, user_ids=range(seen.shape[0]), item_ids=range(seen.shape[1])
    )


def test_all_margins_of_a_log_are_matched():
    rng = np.random.default_rng(1)
    seen = rng.random((300, 200)) < grid(rng.normal(-2, 0.7, 300), rng.normal(0, 0.7, 200))
    log, counts = log_of(seen), (seen.sum(1), seen.sum(0))
    assert min(side.min() for side in counts) > 0
    fitted = Additive().fit(log)
    p = fitted.pair(*(x.ravel() for x in np.indices((300, 200)))).reshape(300, 200)
    np.testing.assert_allclose(p.sum(1), counts[0], rtol=1e-5)
    np.testing.assert_allclose(p.sum(0), counts[1], rtol=1e-5)
    assert fitted.notes == ()


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


def test_the_cost_depends_on_distinct_counts_alone():
    rng = np.random.default_rng(0)
    users = rng.integers(1, 40, 1_000_000)
    items = np.bincount(rng.integers(0, 100_000, users.sum()), minlength=100_000)
    a, b, gap = solve_margins(users, items)
    assert (len(a), len(b)) == (1_000_000, 100_000)
    assert gap < 1e-3
    assert expit(a[0] + b).sum() == pytest.approx(users[0], rel=1e-6)


def test_new_users_are_as_active_as_their_counts():
    b = np.random.default_rng(0).normal(-2, 1, 50)
    a = activity(np.array([0, 7, 20, 7, 50]), b)
    np.testing.assert_allclose(expit(a[:, None] + b).sum(1), [0.5, 7, 20, 7, 49.5], rtol=1e-6)
    log = simulate(n_users=60, n_items=50, density=0.2, seed=1).log
    longer = Additive().fit(log).extended(np.array([7, 20]))
    for user, count in ((60, 7), (61, 20)):
        assert longer.pair(np.full(50, user), np.arange(50)).sum() == pytest.approx(count, rel=1e-5)
