"""Estimators against their definitions, by enumerating every pattern of seen pairs of a tiny world."""

import numpy as np
import pytest
import torch

from unskew.risk.errors import ERRORS, log_error, squared_error
from unskew.risk.estimators import eib, ips, naive, seen_likelihood, snips
from unskew.testing.enumeration import expectation, listed_view, patterns

P = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.2])
RATINGS = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
PREDICTION = np.array([0.7, 0.4, 0.2, 0.6, 0.35, 0.9])
ERROR_BY_HAND = {
    "log": -np.log(np.where(RATINGS == 1, PREDICTION, 1 - PREDICTION)),
    "squared": (RATINGS - PREDICTION) ** 2,
}


def view(seen, error="log", **roles):
    return listed_view(seen, RATINGS, {"prediction": PREDICTION, **roles}, ERRORS[error])


@pytest.mark.parametrize("error", ERRORS)
def test_ips_is_unbiased_with_true_propensities(error):
    estimate = expectation(P, lambda seen: ips(view(seen, error, propensity=P)).item())
    assert estimate == pytest.approx(ERROR_BY_HAND[error].mean(), abs=1e-12)


def test_ips_is_biased_with_wrong_propensities_by_the_known_amount():
    guess = np.full_like(P, P.mean())
    estimate = expectation(P, lambda seen: ips(view(seen, propensity=guess)).item())
    assert estimate == pytest.approx((P / guess * ERROR_BY_HAND["log"]).mean(), abs=1e-12)


def test_naive_is_biased_when_selection_follows_the_error_and_unbiased_when_it_does_not():
    def estimate(p):
        some = [(chance, seen) for chance, seen in patterns(p) if seen.any()]
        total = sum(chance for chance, _ in some)
        return sum(chance * naive(view(seen)).item() for chance, seen in some) / total

    truth = ERROR_BY_HAND["log"].mean()
    assert estimate(np.full(6, 0.4)) == pytest.approx(truth, abs=1e-12)
    follows_error = np.where(ERROR_BY_HAND["log"] > truth, 0.8, 0.2)
    assert estimate(follows_error) > truth + 0.05


def test_snips_does_not_change_when_all_propensities_are_scaled():
    seen = np.array([True, True, False, True, False, True])
    assert snips(view(seen, propensity=P)).item() == pytest.approx(
        snips(view(seen, propensity=P / 2)).item(), abs=1e-12
    )


def test_snips_is_exact_on_constant_errors_where_ips_is_not():
    seen = np.array([True, False, False, True, True, False])
    half = listed_view(seen, RATINGS, {"prediction": np.full(6, 0.5), "propensity": P}, log_error)
    assert snips(half).item() == pytest.approx(np.log(2), abs=1e-12)
    assert ips(half).item() != pytest.approx(np.log(2), abs=1e-2)


def test_eib_is_the_full_sum_of_seen_and_imputed_errors():
    seen = np.array([True, False, True, True, False, False])
    imputed = np.linspace(0.1, 0.6, 6)
    by_hand = np.where(seen, ERROR_BY_HAND["log"], imputed).mean()
    assert eib(view(seen), torch.from_numpy(imputed)).item() == pytest.approx(by_hand, abs=1e-12)


def test_seen_likelihood_is_the_cross_entropy_over_all_pairs():
    seen = np.array([True, False, True, True, False, False])
    by_hand = -np.log(np.where(seen, P, 1 - P)).mean()
    assert seen_likelihood(view(seen, propensity=P)).item() == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_linear_in_the_label(error):
    logit = torch.linspace(-4, 4, 9, dtype=torch.float64)
    one, zero = ERRORS[error](logit, torch.ones(9)), ERRORS[error](logit, torch.zeros(9))
    for y in (0.0, 0.3, 1.0):
        torch.testing.assert_close(ERRORS[error](logit, torch.full((9,), y).double()), y * one + (1 - y) * zero)


def test_squared_error_of_a_soft_label_adds_its_variance_to_the_plug_in():
    logit, y = torch.tensor([0.3], dtype=torch.float64), torch.tensor([0.25], dtype=torch.float64)
    plug_in = (torch.sigmoid(logit) - y) ** 2
    torch.testing.assert_close(squared_error(logit, y), plug_in + y * (1 - y))


def test_errors_stay_finite_at_extreme_logits():
    logit = torch.tensor([-1e4, 1e4])
    for error in ERRORS.values():
        assert torch.isfinite(error(logit, torch.tensor([1.0, 0.0]))).all()


@pytest.mark.parametrize("risk", [naive, ips, snips])
def test_gradients_match_finite_differences(risk):
    seen = np.array([True, True, False, True, True, False])

    def value(logits, grad=False):
        v = view(seen, propensity=P)
        v = type(v)(v.cast, v.batch, frozenset({"prediction"}))
        net = v.cast.players["prediction"]
        net.table.value.copy_(torch.from_numpy(logits)[:, None])
        loss = risk(v)
        if not grad:
            return loss.item()
        loss.backward()
        gradient = np.zeros(6)
        ((index, rows),) = net.table._read
        np.add.at(gradient, index.numpy(), rows.grad[:, 0].numpy())
        return gradient

    logits = np.log(PREDICTION / (1 - PREDICTION))
    numeric = [(value(logits + d) - value(logits - d)) / 2e-6 for d in np.eye(6) * 1e-6]
    np.testing.assert_allclose(value(logits, grad=True), numeric, atol=1e-8)
