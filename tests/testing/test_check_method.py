"""check_method passes honest methods and catches each kind of cheat by the claim that it breaks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
import pytest
import torch

import unskew
from unskew.methods.base import NetMethod
from unskew.nets.base import Catalogue, NetRecipe
from unskew.nets.factors import MF, FactorNet
from unskew.recipe import register
from unskew.risk.estimators import naive
from unskew.testing import check_method
from unskew.training.plan import Fit, Plan, Role, Stage, Update


@dataclass(frozen=True, kw_only=True)
class Honest(NetMethod):
    """A prediction and a helper that learn in turn; every cheat below changes one thing about it."""

    net: NetRecipe = field(default_factory=lambda: MF(n_factors=2))

    def prediction_loss(self, v):
        return naive(v)

    def helper_loss(self, v):
        return v.observed.error("helper").mean()

    def validate(self, v):
        return naive(v)

    def updates(self):
        return Update(("helper",), self.helper_loss), Update(("prediction",), self.prediction_loss)

    def plan(self):
        stage = Stage("turns", self.updates(), validate=self.validate)
        return Plan({"helper": self.learner(), "prediction": self.learner()}, (stage,), self.error_function)


def mean_logit(v, role):
    """Asked of the net behind the view's back, and so with gradient."""
    return v.cast.players[role](v.observed.users, v.observed.items).mean()


def step(v, role):
    with torch.enable_grad():
        mean_logit(v, role).backward()
    v.cast.players[role].step(0.01, 0.0)


class StepsAnotherRole(Honest):
    def prediction_loss(self, v):
        step(v, "helper")
        return naive(v)


class LeavesAnotherRoleAGradient(Honest):
    def prediction_loss(self, v):
        return naive(v) + mean_logit(v, "helper")


class DecaysAnotherRole(Honest):
    def prediction_loss(self, v):
        v.cast.players["helper"].users.value.mul_(0.999)
        return naive(v)


class LearnsFromValidation(Honest):
    def validate(self, v):
        step(v, "prediction")
        return naive(v)


class NamesARoleItNeverMoves(Honest):
    def updates(self):
        return Update(("helper", "prediction"), self.prediction_loss), Update(("helper",), self.helper_loss)


class DrawsFromTorch(Honest):
    def prediction_loss(self, v):
        return naive(v) * (1 + 0 * torch.rand(()))


class DrawsFromNumpy(Honest):
    def plan(self):
        np.random.random()  # noqa: NPY002
        return super().plan()


class DrawsFromRandom(Honest):
    def validate(self, v):
        return naive(v) + 0 * random.random()


class HasASeedOfItsOwn(Honest):
    def prediction_loss(self, v):
        return naive(v) * np.random.default_rng().uniform(0.5, 2)


class CountsThreads(Honest):
    def prediction_loss(self, v):
        return naive(v) * numba.get_num_threads() + v.observed.logit().mean()


class IgnoresTheSeed(Honest):
    def fit(self, log, *, seed=0, **options):
        return super().fit(log, seed=0, **options)


class ChangesItsSettings(Honest):
    def prediction_loss(self, v):
        object.__setattr__(self, "learning_rate", self.learning_rate / 2)
        return naive(v)


@dataclass(frozen=True, kw_only=True)
class TakesNotes(Honest):
    notes: list[str] = field(default_factory=list)

    def fit(self, log, **options):
        self.notes.append(f"{len(log)} ratings")
        return super().fit(log, **options)


class SilentNet(FactorNet):
    """Learns as it should, but says NaN when nobody is watching the gradient."""

    def forward(self, users, items):
        said = super().forward(users, items)
        return said if torch.is_grad_enabled() else said * float("nan")


class ForgetfulNet(FactorNet):
    """Adds a number drawn when it was built, which no file keeps."""

    def __init__(self, tables, shift):
        super().__init__(*tables)
        self.shift = shift

    def forward(self, users, items):
        return super().forward(users, items) + self.shift


@dataclass(frozen=True, kw_only=True)
class Silent(MF):
    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Any:
        net = super().build(replace(catalogue, engine="torch"), generator)
        return SilentNet(net.users, net.items, net.offset)


@dataclass(frozen=True, kw_only=True)
class Forgetful(MF):
    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Any:
        net = super().build(replace(catalogue, engine="torch"), generator)
        return ForgetfulNet((net.users, net.items, net.offset), torch.rand((), generator=generator))


class PredictsNothing(Honest):
    def learner(self):
        return Role(Silent())

    def plan(self):
        plan = super().plan()
        return replace(plan, stages=(replace(plan.stages[0], validate=None),))


class ForgetsWhenSaved(Honest):
    def learner(self):
        return Role(Forgetful())


class Doubles:
    """A calibrator that doubles probabilities."""

    def fit_on(self, occasion, previous):
        return self

    def calibrated(self, logits, users, vectors):
        return 2 * torch.sigmoid(logits)


class PredictsMoreThanOne(Honest):
    def plan(self):
        plan = super().plan()
        stages = (*plan.stages, Stage("doubling", fits=(Fit("doubles"),)))
        calibrated = replace(plan.roles["prediction"], calibrator="doubles")
        roles = {**plan.roles, "prediction": calibrated, "doubles": Role(Doubles())}
        return Plan(roles, stages, plan.error)


