"""Each method's loss against a slow, independent computation of its formula on a full small matrix, in NumPy."""

import numpy as np
import pytest
import torch

import unskew
from unskew.methods.multiple import Shares, candidates, solve_shares
from unskew.risk.errors import log_error
from unskew.risk.joint import balance, worst_weights
from unskew.testing.enumeration import listed_view, patterns

RNG = np.random.default_rng(3)
N = 8
SEEN = np.array([True, False, True, True, False, True, True, False])
P = RNG.uniform(0.2, 0.9, N)
P2 = np.clip(P * RNG.uniform(0.6, 1.4, N), 0.05, 0.95)
R = RNG.integers(0, 2, N).astype(float)
PREDICTION, IMPUTATION, OTHER, THIRD = RNG.uniform(0.1, 0.9, (4, N))
ROLES = {
    "prediction": PREDICTION,
    "imputation": IMPUTATION,
    "second_imputation": OTHER,
    "propensity": P,
    "second_propensity": P2,
    "benchmark": OTHER,
    "benchmark_imputation": THIRD,
    "first_labeller": OTHER,
    "second_labeller": THIRD,
}


def view(learning=(), **changed):
    return listed_view(SEEN, R, {**ROLES, **changed}, log_error, frozenset(learning))


def e(r, y):
    return -y * np.log(r) - (1 - y) * np.log(1 - r)


W, W2 = 1 / P, 1 / P2
ERROR, IMPUTED = e(PREDICTION, R), e(PREDICTION, IMPUTATION)
STAKE = np.log((1 - PREDICTION) / PREDICTION)
SEEN_LIKELIHOOD = -np.log(np.where(SEEN, P, 1 - P)).mean()


def brier(weight, imputation=IMPUTATION, stake=STAKE):
    """The imputation loss per mean stake: a mean of (r - r_imputed)^2 weighted by weight (e1 - e0)^2."""
    w = (weight * stake**2)[SEEN]
    return (w * (R - imputation)[SEEN] ** 2).sum() / w.sum()


def doubly_robust(weight, error=ERROR, imputed=IMPUTED):
    return (imputed + SEEN * weight * (error - imputed)).mean()


def test_cvib_adds_contrast_of_means_and_symmetric_negative_entropy():
    m_o, m_d = PREDICTION[SEEN].mean(), PREDICTION.mean()
    contrast = -m_o * np.log(m_d) - (1 - m_o) * np.log(1 - m_d)
    r = PREDICTION[SEEN]
    entropy = (r * np.log(r) + (1 - r) * np.log(1 - r)).mean()
    by_hand = ERROR[SEEN].mean() + 0.3 * contrast + 0.2 * entropy
    assert unskew.CVIB(contrast=0.3, confidence=0.2).loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_at_learns_the_first_labellers_word_only_where_the_two_agree():
    tolerance = float(np.median(np.abs(OTHER - THIRD)))
    agreed = np.abs(OTHER - THIRD) <= tolerance
    by_hand = e(PREDICTION, OTHER)[agreed].mean()
    assert unskew.AT(tolerance=tolerance).labelled("prediction")(view()).item() == pytest.approx(by_hand, abs=1e-9)
    none = unskew.AT(tolerance=1e-9).labelled("prediction")(view())
    assert none.item() == 0.0


@pytest.mark.parametrize(
    ("method", "weight"),
    [
        (unskew.DRJL(), W),
        (unskew.MRDR(), (1 - P) / P**2),
        (unskew.DRMSE(trade_off=0.25), 0.25 * (1 - P) ** 2 / P**3 + 0.75 * (1 - P) / P**2),
        (unskew.DRMSE(trade_off=1.0), (1 - P) ** 2 / P**3),
        (unskew.StableDR(), W),
        (unskew.StableDR(imputation="mrdr"), (1 - P) / P**2),
    ],
    ids=repr,
)
def test_imputation_weights_are_those_of_the_papers(method, weight):
    assert method.imputation_loss(view()).item() == pytest.approx(brier(weight), abs=1e-9)


