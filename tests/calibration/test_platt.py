"""Platt maps: recovered exactly, equal where they must be equal, and never reversing a ranking."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import (
    SMALLEST_SLOPE,
    GlobalPlatt,
    PlattMaps,
    UserPlatt,
    examples_for,
    scalar_platt,
    solve_platt,
)
from unskew.data.feed import Batch, Block, Chunk
from unskew.errors import ParameterError
from unskew.losses.batch import Parts, View
from unskew.nets.base import Part


def test_newton_recovers_the_map_behind_the_labels(examples):
    assert scalar_platt(examples(a=0.4, b=-1.3)) == pytest.approx((0.4, -1.3), abs=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_newton_agrees_with_a_general_optimiser(ridge, rng, examples):
    e = examples(a=0.7, b=0.3, weights=rng.exponential(size=4000))
    labels = (rng.random(4000) < e.labels).astype(float)
    e = examples(labels=labels, weights=e.weights)
    w, centre = e.weights / e.weights.mean(), (0.5, 0.1)

    def loss(x):
        z = x[0] * e.logits + x[1]
        return (w * (np.logaddexp(0, z) - labels * z)).sum() + ridge / 2 * ((x - np.array(centre)) ** 2).sum()

    found = minimize(loss, [1.0, 0.0], tol=1e-12).x
    ours = solve_platt(e, ridge=ridge, centre=centre)
    np.testing.assert_allclose(np.concatenate(ours), found, atol=1e-5)


def test_slopes_stay_positive_against_the_data(examples):
    a, b = scalar_platt(examples(a=-1.0))
    assert a == pytest.approx(SMALLEST_SLOPE)
    assert np.isfinite(b)


ALL = [
    GlobalPlatt(),
    GlobalPlatt(slope=False),
    UserPlatt(),
    ExpertPlatt(),
    ExpertPlatt(assignment="expected"),
    ExpertPlatt(assignment="random"),
]


@pytest.mark.parametrize("spec", ALL, ids=repr)
def test_the_calibrated_mean_is_that_of_the_labels(spec, rng, answers, examples):
    e = examples(labels=rng.random(4000), weights=rng.exponential(size=4000))
    fitted = spec.fit(e, rng=rng)
    assert (e.shares * answers(fitted, e)).sum() == pytest.approx(e.target_mean, abs=1e-6)


@pytest.mark.parametrize("spec", ALL, ids=repr)
def test_the_state_gives_the_same_bits_again(spec, rng, examples):
    e = examples(labels=rng.random(4000))
    fitted = spec.fit(e, rng=rng)
    again = spec.from_state(fitted.state())
    logits, users = rng.normal(size=300).astype(np.float32), rng.integers(-1, 40, 300).astype(np.int32)
    np.testing.assert_array_equal(again.calibrated(logits, users), fitted.calibrated(logits, users))
    assert again.n_parameters == fitted.n_parameters


@pytest.mark.parametrize("spec", ALL, ids=repr)
def test_new_users_are_calibrated_as_unknown_ones(spec, rng, examples):
    e = examples(labels=rng.random(4000))
    fitted = spec.fit(e, rng=rng)
    longer, s = fitted.extended(np.array([3, 0]), 7), np.linspace(-3, 3, 9, dtype=np.float32)
    for user in (40, 41, -1):
        np.testing.assert_array_equal(longer.calibrated(s, np.full(9, user)), fitted.calibrated(s, np.full(9, -1)))
    np.testing.assert_array_equal(longer.calibrated(s, np.full(9, 39)), fitted.calibrated(s, np.full(9, 39)))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_a_mixture_of_maps_is_its_formula(dtype, tolerance, rng):
    tables = [rng.normal(size=(rows, 3)).astype(np.float32) for rows in (6, 6, 1)]
    s, users = rng.normal(0, 20, 500).astype(dtype), rng.integers(-1, 5, 500)
    w, a, b = (table[users % len(table)] for table in tables)
    expected = (w * expit(a * np.clip(s.astype(float), -30, 30)[:, None] + b)).sum(1)
    found = PlattMaps(*tables, 0).calibrated(s, users)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_groups_are_solved_as_if_each_were_alone(examples):
    e = examples(a=np.linspace(0.3, 2, 40), b=np.linspace(-1, 1, 40))
    a, b = solve_platt(e, e.users, 40)
    for user in (0, 17, 39):
        alone = solve_platt(e.take(np.flatnonzero(e.users == user)))
        np.testing.assert_allclose([a[user], b[user]], np.concatenate(alone), atol=1e-6)


def test_the_ridge_draws_users_to_the_global_map(rng, examples):
    e = examples(n=400, a=np.linspace(0.3, 2, 40))
    a, _ = scalar_platt(e)
    heavy, light = (UserPlatt(ridge=r, step_back=False).fit(e, rng=rng).state()["slopes"] for r in (1e9, 1e-6))
    np.testing.assert_allclose(heavy, a, atol=1e-4)
    assert np.abs(light - a).max() > 0.3
    with pytest.raises(ParameterError, match=r"ridge of UserPlatt .* not -1"):
        UserPlatt(ridge=-1)


def test_a_user_without_examples_has_the_global_map(rng, examples):
    e = examples(labels=rng.random(4000)).take(np.arange(20))
    missing = np.setdiff1d(np.arange(-1, 40), e.users)
    s = np.linspace(-3, 3, len(missing), dtype=np.float32)
    ours, common = (
        spec.fit(e, rng=rng).calibrated(s, missing)
        for spec in (UserPlatt(step_back=False), GlobalPlatt(step_back=False))
    )
    np.testing.assert_array_equal(ours, common)


class Constant(Part):
    """Logits by a rule, and users whose codes are their vectors."""

    def __init__(self, logits):
        self._logits = logits

    def logits(self, users, items):
        return self._logits(users, items).astype(np.float32)

    def user_vectors(self, users):
        return users[:, None].astype(np.float32)


@pytest.fixture
def tiny():
    """Six users and four items: ten seen pairs, four of them held out; all pairs are sampled."""
    users, items = np.divmod(np.arange(24), 4)
    seen = np.random.default_rng(0).permutation(np.repeat([1.0, 0.0], [10, 14])).astype(np.float32)
    rows = np.flatnonzero(seen)[:4]
    observed = Block(users[rows], items[rows], ratings=np.array([1, 0, 1, 0.5], np.float32))
    batch = Batch(Chunk(observed, slice(None), 10 / 4), Chunk(Block(users, items, seen=seen), slice(None), 1.0))
    parts = {
        "propensity": Constant(lambda u, i: 0.5 * u - i - 1.0),
        "imputation": Constant(lambda u, i: 0.2 * i - 0.1 * u),
    }
    return View(Parts(parts, clips={"propensity": 0.05}), batch, 24.0)


def test_propensity_examples_have_the_true_base_rate(tiny):
    e = examples_for("propensity", tiny, 6)
    assert len(e) == 4 + 14
    assert e.target_mean == pytest.approx(10 / 24)
    assert e.weights.tolist() == [2.5] * 4 + [1.0] * 14
    np.testing.assert_array_equal(e.vectors[:, 0], [0, 1, 2, 3, 4, 5, -1])


def test_imputation_examples_weigh_one_over_the_propensity(tiny):
    e = examples_for("imputation", tiny, 6)
    p = np.maximum(expit(tiny.observed.logits("propensity").astype(float)), 0.05)
    np.testing.assert_allclose(e.weights, 1 / p, rtol=1e-6)
    np.testing.assert_array_equal(e.labels, [1, 0, 1, 0.5])
    np.testing.assert_array_equal(e.logits, tiny.observed.logits("imputation"))


def labelled(e, rng, a=1.0, b=0.0):
    return replace(e, labels=(rng.random(len(e)) < expit(a * e.logits + b)).astype(float))


def test_a_calibrator_that_makes_things_worse_steps_back(rng, examples, answers):
    """Users who are alike, with few ratings each: a map for each user memorises them."""
    spec = UserPlatt(ridge=0.01)
    for move, word in ((0.0, "no calibration"), (2.0, "a shift of the logit")):
        e, held_out = labelled(examples(n=300, n_users=100), rng, b=move), examples(b=move, seed=1)
        first = spec.fit(e, held_out, rng=rng)
        expected = expit(e.logits + (first.state()["intercepts"][0, 0] if move else 0.0))
        np.testing.assert_allclose(answers(first, e), expected, atol=1e-6)
        assert f"{word} takes its place" in first.notes[0]
        assert not replace(spec, step_back=False).fit(e, held_out, rng=rng).notes
        assert spec.fit(e.take(rng.permutation(300)), held_out, rng=rng).notes == first.notes


def test_what_was_stepped_back_from_is_tried_again(rng, examples):
    """At its fits 2, 4, 8 and so on, though by then it would help."""
    alike, differing = (labelled(examples(n=4000, seed=2), rng, a=a) for a in (1.0, 0.2))
    spec, few = GlobalPlatt(), alike.take(np.arange(8))
    fitted, tried = spec.fit(few, alike, rng=rng, planned=0.1), []
    assert fitted.stepped_back
    for number in range(2, 9):
        examples_now = few if number == 2 else differing
        fitted = spec.fit(examples_now, alike if number == 2 else differing, rng=rng, planned=0.2, previous=fitted)
        tried.append(not fitted.stepped_back)
    assert tried == [False, False, True, True, True, True, True]


def test_a_calibrator_that_helps_stays(rng, examples):
    e, held_out = (labelled(examples(seed=seed), rng, a=0.4, b=-1.0) for seed in (0, 1))
    fitted = GlobalPlatt().fit(e, held_out, rng=rng)
    assert fitted.notes == ()
    assert fitted.n_parameters == 2


def test_examples_of_some_users_are_all_of_theirs(rng, examples):
    e = examples(n=4000, n_users=40)
    assert e.of_some_users(4000, rng) is e
    some = e.of_some_users(1000, rng)
    assert 800 < len(some) <= 1000
    for user in np.unique(some.users):
        np.testing.assert_array_equal(some.logits[some.users == user], e.logits[e.users == user])
