"""Calibration experts: slopes, noise and temperature as specified, and groups of users found."""

from dataclasses import replace

import numpy as np
import pytest

from unskew.calibration import experts
from unskew.calibration.experts import ExpertPlatt, assigned, mixture_slopes, temperature
from unskew.calibration.platt import Examples, GlobalPlatt, UserPlatt
from unskew.errors import ParameterError


def noisy_loss(maps, gate, s, y, w, users, inputs, noise, tau):
    """The cross-entropy of the mixture under given Gumbel noise, in NumPy."""
    scores = (inputs @ gate.T + noise.T) / tau
    beta = np.exp(scores - scores.max(1, keepdims=True))
    beta /= beta.sum(1, keepdims=True)
    p = 1 / (1 + np.exp(-(np.exp(maps[:, 0]) * s[:, None] + maps[:, 1])))
    m = (beta[users] * p).sum(1)
    return -(w * (y * np.log(m) + (1 - y) * np.log(1 - m))).sum()


@pytest.mark.parametrize("tau", [1.0, 0.2])
def test_the_slopes_are_central_differences(tau, rng):
    n, n_users, k = 120, 9, 3
    s, y, w, users = rng.normal(size=n), rng.random(n), rng.random(n), np.sort(rng.integers(n_users, size=n))
    inputs, noise = rng.normal(size=(n_users, 4)), rng.gumbel(size=(k, n_users))
    maps, gate = rng.normal(size=(k, 2)), rng.normal(size=(k, 4))
    beta = assigned(inputs, gate, noise, tau)
    found = mixture_slopes(s, y, w, users, inputs, beta, maps, tau)
    for table, slopes in zip((maps, gate), found, strict=True):
        for place in np.ndindex(table.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = table.copy()
                moved[place] += step
                both = (moved, gate) if table is maps else (maps, moved)
                ends.append(noisy_loss(*both, s, y, w, users, inputs, noise, tau))
            assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_cold_draws_choose_as_often_as_the_assignment(rng):
    """With tau -> 0 the chosen expert is argmax(log alpha + g), whose frequencies are alpha."""
    alpha = np.array([0.5, 0.3, 0.15, 0.05], np.float32)
    noise = -np.log(rng.standard_exponential((4, 40_000), np.float32))
    beta = assigned(np.ones((40_000, 1), np.float32), np.log(alpha)[:, None], noise, np.float32(1e-3))
    np.testing.assert_allclose(np.bincount(beta.argmax(0)) / 40_000, alpha, atol=0.01)
    np.testing.assert_allclose(beta.sum(0), 1, atol=1e-5)


def test_the_temperature_falls_from_one_to_a_thousandth():
    assert [temperature(q) for q in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 10**-1.5, 1e-3])


@pytest.mark.parametrize("assignment", ["hard", "expected", "random"])
def test_one_expert_is_the_global_map(assignment, rng, answers, examples):
    """In a single fit and in one after an epoch, and whether or not it steps back."""
    for labels in (rng.random(4000), None):
        e = examples(a=0.5, b=0.3, labels=labels)
        one, everybody = ExpertPlatt(n_experts=1, assignment=assignment), GlobalPlatt()
        for planned in (1.0, 0.2):
            found = [
                answers(spec.fit(e, rng=np.random.default_rng(2), planned=planned), e) for spec in (one, everybody)
            ]
            np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_experts_find_groups_that_err_in_different_ways(seed, answers, grouped):
    e, truth, group = grouped(seed)
    errors, specs = {}, {"experts": ExpertPlatt(n_experts=2), "global": GlobalPlatt(), "user": UserPlatt()}
    for name, spec in specs.items():
        fitted = spec.fit(e, rng=np.random.default_rng(seed))
        errors[name] = np.abs(answers(fitted, e) - truth).mean()
    assert errors["experts"] < 0.6 * errors["global"]
    assert errors["experts"] < 0.8 * errors["user"]
    slopes = specs["experts"].fit(e, rng=np.random.default_rng(seed)).state()["slopes"][:-1, 0]
    agreement = ((slopes > slopes.mean()) == (group == 0)).mean()
    assert agreement > 0.95