def test_collaborative_targeting_with_mrdr_weights_is_both():
    weight, h = (1 - P) / P**2, 1 / P - 1
    epsilon = (h * (ERROR - IMPUTED))[SEEN].sum() / (h**2)[SEEN].sum()
    squares = (weight * (ERROR - IMPUTED - epsilon * h) ** 2)[SEEN].sum()
    by_hand = squares / (weight * STAKE**2)[SEEN].sum()
    assert unskew.TMRDR().imputation_loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_multi_dr_is_likelihood_plus_dr_plus_imputation():
    by_hand = SEEN_LIKELIHOOD + 2 * doubly_robust(W) + 3 * brier(W)
    method = unskew.MultiDR(prediction_weight=2, imputation_weight=3)
    assert method.loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_multi_dr_lets_no_tower_learn_from_anothers_loss():
    """With the two other terms off, each tower's gradient is that of its own loss alone."""
    learning = ("propensity", "imputation", "prediction")

    def gradients(**weights):
        v = view(learning)
        unskew.MultiDR(**weights).loss(v).backward()
        return {role: _gradient(v, role) for role in learning}

    both, alone = gradients(), gradients(prediction_weight=0, imputation_weight=0)
    np.testing.assert_allclose(both["propensity"], alone["propensity"], atol=1e-12)
    np.testing.assert_allclose(gradients(prediction_weight=0)["imputation"], both["imputation"], atol=1e-12)
    np.testing.assert_allclose(gradients(imputation_weight=0)["prediction"], both["prediction"], atol=1e-12)


def _gradient(v, role):
    gradient = np.zeros(N)
    for index, rows in v.cast.players[role].table._read:
        if rows.grad is not None:
            np.add.at(gradient, index.numpy(), rows.grad[:, 0].numpy())
    return gradient


def test_escm2_adds_the_cross_entropy_of_the_product_over_the_entire_space():
    liked = SEEN * R
    entire = e(P * PREDICTION, liked).mean()
    by_hand = SEEN_LIKELIHOOD + doubly_robust(W) + brier(W) + 0.4 * entire
    assert unskew.ESCM2DR(entire_space_weight=0.4).loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


# BRD-DR (acceptance test 6)


def brd(prediction=PREDICTION, imputation=IMPUTATION):
    gap = e(prediction, R) - e(prediction, imputation)
    benchmark = e(OTHER, R) - e(OTHER, THIRD)
    return gap, gap - benchmark


