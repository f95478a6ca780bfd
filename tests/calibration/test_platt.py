"""Platt maps: recovered exactly, equal where they must be equal, and never turning a ranking round."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit

from unskew.calibration.chance import RandomPlatt
from unskew.calibration.descent import noisy_assignment
from unskew.calibration.experts import ExpertBatch, ExpertPlatt, Mixture, solve_experts, temperature
from unskew.calibration.maps import GlobalPlatt, UserPlatt
from unskew.calibration.platt import SMALLEST_SLOPE, Examples, solve_platt


def examples(n=4000, n_users=40, a=1.0, b=0.0, seed=0, labels=None, weights=None):
    """Logits whose calibrated probability is sigmoid(a s + b); a and b may be one value a user."""
    rng = np.random.default_rng(seed)
    users = rng.integers(n_users, size=n)
    s = rng.normal(-1, 1.5, n)
    a, b = (np.broadcast_to(x, n_users)[users] for x in (a, b))
    labels = expit(a * s + b) if labels is None else labels
    weights = np.ones(n) if weights is None else weights
    vectors = rng.normal(size=(n_users, 3)).astype(np.float32)
    return Examples(s, labels, weights, users, vectors, np.arange(n_users))


def said(fitted, e):
    mix, a, b = fitted.maps(e.user_codes[e.users], e.vectors[e.users])
    return (mix * expit(a * e.logits[:, None] + b)).sum(1)


def rng():
    return np.random.default_rng(1)


def test_newton_recovers_the_map_that_made_the_labels():
    a, b = solve_platt(examples(a=0.4, b=-1.3))
    assert (a[0], b[0]) == (pytest.approx(0.4, abs=1e-8), pytest.approx(-1.3, abs=1e-8))


def test_newton_agrees_with_a_general_optimiser_under_weights_and_noise():
    e = examples(
        labels=np.random.default_rng(3).integers(0, 2, 4000).astype(float),
        weights=np.random.default_rng(4).exponential(size=4000),
    )

    def loss(x):
        z = x[0] * e.logits + x[1]
        return (e.weights * (np.logaddexp(0, z) - e.labels * z)).sum()

    found = minimize(loss, [1.0, 0.0], tol=1e-12).x
    if found[0] > SMALLEST_SLOPE:
        np.testing.assert_allclose(np.concatenate(solve_platt(e)), found, atol=1e-4)
    else:
        assert solve_platt(e)[0][0] == pytest.approx(SMALLEST_SLOPE)


def test_slopes_stay_positive_when_the_data_ask_for_the_opposite():
    a, b = solve_platt(examples(a=-1.0))
    assert a[0] == pytest.approx(SMALLEST_SLOPE)
    assert np.isfinite(b[0])


def test_the_calibrated_mean_equals_the_weighted_mean_of_the_labels():
    e = examples(labels=np.random.default_rng(3).random(4000), weights=np.random.default_rng(4).exponential(size=4000))
    for recipe in (
        GlobalPlatt(),
        GlobalPlatt(slope=False),
        UserPlatt(),
        ExpertPlatt(),
        ExpertPlatt(assignment="expected"),
    ):
        p = said(recipe.fit(e, generator=rng()), e)
        assert np.average(p, weights=e.weights) == pytest.approx(np.average(e.labels, weights=e.weights), abs=1e-8)


def test_groups_are_solved_as_if_each_were_alone():
    e = examples(a=np.linspace(0.3, 2, 40), b=np.linspace(-1, 1, 40))
    a, b = solve_platt(e, e.users, 40)
    for user in (0, 17, 39):
        alone = solve_platt(e.take(np.flatnonzero(e.users == user)))
        np.testing.assert_allclose([a[user], b[user]], np.concatenate(alone), atol=1e-6)


def test_the_ridge_draws_a_users_map_to_the_global_one():
    e = examples(n=400, a=np.linspace(0.3, 2, 40))
    a, _ = solve_platt(e)
    heavy, light = (UserPlatt(ridge=r).fit(e, generator=rng()) for r in (1e9, 1e-6))
    np.testing.assert_allclose(heavy.slopes, a[0], atol=1e-4)
    assert np.abs(light.slopes - a[0]).max() > 0.3


def test_a_user_without_examples_has_the_global_map():
    e = examples()
    fitted = UserPlatt().fit(e, generator=rng())
    _, a, b = fitted.maps(np.array([999]), np.zeros((1, 3), np.float32))
    assert (a[0, 0], b[0, 0]) == fitted.common


def test_one_expert_is_the_global_map():
    e = examples(labels=np.random.default_rng(3).random(4000))
    one, everybody = ExpertPlatt(n_experts=1).fit(e, generator=rng()), GlobalPlatt().fit(e, generator=rng())
    np.testing.assert_allclose(said(one, e), said(everybody, e), atol=1e-12)


def test_an_expert_for_each_user_is_the_user_specific_map():
    e = examples(labels=np.random.default_rng(3).random(4000))
    common = tuple(float(x[0]) for x in solve_platt(e))
    slopes, intercepts = solve_experts(e, np.arange(40), 40, 1.0, common)
    users = UserPlatt(ridge=1.0).fit(e, generator=rng())
    np.testing.assert_array_equal(slopes, users.slopes)
    shift = users.intercepts - intercepts  # the one thing UserPlatt adds: the same for everybody, and small
    np.testing.assert_allclose(shift, shift[0], atol=1e-12)
    assert abs(shift[0]) < 0.05


def grouped(seed, n_users=200, n=6000):
    """Two groups of users, visible in their vectors, whose model is over- and under-confident."""
    rng = np.random.default_rng(seed)
    group = np.arange(n_users) % 2
    e = examples(n, n_users, a=np.where(group, 0.4, 1.8), b=np.where(group, -1.0, 0.5), seed=seed)
    vectors = np.column_stack([group * 2 - 1 + rng.normal(0, 0.3, n_users), rng.normal(size=n_users)]).astype(
        np.float32
    )
    labels = (rng.random(n) < e.labels).astype(float)
    return Examples(e.logits, labels, e.weights, e.users, vectors, e.user_codes), e.labels, group


@pytest.mark.parametrize("seed", range(3))
def test_experts_find_groups_whose_model_errs_in_different_ways(seed):
    e, truth, group = grouped(seed)
    errors = {
        name: np.abs(said(recipe.fit(e, generator=np.random.default_rng(seed)), e) - truth).mean()
        for name, recipe in [("experts", ExpertPlatt(n_experts=2)), ("global", GlobalPlatt()), ("user", UserPlatt())]
    }
    assert errors["experts"] < 0.6 * errors["global"]
    assert errors["experts"] < 0.8 * errors["user"]
    alpha = ExpertPlatt(n_experts=2).fit(e, generator=np.random.default_rng(seed)).assignment(e.vectors)
    agreement = (alpha.argmax(1) == group).mean()
    assert max(agreement, 1 - agreement) > 0.95


def test_experts_at_rest_are_deterministic_and_without_noise():
    e, _, _ = grouped(0)
    fitted = ExpertPlatt(n_experts=4).fit(e, generator=rng())
    np.testing.assert_array_equal(said(fitted, e), said(fitted, e))
    again = ExpertPlatt(n_experts=4).fit(e, generator=rng())
    np.testing.assert_array_equal(said(fitted, e), said(again, e))


def test_the_temperature_falls_exponentially_from_one_to_a_thousandth():
    assert [temperature(q) for q in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 10**-1.5, 1e-3])


def test_experts_are_a_mixture_while_warm_and_a_choice_once_cold():
    e, _, _ = grouped(0)
    warm = ExpertPlatt().fit(e, generator=rng(), planned=0.1)
    assert not warm.hard
    cold = ExpertPlatt().fit(e, generator=rng(), planned=0.9, previous=warm)
    assert cold.hard
    assert not ExpertPlatt(assignment="expected").fit(e, generator=rng()).hard


def test_experts_go_on_from_where_they_were():
    e, truth, _ = grouped(1)
    recipe, fitted, generator = ExpertPlatt(n_experts=2), None, rng()
    gaps = []
    for epoch in range(1, 16):
        fitted = recipe.fit(e, generator=generator, planned=epoch / 100, previous=fitted)
        gaps.append(np.abs(said(fitted, e) - truth).mean())
    assert gaps[-1] < 0.5 * gaps[0]


def test_the_last_planned_epoch_takes_as_many_steps_as_any_other():
    e, _, _ = grouped(0)
    fitted = ExpertPlatt(steps_per_epoch=7).fit(e, generator=rng(), planned=0.5)
    last = ExpertPlatt(steps_per_epoch=7).fit(e, generator=rng(), planned=1.0, previous=fitted)
    assert last.mixture.maps.steps.tolist() == [14.0] * 5


def test_cold_gumbel_draws_choose_experts_as_often_as_the_assignment_says():
    """With tau -> 0 the chosen expert is argmax(log alpha + g), whose frequencies are alpha (acceptance test 9)."""
    alpha = np.array([0.5, 0.3, 0.15, 0.05], np.float32)
    noise = rng().standard_exponential((40_000, 4), dtype=np.float32)
    beta = noisy_assignment(np.tile(np.log(alpha), (40_000, 1)), noise, np.float32(1e-3))
    np.testing.assert_allclose(np.bincount(beta.argmax(1)) / 40_000, alpha, atol=0.01)
    np.testing.assert_allclose(beta.sum(1), 1, atol=1e-5)


def objectives(recipe, mixed, batch):
    """What the recipes minimise, for PyTorch to differentiate."""
    y, w = torch.from_numpy(batch.labels), torch.from_numpy(batch.weights)
    return -(w * (y * mixed.log() + (1 - y) * (1 - mixed).log())).sum()


@pytest.mark.parametrize("recipe", [ExpertPlatt(n_experts=3), ExpertPlatt(n_experts=3, shrinkage=0.0)], ids=repr)
def test_a_step_of_the_experts_follows_the_derivative_that_pytorch_finds(recipe):
    e = examples(n=300, n_users=20, labels=np.random.default_rng(3).integers(0, 2, 300).astype(float))
    batch = ExpertBatch.of(e, (0.8, -0.2))
    mixture = Mixture.start(3, 0.8, -0.2, batch.vectors, rng())
    inputs, tau = mixture.inputs(batch.vectors), 0.7
    maps, gate = (table.value.clone().requires_grad_() for table in (mixture.maps, mixture.gate))
    noise = -torch.log(torch.from_numpy(rng().standard_exponential((20, 3), dtype=np.float32)))
    beta = torch.softmax((inputs @ gate.T + noise) / tau, 1)
    said = torch.sigmoid(maps[:, 0].exp() * torch.from_numpy(batch.logits).unsqueeze(1) + maps[:, 1])
    loss = objectives(recipe, (beta[torch.from_numpy(batch.users)] * said).sum(1), batch)
    away = (maps - torch.from_numpy(batch.common)).square().sum() + gate.square().sum()
    (loss + recipe.shrinkage / batch.effective_size / 2 * away).backward()
    mixture.descend(batch, [tau], recipe, rng())
    for table, expected in ((mixture.maps, maps.grad), (mixture.gate, gate.grad)):
        torch.testing.assert_close(table.first_moment / 0.1, expected, atol=1e-6, rtol=1e-3)


def test_what_is_said_of_known_users_is_what_their_vectors_say():
    e = examples(n_users=40)
    fitted = ExpertPlatt(assignment="expected", steps=20).fit(e, generator=rng())

    class Role:
        def user_vectors(self, users):
            return torch.from_numpy(e.vectors)[users]

    logits, users = torch.linspace(-3, 3, 40), torch.arange(40).flip(0)
    tables = fitted.tables(Role(), np.arange(40))
    torch.testing.assert_close(fitted.looked_up(logits, users, tables), fitted.calibrated(logits, users, Role()))


def test_a_collapsed_assignment_is_counted_and_said():
    e, _, _ = grouped(0)
    blind = Examples(e.logits, e.labels, e.weights, e.users, np.zeros_like(e.vectors), e.user_codes)
    fitted = ExpertPlatt(n_experts=3).fit(blind, generator=rng())
    assert fitted.collapsed
    assert "collapsed" in fitted.notes[0]
    seeing = ExpertPlatt(n_experts=2).fit(e, generator=rng())
    assert not seeing.collapsed
    assert seeing.entropy > 0.5
    assert seeing.usage.sum() == pytest.approx(1)


def test_examples_of_some_users_are_all_of_theirs_and_about_as_many_as_asked_for():
    e = examples(n=4000, n_users=40)
    assert e.of_some_users(4000, rng()) is e
    some = e.of_some_users(1000, rng())
    assert 800 < len(some) <= 1000
    for place, code in enumerate(some.user_codes):
        np.testing.assert_array_equal(some.logits[some.users == place], e.logits[e.users == code])
        np.testing.assert_array_equal(some.vectors[place], e.vectors[code])


def test_maps_dealt_at_random_are_the_global_map_where_there_is_one_and_stay_with_their_users():
    e = examples(n=3000, n_users=200, labels=np.random.default_rng(3).integers(0, 2, 3000).astype(float))
    one = RandomPlatt(n_experts=1).fit(e, generator=rng())
    np.testing.assert_allclose(said(one, e), said(GlobalPlatt().fit(e, generator=rng()), e), atol=1e-6)
    first = RandomPlatt(n_experts=4).fit(e, generator=rng())
    later = RandomPlatt(n_experts=4).fit(e, generator=rng(), planned=0.5, previous=first)
    users = np.arange(200)
    (_, _, before), (_, _, after) = (fitted.maps(users, e.vectors) for fitted in (first, later))
    np.testing.assert_allclose(before, after, atol=1e-9)
    shares = np.unique(before, return_counts=True)[1] / 200
    assert len(shares) == 4
    assert (abs(shares - 0.25) < 0.12).all()
    assert said(first, e).mean() == pytest.approx(e.labels.mean(), abs=1e-6)
