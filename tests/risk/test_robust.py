"""Doubly robust risks: unbiased if either nuisance is true, Lemma 1 to the last digit, and the targeted correction."""

import numpy as np
import pytest
import torch

from unskew.risk.errors import ERRORS
from unskew.risk.robust import dr, imputation_error, target_covariate, target_epsilon, targeted_dr
from unskew.testing.enumeration import expectation, listed_view, patterns

RNG = np.random.default_rng(7)
N = 7
P = RNG.uniform(0.1, 0.9, N)
WRONG_P = np.clip(P * RNG.uniform(0.5, 1.8, N), 0.05, 0.99)
Q = RNG.uniform(0.1, 0.9, N)
WRONG_Q = np.clip(Q + RNG.uniform(-0.3, 0.3, N), 0.02, 0.98)
RATINGS = (RNG.random(N) < Q).astype(float)
PREDICTION = RNG.uniform(0.1, 0.9, N)


def view(seen, error="log", *, ratings=RATINGS, p=P, imputation=WRONG_Q, learning=frozenset()):
    roles = {"prediction": PREDICTION, "imputation": imputation, "propensity": p}
    return listed_view(seen, ratings, roles, ERRORS[error], learning)


def errors(labels, error="log"):
    r = PREDICTION
    if error == "log":
        return -labels * np.log(r) - (1 - labels) * np.log(1 - r)
    return labels * (1 - r) ** 2 + (1 - labels) * r**2