class PlansDifferently(Honest):
    def plan(self):
        plan = super().plan()
        return replace(plan, pairs_per_row=1 + np.random.default_rng().uniform())


class PlansNothing(Honest):
    def plan(self):
        return None


class HasNoPrediction(Honest):
    def plan(self):
        update = Update(("helper",), self.helper_loss)
        return Plan({"helper": self.learner()}, (Stage("turns", (update,)),), self.error_function)


class HasAnUnknownRole(Honest):
    def updates(self):
        return (*super().updates(), Update(("stranger",), self.helper_loss))


class DoublesItsSettings(Honest):
    def __post_init__(self):
        object.__setattr__(self, "learning_rate", self.learning_rate * 2)


class KeepsItsSettingsSecret(Honest):
    def __repr__(self):
        return "KeepsItsSettingsSecret()"


class StumblesOverSmallLogs(Honest):
    def fit(self, log, **options):
        if len(log) == 6:
            raise IndexError("list index out of range")
        return super().fit(log, **options)


class StumblesOverGrades(Honest):
    def fit(self, log, **options):
        if not log.binary and self.error == "squared":
            raise TypeError("grades")
        return super().fit(log, **options)


class Unregistered(Honest):
    pass


CHEATS = [
    (StepsAnotherRole(), "moves only the roles it names, but the update of 'prediction' in .* moved 'helper'"),
    (LeavesAnotherRoleAGradient(), "moves only the roles it names, but the update of 'prediction' in .* a gradient"),
    (DecaysAnotherRole(), "moves only the roles it names, but the update of 'prediction' in .* moved 'helper'"),
    (LearnsFromValidation(), "moves only the roles it names, but the validation risk in .* moved 'prediction'"),
    (NamesARoleItNeverMoves(), "moves every role it names, but the update of .* never moved 'helper'"),
    (DrawsFromTorch(), "fit leaves the global random state alone"),
    (DrawsFromNumpy(), "fit leaves the global random state alone"),
    (DrawsFromRandom(), "fit leaves the global random state alone"),
    (HasASeedOfItsOwn(), r"one seed gives the same bits at 1 and at 2 threads, but \d+ of 1200 predictions differ"),
    (CountsThreads(), "one seed gives the same bits at 1 and at 2 threads"),
    (IgnoresTheSeed(), "another seed gives other bits"),
    (ChangesItsSettings(), "fit leaves the recipe as it was, but .*learning_rate=0.01.* has become "),
    (TakesNotes(), r"fit leaves the recipe as it was, but .* has become .*notes=\['\d+ ratings'\]"),
    (PredictsNothing(), r"predictions are probabilities, but \d+ of \d+ are not after .*, such as \[nan\]"),
    (PredictsMoreThanOne(), r"predictions are probabilities, but .* such as \[1\."),
    (ForgetsWhenSaved(), "a saved and loaded model predicts the same bits"),
    (PlansDifferently(), "the plan is the same every time"),
    (PlansNothing(), "the plan is valid, but it is a NoneType"),
    (HasNoPrediction(), r"the plan has a role 'prediction', but it has only \['helper'\]"),
    (HasAnUnknownRole(), "the plan is valid, but it raised PlanError: .*'stranger'"),
    (DoublesItsSettings(), "the repr of a recipe makes the recipe, but it makes .*learning_rate=0.04"),
    (KeepsItsSettingsSecret(l2=0.3), "the repr of a recipe makes the recipe"),
    (Unregistered(), r"a recipe can be written as plain data, but it raised .* unskew\.recipe\.register"),
    (StumblesOverSmallLogs(), "a log of 6 ratings is learned from or refused .*, but it raised IndexError"),
    (StumblesOverGrades(), "graded ratings are answered within their scale .* but it raised TypeError: grades"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """Recipes know the methods and nets of this file, in its tests only."""
    monkeypatch.setattr("unskew.recipe._registered", {})
    for cls in (Honest, Silent, Forgetful, *(type(cheat) for cheat, _ in CHEATS)):
        if cls is not Unregistered:
            register(cls)


@pytest.mark.parametrize(("cheat", "claim"), CHEATS, ids=[type(cheat).__name__ for cheat, _ in CHEATS])
def test_a_cheat_is_caught_by_the_claim_it_breaks_in_one_sentence_that_names_it(cheat, claim):
    with pytest.raises(AssertionError, match=f"^{type(cheat).__name__}: .*{claim}") as caught:
        check_method(cheat)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "method",
    [
        Honest(),
        unskew.IPS(propensity=unskew.Known(lambda users, items: np.full(len(users), 0.15))),
        unskew.IPS(propensity=unskew.NaiveBayes(), net=unskew.NCF(n_factors=2)),
        unskew.SNIPS(propensity=unskew.Logistic()),
    ],
    ids=["one's own", "with a function", "that needs random ratings", "that needs features"],
)
def test_honest_methods_pass_at_any_seed(method):
    check_method(method, seed=2**40)


def test_check_method_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads(), numba.get_num_threads()
    check_method(Honest())
    assert (torch.get_num_threads(), numba.get_num_threads()) == before