@pytest.mark.parametrize("n", [350, 6000])
@pytest.mark.parametrize("seed", range(3))
def test_order_and_rounding_do_not_choose_the_experts(n, seed, answers, grouped):
    """Refits as after epochs, on few examples and on many, with five experts for two groups of users."""
    e, _, _ = grouped(seed, n=n)
    order, spec = np.random.default_rng(9).permutation(n), ExpertPlatt(step_back=False)
    scaled = (replace(e, vectors=e.vectors * np.float32(by)) for by in (1 + 1e-6, 64))
    found = []
    for changed in (e, e.take(order), *scaled):
        fitted = None
        for planned in (0.1, 0.2, 0.3):
            fitted = spec.fit(changed, rng=np.random.default_rng(seed), planned=planned, previous=fitted)
        found += [answers(fitted, e), answers(spec.fit(changed, rng=np.random.default_rng(seed)), e)]
    for number in range(2, 8):
        assert np.abs(found[number] - found[number % 2]).mean() < (1e-9 if number < 4 else 0.005)


def test_each_fit_ends_cold_and_hard(monkeypatch, rng, grouped):
    e, _, _ = grouped(0)
    taus = []
    monkeypatch.setattr(experts, "mixture_slopes", lambda *given: taus.append(given[-1]) or mixture_slopes(*given))
    fitted = ExpertPlatt(steps=40, step_back=False).fit(e, rng=rng)
    later = ExpertPlatt(steps_per_epoch=20, step_back=False).fit(e, rng=rng, planned=0.1, previous=fitted)
    assert [len(taus), taus[39], taus[59]] == [60, pytest.approx(1e-3), pytest.approx(1e-3)]
    assert taus[0] > 0.5 < taus[40]
    assert later.state()["weights"].shape == (1, 1)


def test_a_collapsed_assignment_is_counted_and_noted(rng, grouped):
    e, _, _ = grouped(0)
    blind = Examples(e.logits, e.labels, e.weights, e.users, np.zeros_like(e.vectors))
    fitted = ExpertPlatt(n_experts=3, step_back=False).fit(blind, rng=rng)
    assert fitted.collapsed
    assert "collapsed" in fitted.notes[0]
    seeing = ExpertPlatt(n_experts=2).fit(e, rng=rng)
    assert not seeing.collapsed
    assert seeing.entropy > 0.5
    assert seeing.usage.sum() == pytest.approx(1)


def test_random_experts_stay_with_their_users(rng, examples):
    e = examples(n=3000, n_users=200, labels=rng.integers(0, 2, 3000).astype(float))
    spec = ExpertPlatt(n_experts=4, assignment="random", step_back=False)
    first = spec.fit(e, rng=np.random.default_rng(1))
    later = spec.fit(e, rng=np.random.default_rng(1), planned=0.5, previous=first)
    before, after = (fitted.state()["intercepts"][:-1, 0] for fitted in (first, later))
    np.testing.assert_array_equal(before, after)
    assert len(before) == 200
    shares = np.unique(before, return_counts=True)[1] / 200
    assert len(shares) == 4
    assert (abs(shares - 0.25) < 0.12).all()


def test_parameters_are_counted(grouped):
    e, _, _ = grouped(0)
    assert ExpertPlatt(n_experts=5, steps=1).fit(e, rng=np.random.default_rng(0)).n_parameters == 5 * (2 + 3)
    assert GlobalPlatt().fit(e, rng=np.random.default_rng(0)).n_parameters == 2
    assert UserPlatt(step_back=False).fit(e, rng=np.random.default_rng(0)).n_parameters == 2 * 200


@pytest.mark.parametrize("setting", [{"ridge": -0.1}, {"shrinkage": -0.1}, {"n_experts": 0}, {"learning_rate": 0.0}])
def test_settings_out_of_range_are_refused(setting):
    ExpertPlatt(ridge=0.0, shrinkage=0.0, n_experts=1, steps=1, steps_per_epoch=1)
    with pytest.raises(ParameterError, match=f"{next(iter(setting))} of ExpertPlatt must be a number"):
        ExpertPlatt(**setting)
