"""check_method and its like let honest parts pass and catch each kind of cheat by the claim that it breaks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from unskew.calibration.platt import GlobalPlatt, PlattMaps
from unskew.errors import PlanError
from unskew.losses.columns import Column, square, value_of
from unskew.losses.weighting import naive
from unskew.methods.base import NetMethod
from unskew.nets.base import NetSpec
from unskew.nets.factors import MF, FactorNet
from unskew.propensity.counted import ItemPropensity, Uniform
from unskew.testing.check import (
    check_calibrator,
    check_fit,
    check_logs,
    check_net,
    check_plan,
    check_propensity,
    check_slopes,
)
from unskew.training.plan import FitSpec, Plan, Role, Stage, Update


@dataclass(frozen=True, kw_only=True)
class Honest(NetMethod):
    """A prediction and a helper that learn in turn; every cheat below changes one thing about it."""

    net: NetSpec = field(default_factory=lambda: MF(n_factors=2))

    def prediction_loss(self, v):
        return naive(v)

    def helper_loss(self, v):
        return naive(v, "helper")

    def validate(self, v):
        return naive(v)

    def updates(self):
        return (Update(("helper",), self.helper_loss),), (Update(("prediction",), self.prediction_loss),)

    def plan(self):
        stage = Stage("turns", self.updates(), validate=self.validate)
        return Plan({"helper": self.learner(), "prediction": self.learner()}, (stage,), self.error)


class MovesAnotherRole(Honest):
    def prediction_loss(self, v):
        values = v.parts.parts["helper"].values
        values *= 0.999
        return naive(v)


class LearnsFromValidation(Honest):
    """Steps a net by hand where it is only to be judged."""

    def validate(self, v):
        o, net = v.observed, v.parts.parts["prediction"]
        net.learn(o.users, o.items, value_of(o.probability()) - o.ratings)
        net.step(0.01, 0.0)
        return naive(v)


class ShiftsInValidation(Honest):
    def validate(self, v):
        v.parts.parts["helper"].values += 0.1
        return naive(v)


class HasAWrongSlope(Honest):
    def prediction_loss(self, v):
        p = v.observed.probability()
        return v.observed.mean(Column(p.value**2, {"prediction": p.value}))


class ForgetsASlope(Honest):
    def prediction_loss(self, v):
        return naive(v) * square(value_of(naive(v)))


class NamesARoleItNeverMoves(Honest):
    def updates(self):
        return (Update(("helper", "prediction"), self.prediction_loss),), (Update(("helper",), self.helper_loss),)


class HasASeedOfItsOwn(Honest):
    def prediction_loss(self, v):
        return naive(v) * float(np.random.default_rng().uniform(0.5, 2))


class DrawsFromNumpy(Honest):
    def validate(self, v):
        return value_of(naive(v)) + 0 * np.random.random()  # noqa: NPY002


class DrawsFromRandom(Honest):
    def validate(self, v):
        return value_of(naive(v)) + 0 * random.random()


class IgnoresTheSeed(Honest):
    def fit(self, log, *, seed=0, **options):
        return super().fit(log, seed=0, **options)


class ChangesItsSettings(Honest):
    def prediction_loss(self, v):
        object.__setattr__(self, "learning_rate", self.learning_rate / 2)
        return naive(v)


class Doubles(FitSpec):
    """A calibrator that doubles probabilities."""

    def fit_in(self, context):
        return TwiceThat(np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 0)

    def from_state(self, state, owner=None):
        return self.fit(None)


class TwiceThat(PlattMaps):
    def calibrated(self, logits, users):
        return 2 * super().calibrated(logits, users)


class PredictsMoreThanOne(Honest):
    def plan(self):
        plan = super().plan()
        roles = {**plan.roles, "doubles": Role(Doubles())}
        roles["prediction"] = roles["prediction"]._replace(calibrated_by="doubles")
        return Plan(roles, (*plan.stages, Stage("doubling", fits=("doubles",))), plan.error)


class PlansDifferently(Honest):
    def plan(self):
        return replace(super().plan(), pairs_per_row=1 + np.random.default_rng().uniform())


class PlansNothing(Honest):
    def plan(self):
        return None


class HasNoPrediction(Honest):
    def plan(self):
        update = Update(("helper",), self.helper_loss)
        return Plan({"helper": self.learner()}, (Stage("turns", ((update,),)),), self.error)


class HasAnUnknownRole(Honest):
    def updates(self):
        return (*super().updates(), (Update(("nobody",), self.helper_loss),))


class StumblesOverSmallLogs(Honest):
    def fit(self, log, **options):
        if len(log) == 6:
            raise IndexError("list index out of range")
        return super().fit(log, **options)


class StumblesOverGrades(Honest):
    def fit(self, log, **options):
        if not log.binary:
            raise TypeError("grades")
        return super().fit(log, **options)


class LearnsNothingFromNothing(Honest):
    def fit(self, log, **options):
        return None if len(log) == 0 else super().fit(log, **options)


CHEATS = [
    (check_slopes, MovesAnotherRole, r"a loss (moves nothing|is a function of its view), but .* stage 'turns'"),
    (check_slopes, ShiftsInValidation, r"a loss moves nothing, but those of stage 'turns' moved \['helper'\]"),
    (check_slopes, HasAWrongSlope, "the slopes of an update are those of its loss, but update 2 .* is off by"),
    (check_slopes, ForgetsASlope, "the slopes of an update are those of its loss"),
    (check_slopes, NamesARoleItNeverMoves, "moves every role it names, but update 1 .* never moves 'helper'"),
    (check_slopes, HasASeedOfItsOwn, "a loss is a function of its view, but update 2"),
    (check_fit, HasASeedOfItsOwn, r"one seed gives the same bits, but \d+ of 1203 answers differ"),
    (check_fit, DrawsFromNumpy, "fit leaves the global random state alone"),
    (check_fit, DrawsFromRandom, "fit leaves the global random state alone"),
    (check_fit, IgnoresTheSeed, "another seed gives other bits"),
    (check_fit, ChangesItsSettings, "fit leaves the settings as they were"),
    (check_fit, PredictsMoreThanOne, r"predictions are probabilities, but after an ordinary log there are \[1\."),
    (check_plan, PlansDifferently, "the plan is the same every time"),
    (check_plan, PlansNothing, "the plan is valid, but it is a NoneType"),
    (check_plan, HasNoPrediction, r"the plan has a prediction, but it has only \['helper'\]"),
    (check_logs, LearnsNothingFromNothing, "an empty log is refused with a DataError, but it was learned from"),
]


@pytest.mark.parametrize(("check", "cheat", "claim"), CHEATS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_cheat_is_caught_by_the_claim_it_breaks(check, cheat, claim):
    with pytest.raises(AssertionError, match=f"^{cheat.__name__}: .*{claim}") as caught:
        check(cheat())
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("check", "cheat", "raised"),
    [
        (check_slopes, LearnsFromValidation, AttributeError),
        (check_plan, HasAnUnknownRole, PlanError),
        (check_logs, StumblesOverSmallLogs, IndexError),
        (check_logs, StumblesOverGrades, TypeError),
    ],
)
def test_what_a_method_raises_is_let_pass_with_a_note_on_the_log(check, cheat, raised):
    with pytest.raises(raised) as caught:
        check(cheat())
    if check is check_logs:
        what = "6 ratings" if raised is IndexError else "grades"
        note = f"{cheat.__name__}: a log of {what} is learned from or refused with an UnskewError."
        assert caught.value.__notes__ == [note]


@pytest.mark.parametrize("check", [check_plan, check_slopes, check_fit, check_logs])
def test_an_honest_method_passes_at_any_seed(check):
    check(Honest(), **({} if check is check_plan else {"seed": 2**40}))


class Backwards(FactorNet):
    def learn(self, users, items, slopes):
        super().learn(users, items, -slopes)


class Deaf(FactorNet):
    def learn(self, users, items, slopes):
        super().learn(users[1:], items[1:], slopes[1:])


class Forgetful(FactorNet):
    def state(self):
        return super().state() | {"items": self.value("items") * np.float32(1.5)}


@dataclass(frozen=True, kw_only=True)
class Broken(MF):
    """MF whose net is of another class."""

    n_factors: int = 3
    form: type = FactorNet

    def from_state(self, state, owner=None):
        return self.form(**super().from_state(state).tables)


@pytest.mark.parametrize(
    ("form", "claim"),
    [(Backwards, "what a net learns"), (Deaf, "what a net learns"), (Forgetful, "a state that is restored")],
)
def test_a_net_that_learns_or_keeps_the_wrong_thing_is_caught(form, claim):
    check_net(Broken())
    with pytest.raises(AssertionError, match=claim):
        check_net(Broken(form=form))


class Loose(Uniform):
    def fit_in(self, given):
        return ItemPropensity(np.random.default_rng().normal(size=given.log.n_items + 1))


class Reverses(GlobalPlatt):
    def fit(self, examples, **options):
        one = np.ones((1, 1))
        return PlattMaps(one, -one, 0 * one, 2)


def test_broken_propensities_and_calibrators_are_caught():
    with pytest.raises(AssertionError, match="Loose: one seed gives the same bits"):
        check_propensity(Loose())
    with pytest.raises(AssertionError, match="Reverses: calibration keeps the order"):
        check_calibrator(Reverses())
