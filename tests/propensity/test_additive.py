"""The additive propensity: margins, maximum likelihood, and the corners where it is infinite."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import unskew
from unskew.propensity.additive import solve_margins


def grid(a, b):
    return expit(a[:, None] + b)


def counts(seen):
    return seen.sum(1).astype(np.int64), seen.sum(0).astype(np.int64)


def test_all_margins_of_a_simulated_log_are_matched():
    log = unskew.simulate(n_users=300, n_items=200, density=0.05, selection="popularity", seed=1).log
    fitted = unskew.Additive().fit(log)
    users, items = np.meshgrid(np.arange(300), np.arange(200), indexing="ij")
    p = fitted.pair(users.ravel(), items.ravel()).reshape(300, 200)
    np.testing.assert_allclose(p.sum(1), np.bincount(log.users, minlength=300), atol=1e-6)
    np.testing.assert_allclose(p.sum(0), np.bincount(log.items, minlength=200), atol=1e-6)


def test_the_fit_equals_gradient_descent_on_every_pair_of_a_small_matrix():
    rng = np.random.default_rng(0)
    seen = rng.random((12, 9)) < grid(rng.normal(0, 1, 12), rng.normal(-0.5, 1, 9))
    a = torch.zeros(12, 1, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, 9, dtype=torch.float64, requires_grad=True)
    target = torch.from_numpy(seen.astype(np.float64))
    optimiser = torch.optim.LBFGS([a, b], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16)

    def closure():
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(a + b, target, reduction="sum")
        loss.backward()
        return loss

    optimiser.step(closure)
    ours = grid(*solve_margins(*counts(seen))[:2])
    np.testing.assert_allclose(ours, torch.sigmoid(a + b).detach().numpy(), atol=1e-6)


def test_users_and_items_without_ratings_or_with_all_of_them_get_zero_or_one():
    seen = np.zeros((5, 6), bool)
    seen[0] = True
    seen[1:4, 1] = [True, True, False]
    seen[2, 3] = seen[3, 2] = True
    a, b, gap = solve_margins(*counts(seen))
    p = grid(a, b)
    np.testing.assert_allclose(p[0], 1)
    np.testing.assert_allclose(p[4], 0)
    np.testing.assert_allclose(p.sum(1), seen.sum(1), atol=1e-6)
    assert gap <= 1e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_margins_are_matched_or_the_gap_is_reported(n_users, n_items, seed, density):
    seen = np.random.default_rng(seed).random((n_users, n_items)) < density
    a, b, gap = solve_margins(*counts(seen))
    p = grid(a, b)
    left = max(np.abs(p.sum(1) - seen.sum(1)).max(), np.abs(p.sum(0) - seen.sum(0)).max())
    assert left <= gap + 1e-8
    assert gap < 1e-4


def test_the_cost_depends_on_distinct_counts_and_not_on_the_catalogue():
    rng = np.random.default_rng(0)
    users = rng.integers(1, 40, 1_000_000)
    items = np.bincount(rng.integers(0, 100_000, users.sum()), minlength=100_000)
    a, b, gap = solve_margins(users, items)
    assert (len(a), len(b)) == (1_000_000, 100_000)
    assert gap < 1e-3
    assert expit(a[0] + b).sum() == pytest.approx(users[0], rel=1e-6)
