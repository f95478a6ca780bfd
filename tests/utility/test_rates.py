"""Margins: they are met, and the likelihood they leave is the highest there is."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from unskew.utility.rates import fit_margins, leap

NO_CONTROL = np.empty(0, np.float32), np.zeros(1)


def elements(seed=0, n_groups=6, n_items=5):
    """All pairs of a few users and items, some of them cases; every user and every item has one at least."""
    rng = np.random.default_rng(seed)
    case = rng.random((n_groups, n_items)) < 0.4
    case[np.arange(n_groups), np.arange(n_groups) % n_items] = True
    case[0] = [True, False, True, False, False]
    start = np.arange(0, n_groups * n_items + 1, n_items)
    item = np.tile(np.arange(n_items, dtype=np.int32), n_groups)
    return start, item, np.exp(rng.normal(size=case.size)), case.ravel(), case.sum(1) * 1.0, case.sum(0) * 1.0


def test_expected_and_counted_cases_agree_for_every_group_and_item_where_cases_are_rare():
    start, item, weight, case, groups, items = elements()
    a, b = np.ones(6), np.ones(5)
    fit_margins(start, item, weight, case, groups, items, a, b, True, *NO_CONTROL)
    rate = (np.repeat(a, 5) * b[item] * weight).reshape(6, 5)
    np.testing.assert_allclose(rate.sum(1), groups, rtol=0.03)
    np.testing.assert_allclose(rate.sum(0), items, rtol=0.03)


@pytest.mark.parametrize("rare", [False, True])
def test_no_other_margins_have_a_higher_likelihood(rare):
    start, item, weight, case, groups, items = elements(1)

    def loss(theta):
        rate = np.exp(np.repeat(theta[:6], 5) + theta[6:][item]) * weight
        return -(np.log(rate if rare else np.expm1(rate))[case].sum() - rate.sum())

    found = fit_margins(start, item, weight, case, groups, items, np.ones(6), np.ones(5), rare, *NO_CONTROL)[0]
    assert found == pytest.approx(-minimize(loss, np.zeros(11), method="BFGS").fun, abs=5e-3)


def test_rare_cases_one_a_group_are_a_conditional_logit():
    """The first element of each group is its case: the likelihood is sum log softmax, up to a constant."""
    rng = np.random.default_rng(2)
    n_groups, size, n_items = 40, 4, 6
    item = rng.integers(n_items, size=n_groups * size).astype(np.int32)
    item[: n_items * size : size] = np.arange(n_items)
    weight = np.exp(rng.normal(size=len(item)))
    start, case = np.arange(0, len(item) + 1, size), np.arange(len(item)) % size == 0
    items = np.bincount(item[case], minlength=n_items).astype(float)
    b = np.ones(n_items)
    found = fit_margins(start, item, weight, case, np.ones(n_groups), items, np.ones(n_groups), b, True, *NO_CONTROL)[0]
    scores = (np.log(b[item]) + np.log(weight)).reshape(n_groups, size)
    assert found == pytest.approx(log_softmax(scores, axis=1)[:, 0].sum() - n_groups, abs=5e-3)


def test_groups_and_items_without_a_case_have_no_rate_and_cost_nothing():
    start, item, weight, case, groups, items = elements()
    more_start = np.append(start, start[-1] + 5)
    more = (np.append(item, item[:5]), np.append(weight, np.ones(5)), np.append(case, np.zeros(5, bool)))
    a = np.append(np.ones(6), 0.0)
    got = fit_margins(more_start, *more, np.append(groups, 0.0), items, a, np.ones(5), False, *NO_CONTROL)[0]
    assert got == pytest.approx(
        fit_margins(start, item, weight, case, groups, items, np.ones(6), np.ones(5), False, *NO_CONTROL)[0]
    )
    assert a[-1] == 0


@pytest.mark.parametrize("rare", [False, True])
def test_no_other_margins_and_no_other_gamma_have_a_higher_likelihood(rare):
    start, item, weight, case, groups, items = elements(1)
    control = np.random.default_rng(3).normal(size=len(item)).astype(np.float32)

    def loss(theta):
        rate = np.exp(np.repeat(theta[:6], 5) + theta[6:11][item] + theta[11] * control) * weight
        return -(np.log(rate if rare else np.expm1(rate))[case].sum() - rate.sum())

    best, gamma = minimize(loss, np.zeros(12), method="BFGS"), np.zeros(1)
    margins = start, item, weight.copy(), case, groups, items, np.ones(6), np.ones(5)
    assert fit_margins(*margins, rare, control, gamma)[0] == pytest.approx(-best.fun, abs=0.01)
    assert gamma[0] == pytest.approx(best.x[11], abs=0.05)


def test_a_leap_from_three_steps_of_one_rate_ends_at_their_limit():
    """log b = limit + c q^n: the sum of the geometric series, whatever q; an item without a case stays."""
    limit, gap, q = np.array([0.5, -1.0, 2.0]), np.array([1.0, -0.3, 0.1]), 0.95
    first, second, third = (np.append(np.exp(limit + gap * q**n), 0.0) for n in range(3))
    leap(first, second, third, np.array([3.0, 1.0, 2.0, 0.0]))
    np.testing.assert_allclose(third, np.append(np.exp(limit), 0.0), rtol=1e-9)


def test_leaps_come_nearer_the_highest_likelihood_than_plain_sweeps():
    """Groups of two chain the items, along which plain scaling creeps; a control of zeros does without leaps."""
    n_items = 20
    item = np.repeat(np.arange(n_items, dtype=np.int32), 2)[1:-1].reshape(-1, 2)
    item = np.concatenate([item, item[:, ::-1]]).ravel()
    weight = np.exp(np.random.default_rng(4).normal(size=len(item)))
    start, case = np.arange(0, len(item) + 1, 2), np.arange(len(item)) % 2 == 0
    items, ones = np.bincount(item[case], minlength=n_items).astype(float), np.ones(len(item) // 2)
    margins = start, item, weight, case, ones, items
    a, b = ones.copy(), np.ones(n_items)
    found = fit_margins(*margins, a, b, True, *NO_CONTROL)[0]

    def loss(log_b):
        score = (log_b[item] + np.log(weight)).reshape(-1, 2)
        return len(ones) - log_softmax(score, axis=1)[:, 0].sum()

    top = -minimize(loss, np.zeros(n_items), method="BFGS").fun
    no_leaps = np.zeros(len(item), np.float32), np.zeros(1)
    assert found == pytest.approx(top, abs=5e-3)
    assert fit_margins(*margins, ones.copy(), np.ones(n_items), True, *no_leaps)[0] < top - 5e-3
    assert found == pytest.approx(-loss(np.log(b)), abs=1e-9)
