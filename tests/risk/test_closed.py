"""Closed forms against the derivative that PyTorch finds of the risk itself, on rows drawn at random."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from unskew.data.rows import Batch, Pairs, Rows
from unskew.risk.closed import form_of
from unskew.risk.errors import log_error, squared_error
from unskew.risk.estimators import ips, naive, seen_likelihood, snips
from unskew.risk.robust import dr
from unskew.training.view import Cast, View

DR, TDR = unskew.DRJL(), unskew.TDR()
LOSSES = {
    "naive": (naive, "prediction"),
    "ips": (ips, "prediction"),
    "snips": (snips, "prediction"),
    "dr": (dr, "prediction"),
    "seen": (seen_likelihood, "propensity"),
    "DR-JL prediction": (DR.prediction_loss, "prediction"),
    "DR-JL imputation": (DR.imputation_loss, "imputation"),
    "MRDR imputation": (unskew.MRDR().imputation_loss, "imputation"),
    "TDR prediction": (TDR.prediction_loss, "prediction"),
    "TDR imputation": (TDR.imputation_loss, "imputation"),
    "TDR-JL imputation": (unskew.TDR(learning="joint").imputation_loss, "imputation"),
}


class Listed:
    """A role whose logits are listed, and which keeps the slopes it is told."""

    def __init__(self, logits):
        self.logits, self.told = torch.tensor(logits, dtype=torch.float32).requires_grad_(), {}

    def __call__(self, users, items):
        return self.logits[users]

    def keep(self, users, items, slopes):
        self.told |= dict(zip(users.tolist(), slopes.tolist(), strict=True))


def view(seed, role, error=log_error, spread=4.0):
    """Ten observed and eight sampled pairs, each with a user of its own; some logits lie beyond their bounds."""
    rng = np.random.default_rng(seed)
    users = torch.arange(18)
    ratings = torch.from_numpy(rng.integers(0, 2, 10).astype(np.float32))
    observed = Rows(Pairs(users[:10], users[:10], ratings), slice(None), 3.0)
    seen = torch.from_numpy(rng.integers(0, 2, 8).astype(np.float32))
    sampled = Rows(Pairs(users[10:], users[10:], seen=lambda *_: seen), slice(None), 5.0)
    players = {name: Listed(rng.normal(0, spread, 18)) for name in ("prediction", "imputation", "propensity")}
    cast = Cast(players, {"propensity": 0.1}, {}, error)
    return View(cast, Batch(observed, sampled, 40.0), frozenset({role})), players[role]


def by_closed_form(loss, v):
    form = form_of(loss)
    with torch.no_grad():
        return None if form is None else form(v)


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.5, 4.0, 12.0]))
def test_closed_forms_are_the_risk_and_its_derivative(name, seed, spread):
    loss, role = LOSSES[name]
    v, player = view(seed, role, spread=spread)
    value = loss(v)
    value.backward()
    told, listener = view(seed, role, spread=spread)
    closed = by_closed_form(loss, told)
    assert closed == pytest.approx(value.item(), rel=1e-4, abs=1e-6)
    slopes = torch.tensor([listener.told.get(user, 0.0) for user in range(18)])
    torch.testing.assert_close(slopes, player.logits.grad, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "seen"])
def test_other_errors_have_no_closed_form(name):
    loss, role = LOSSES[name]
    v, player = view(0, role, error=squared_error)
    assert by_closed_form(loss, v) is None
    assert not player.told


def test_a_differentiated_epsilon_has_no_closed_form():
    v, player = view(0, "prediction")
    assert by_closed_form(unskew.TDR(differentiate=True).prediction_loss, v) is None
    assert not player.told


def test_a_loss_that_overrides_another_does_not_inherit_its_closed_form():
    class Own(unskew.DRJL):
        def prediction_loss(self, v):
            return naive(v)

    assert not hasattr(Own().prediction_loss, "closed_form")


@pytest.mark.parametrize("name", ["naive", "snips", "dr-jl", "tdr-cl"])
def test_training_by_closed_forms_is_training_by_differentiation(name, monkeypatch):
    """Two epochs from one start: the same net up to rounding, whichever way the slopes were found."""
    from unskew.training import loop

    log = unskew.simulate(n_users=60, n_items=40, density=0.2, selection="taste", seed=1).log
    training = unskew.Training(max_epochs=2, progress=False)
    method = unskew.make(name, **({} if name == "naive" else {"propensity": unskew.Additive()}))
    told = method.fit(log, training=training)
    monkeypatch.setattr(loop.Loop, "_by_closed_form", lambda *_: None)
    monkeypatch.setattr(loop, "in_one_call", lambda *_: None)
    found = method.fit(log, training=training)
    for table in ("users", "items"):
        ours, theirs = (getattr(model.cast.players["prediction"], table).value for model in (told, found))
        torch.testing.assert_close(ours, theirs, atol=3e-3, rtol=1e-2)
