"""Platt maps: recovered exactly, equal where they must be equal, and never reversing a ranking."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

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
from unskew.errors import ParameterError
from unskew.testing.worlds import listed_view


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


ALL = [GlobalPlatt(), GlobalPlatt(slope=False), UserPlatt()]
ALL += [ExpertPlatt(assignment=assignment) for assignment in ("hard", "expected", "random")]


@pytest.mark.parametrize("spec", ALL, ids=repr)
def test_the_calibrated_mean_is_that_of_the_labels(spec, rng, answers, examples):
    e = examples(labels=rng.random(4000), weights=rng.exponential(size=4000))
    fitted, line = spec.fit(e, rng=rng), np.linspace(-5, 5, 41, dtype=np.float32)
    assert (e.shares * answers(fitted, e)).sum() == pytest.approx(e.target_mean, abs=1e-6)
    for user in (-1, 0, 39):
        assert (np.diff(fitted.calibrated(line, np.full(41, user))) >= 0).all()  # the order stays


@pytest.mark.parametrize("spec", ALL[2:-1], ids=repr)
def test_new_users_are_calibrated_as_unknown_ones(spec, rng, examples):
    fitted = spec.fit(examples(labels=rng.random(4000)), rng=rng)
    longer, s = fitted.extended(np.array([3, 0])), np.linspace(-3, 3, 9, dtype=np.float32)
    for user in (40, 41, -1):
        np.testing.assert_array_equal(longer.calibrated(s, np.full(9, user)), fitted.calibrated(s, np.full(9, -1)))


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


def test_examples_stand_for_all_pairs():
    """Seen pairs at the true base rate for the propensity, ratings weighted by 1/p for the imputation."""
    seen, p, q = np.arange(10) % 3 == 0, np.linspace(0.02, 0.6, 10), np.linspace(0.2, 0.9, 10)
    ratings, roles = np.linspace(0, 1, 10), {"propensity": p, "imputation": q}
    view = listed_view(seen, ratings, roles, clips={"propensity": 0.05}, cells=(2.5, 4.0))
    e = examples_for("propensity", view, 3)
    assert len(e.vectors) == 4
    assert e.weights.tolist() == [2.5] * 4 + [4.0] * 6
    assert e.target_mean == pytest.approx(10 / 34)
    np.testing.assert_allclose(e.logits, logit(np.append(p[seen], p[~seen])))
    e = examples_for("imputation", view, 3)
    np.testing.assert_allclose(e.weights, 1 / np.maximum(p[seen], 0.05))
    np.testing.assert_array_equal(e.labels, ratings[seen])
    np.testing.assert_allclose(e.logits, logit(q[seen]))


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
        assert not GlobalPlatt().fit(labelled(held_out, rng, a=0.4), labelled(held_out, rng, a=0.4), rng=rng).notes
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


def test_examples_of_some_users_are_all_of_theirs(rng, examples):
    e = examples(n=4000, n_users=40)
    assert e.of_some_users(4000, rng) is e
    some = e.of_some_users(1000, rng)
    assert 800 < len(some) <= 1000
    for user in np.unique(some.users):
        np.testing.assert_array_equal(some.logits[some.users == user], e.logits[e.users == user])