@pytest.mark.parametrize("error", ERRORS)
def test_dr_is_unbiased_when_the_propensity_is_true_whatever_the_imputation(error):
    estimate = expectation(P, lambda seen: dr(view(seen, error)).item())
    assert estimate == pytest.approx(errors(RATINGS, error).mean(), abs=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_dr_is_unbiased_when_the_imputation_is_true_whatever_the_propensity(error):
    """The imputation is P(r = 1), the truth, and the estimate is averaged over the ratings too: labels become Q."""
    estimate = expectation(P, lambda seen: dr(view(seen, error, ratings=Q, p=WRONG_P, imputation=Q)).item())
    assert estimate == pytest.approx(errors(Q, error).mean(), abs=1e-12)


def test_the_plug_in_square_would_be_biased_even_with_the_true_imputation():
    residual = errors(Q, "squared") - (PREDICTION - Q) ** 2
    bias = ((P / WRONG_P - 1) * residual).mean()
    assert abs(bias) > 0.01


@pytest.mark.parametrize("error", ERRORS)
def test_bias_and_variance_are_those_of_lemma_1_when_both_nuisances_are_wrong(error):
    """Bias |sum (p_hat - p)/p_hat (e - e_imputed)| / |D| and variance sum p(1-p)/p_hat^2 (e - e_imputed)^2 / |D|^2."""
    draws = [(chance, dr(view(seen, error, p=WRONG_P)).item()) for chance, seen in patterns(P)]
    mean = sum(chance * value for chance, value in draws)
    variance = sum(chance * (value - mean) ** 2 for chance, value in draws)
    residual = errors(RATINGS, error) - errors(WRONG_Q, error)
    truth = errors(RATINGS, error).mean()
    assert truth - mean == pytest.approx(((WRONG_P - P) / WRONG_P * residual).mean(), abs=1e-10)
    assert variance == pytest.approx((P * (1 - P) / WRONG_P**2 * residual**2).sum() / N**2, abs=1e-10)
    assert abs(truth - mean) > 1e-4


def test_a_true_imputation_of_every_error_leaves_no_variance():
    values = [
        dr(view(seen, p=WRONG_P, imputation=np.clip(RATINGS, 1e-12, 1 - 1e-12))).item() for _, seen in patterns(P)
    ]
    assert np.ptp(values) < 1e-9


def gradient_of(risk, v, role="prediction"):
    risk(v).backward()
    table = v.cast.players[role].table
    gradient = np.zeros(N)
    for index, rows in table._read:
        if rows.grad is not None:
            np.add.at(gradient, index.numpy(), rows.grad[:, 0].numpy())
    return gradient


SEEN = np.array([True, False, True, True, False, True, False])


def test_the_gradient_of_dr_is_prediction_minus_the_doubly_robust_label():
    """d/ds = r_hat - y*, y* = r_imputed + o (r - r_imputed) / p (acceptance test 1)."""
    label = WRONG_Q + SEEN * (RATINGS - WRONG_Q) / WRONG_P
    gradient = gradient_of(dr, view(SEEN, p=WRONG_P, learning=frozenset({"prediction"})))
    np.testing.assert_allclose(gradient, (PREDICTION - label) / N, atol=1e-12)


@pytest.mark.parametrize("differentiate", [True, False])
@pytest.mark.parametrize("error", ERRORS)
def test_gradients_of_the_targeted_risk_match_finite_differences(error, differentiate):
    def at(logits):
        v = view(SEEN, error, p=WRONG_P, learning=frozenset({"prediction"}))
        v.cast.players["prediction"].table.value.copy_(torch.from_numpy(logits)[:, None])
        return v

    logits = np.log(PREDICTION / (1 - PREDICTION))
    fixed = target_epsilon(at(logits).observed).item()

    def value(logits):
        v = at(logits)
        if differentiate:
            return targeted_dr(v).item()
        o, d = v.observed, v.sampled
        residual = (o.error() - o.imputed_error() - fixed * target_covariate(o)) * o.inverse_propensity()
        return (((d.imputed_error() + fixed * target_covariate(d)).sum() + residual.sum()) / N).item()

    numeric = [(value(logits + d) - value(logits - d)) / 2e-6 for d in np.eye(N) * 1e-6]
    analytic = gradient_of(lambda v: targeted_dr(v, differentiate=differentiate), at(logits))
    np.testing.assert_allclose(analytic, numeric, atol=1e-8)


def test_with_epsilon_held_fixed_the_gradient_of_tdr_is_that_of_dr_and_differentiated_it_is_not():
    learning = frozenset({"prediction"})
    plain = gradient_of(dr, view(SEEN, p=WRONG_P, learning=learning))
    fixed = gradient_of(lambda v: targeted_dr(v, differentiate=False), view(SEEN, p=WRONG_P, learning=learning))
    moving = gradient_of(targeted_dr, view(SEEN, p=WRONG_P, learning=learning))
    np.testing.assert_allclose(fixed, plain, atol=1e-12)
    assert np.abs(moving - plain).max() > 1e-3


@pytest.mark.parametrize("error", ERRORS)
def test_targeted_residuals_are_orthogonal_to_the_covariate_and_both_forms_of_tdr_agree(error):
    """sum_O h (e - e_check) = 0, hence DR with e_check = EIB with e_check (acceptance test 4)."""
    v = view(SEEN, error, p=WRONG_P)
    epsilon, h = target_epsilon(v.observed).item(), 1 / WRONG_P - 1
    corrected = errors(WRONG_Q, error) + epsilon * h
    residual = errors(RATINGS, error) - corrected
    assert (h * residual)[SEEN].sum() == pytest.approx(0, abs=1e-10)
    as_eib = np.where(SEEN, errors(RATINGS, error), corrected).mean()
    assert targeted_dr(v).item() == pytest.approx(as_eib, abs=1e-8)


def test_propensities_of_one_leave_nothing_to_target():
    v = view(np.ones(N, bool), p=np.full(N, 1 - 1e-12))
    assert targeted_dr(v).item() == pytest.approx(errors(RATINGS).mean(), abs=1e-9)


def test_the_imputation_loss_is_a_weighted_brier_score_with_weight_s_squared():
    """(e - e_imputed)^2 = s^2 (r - r_imputed)^2 for cross-entropy (methods: the imputation regresses on ratings)."""
    s = np.log(PREDICTION / (1 - PREDICTION))
    by_hand = (s**2 * (RATINGS - WRONG_Q) ** 2 / WRONG_P)[SEEN].sum() / N
    v = view(SEEN, p=WRONG_P)
    assert imputation_error(v, v.observed.inverse_propensity()).item() == pytest.approx(by_hand, abs=1e-12)