def test_brd_uses_the_worst_weights_relative_to_the_benchmark():
    gap, difference = brd()
    v = np.where(difference > 0, 1 + (W - 1) * 3, 1 + (W - 1) / 3)
    by_hand = (IMPUTED + SEEN * v * gap).mean()
    assert unskew.BRDDR(odds_bound=3).worst_case(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_the_closed_form_of_brd_beats_random_weights_within_the_bounds():
    _, difference = brd()
    low, high = 1 + (W - 1) / 3, 1 + (W - 1) * 3
    best = worst_weights(torch.from_numpy(difference), torch.from_numpy(W), 3.0).numpy()
    assert ((best >= low) & (best <= high)).all()
    draws = low + (high - low) * np.random.default_rng(0).random((1000, N))
    assert (best @ difference >= draws @ difference).all()


def test_the_benchmarked_value_is_zero_at_the_benchmark():
    _, difference = brd(OTHER, THIRD)
    np.testing.assert_allclose(difference, 0, atol=1e-12)


def test_brd_starts_from_the_converged_benchmark():
    stage = unskew.BRDDR().plan().stages[-1]
    pairs = {(copy.source, copy.target) for copy in stage.copies}
    assert pairs == {("benchmark", "prediction"), ("benchmark_imputation", "imputation")}
    assert "benchmark" not in stage.moves


# MR (acceptance test 5)


def test_mr_is_the_mean_of_combined_errors_plus_the_weighted_residual():
    v = view()
    eta = np.array([0.05, -0.02, 0.7, 0.3])
    v.cast.players["combination"] = Shares(eta)
    u = np.stack([W, W2, IMPUTED, e(PREDICTION, OTHER)], 1)
    by_hand = (u @ eta + SEEN * (ERROR - u @ eta) * (W + W2) / 2).mean()
    assert unskew.MR().prediction_loss(v).item() == pytest.approx(by_hand, abs=1e-6)
    np.testing.assert_allclose(candidates(v.sampled).numpy(), u, atol=1e-9)


def test_without_ridge_the_shares_are_least_squares_and_make_every_weighted_residual_vanish():
    """sum_O (e - u.eta) / p_j = 0 for each candidate propensity, hence both forms of the MR estimate agree."""
    rng = np.random.default_rng(1)
    weights, imputed = 1 / rng.uniform(0.1, 0.9, (200, 2)), rng.uniform(0.2, 2, (200, 2))
    u = np.hstack([weights, imputed])
    error = u @ np.array([0.02, 0.01, 0.5, 0.4]) + rng.normal(0, 0.05, 200)
    eta = solve_shares(u, error, ridge=0.0)
    np.testing.assert_allclose(eta, np.linalg.lstsq(u, error, rcond=None)[0], atol=1e-6)
    np.testing.assert_allclose(weights.T @ (error - u @ eta), 0, atol=1e-6)


def test_imputed_errors_never_get_a_negative_share():
    rng = np.random.default_rng(2)
    u = np.hstack([1 / rng.uniform(0.1, 0.9, (100, 2)), rng.uniform(0.2, 2, (100, 2))])
    eta = solve_shares(u, u @ np.array([-0.1, 0.2, 0.8, -0.6]), ridge=0.0)
    assert (eta[2:] >= 0).all()
    assert eta[0] < 0.2


@pytest.mark.parametrize("right", ["propensity", "imputation", "neither"])
def test_mr_is_right_when_its_propensity_or_its_imputation_is(right):
    """One candidate of each kind, errors that drive selection: within Monte Carlo error of the ideal, else far off."""
    rng = np.random.default_rng(5)
    error = rng.uniform(0.2, 1.5, 5000)
    p = 0.05 + 0.4 * error / 1.5
    weight = 1 / p if right == "propensity" else 1 / rng.uniform(0.1, 0.4, 5000)
    imputed = error if right == "imputation" else rng.uniform(0.2, 1.5, 5000)
    u = np.stack([weight, weight, imputed, imputed], 1)
    estimates = []
    for _ in range(40):
        seen = rng.random(5000) < p
        estimates.append((u @ solve_shares(u[seen], error[seen], ridge=1e-9)).mean())
    gap = abs(np.mean(estimates) - error.mean())
    if right == "neither":
        assert gap > 0.05
    else:
        assert gap < 4 * np.std(estimates) / np.sqrt(40) + 1e-6


# StableDR (acceptance test 7)


def test_the_balance_constraint_is_the_weighted_mean_of_centred_imputed_errors():
    by_hand = (SEEN / P * (IMPUTED - IMPUTED.mean())).mean()
    assert balance(view()).item() == pytest.approx(by_hand, abs=1e-9)
    loss = unskew.StableDR(balance=5.0).propensity_loss(view()).item()
    assert loss == pytest.approx(SEEN_LIKELIHOOD + 5 * by_hand**2, abs=1e-9)


def test_true_propensities_balance_on_average():
    def imbalance(seen):
        return balance(listed_view(seen, R, ROLES, log_error)).item()

    assert sum(chance * imbalance(seen) for chance, seen in patterns(P)) == pytest.approx(0, abs=1e-9)


def test_the_constraint_trains_the_propensity_and_nobody_else():
    v = view(("propensity",))
    balance(v).square().backward()
    assert np.abs(_gradient(v, "propensity")).max() > 0
    assert not v.cast.players["imputation"].table._read


# What public code minimises


def test_the_published_form_of_dr_subtracts_the_imputed_error_unweighted():
    """(1/B) [sum_O (e/p - e_imputed) + sum_D e_imputed], all pairs sampled once: o e/p + (1 - o) e_imputed."""
    by_hand = np.where(SEEN, ERROR * W, IMPUTED).sum() / SEEN.sum()
    assert unskew.DRJLPublished().prediction_loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_the_published_imputation_loss_swaps_the_arguments():
    swapped = e(IMPUTATION, PREDICTION)
    by_hand = (W * (ERROR - swapped) ** 2)[SEEN].sum()
    assert unskew.DRJLPublished().imputation_loss(view()).item() == pytest.approx(by_hand, abs=1e-9)


def test_the_gradient_of_the_published_form_is_that_of_a_weighted_eib():
    """d/ds = o (r_hat - r)/p + (1 - o)(r_hat - r_imputed) over the batch (acceptance test 1)."""
    v = view(("prediction",))
    unskew.DRJLPublished().prediction_loss(v).backward()
    by_hand = np.where(SEEN, (PREDICTION - R) * W, PREDICTION - IMPUTATION) / SEEN.sum()
    np.testing.assert_allclose(_gradient(v, "prediction"), by_hand, atol=1e-12)


def test_dr_around_a_constant_imputes_the_mean_of_the_training_ratings_and_learns_nothing_beside_the_prediction():
    log = unskew.simulate(n_users=40, n_items=30, density=0.2, seed=1).log
    method = unskew.DR(propensity=unskew.Additive())
    model = method.fit(log, training=unskew.Training(max_epochs=1, progress=False))
    assert model.imputation([0, 3], [1, 2]) == pytest.approx(model.split.train_mean, abs=1e-6)
    learning = method.plan().stages[-1]
    assert [update.trains for update in learning.updates] == [("prediction",)]
    assert "imputation_l2" not in method.space()
