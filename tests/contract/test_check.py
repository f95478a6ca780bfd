"""check_method and its like let honest parts pass and catch each kind of cheat by the claim that it breaks."""

import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from unskew import Naive, PlanError, register
from unskew.calibration.platt import PlattMaps
from unskew.losses.columns import Column, square, value_of
from unskew.losses.weighting import naive
from unskew.methods.base import NetMethod
from unskew.nets.base import NetSpec
from unskew.nets.factors import MF, FactorNet
from unskew.testing.check import SHORT, check_fit, check_logs, check_plan, check_saving, check_slopes
from unskew.testing.worlds import ordinary
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


def cheat(name, **changed):
    return type(name, (Honest,), changed)()


def moved(part, by):
    part.values[:] = part.values * by  # as nobody should
    return 0.0


def stepped(self, v):
    o, net = v.observed, v.parts["prediction"]
    net.learn(o.users, o.items, value_of(o.probability()) - o.ratings)


def wrong_slope(self, v):
    p = v.observed.probability()
    return v.observed.mean(Column(p.value**2, {"prediction": p.value}))


def own_seed(self, v):
    return naive(v) * float(np.random.default_rng().uniform(0.5, 2))


def drawing(draw):
    return {"validate": lambda self, v: value_of(naive(v)) + 0 * draw()}


def other_settings(self, v):
    object.__setattr__(self, "learning_rate", self.learning_rate / 2)
    return naive(v)


def two_roles(self):
    return (Update(("helper", "prediction"), self.prediction_loss),), (Update(("helper",), self.helper_loss),)


def unknown_role(self):
    return (*Honest.updates(self), (Update(("nobody",), self.helper_loss),))


def refusing(condition, error):
    def fit(self, log, **options):
        if condition(log):
            raise error
        return Honest.fit(self, log, **options)

    return fit


class TwiceThat(PlattMaps):
    def calibrated(self, logits, users):
        return 2 * super().calibrated(logits, users)


class Doubles(FitSpec):
    """A calibrator that doubles probabilities."""

    def fit_in(self, context):
        return TwiceThat(np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 0)

    def from_state(self, state, owner=None):
        return self.fit_in(None)


def doubled(self):
    plan = Honest.plan(self)
    roles = {**plan.roles, "doubles": Role(Doubles())}
    roles["prediction"] = roles["prediction"]._replace(calibrated_by="doubles")
    return Plan(roles, (*plan.stages, Stage("doubling", fits=("doubles",))), plan.error)


def without_prediction(self):
    update = Update(("helper",), self.helper_loss)
    return Plan({"helper": self.learner()}, (Stage("turns", ((update,),)),), self.error)


MOVES = {"prediction_loss": lambda self, v: naive(v) + moved(v.parts["helper"], 0.999)}
SHIFTS = {"validate": lambda self, v: moved(v.parts["helper"], 1.1)}
FORGETS = {"prediction_loss": lambda self, v: naive(v) * square(value_of(naive(v)))}
OTHER_PLAN = {"plan": lambda self: replace(Honest.plan(self), pairs_per_row=1 + np.random.default_rng().uniform())}
FIXED_SEED = {"fit": lambda self, log, *, seed=0, **options: Honest.fit(self, log, seed=0, **options)}
FROM_NOTHING = {"fit": lambda self, log, **options: Honest.fit(self, log, **options) if len(log) else None}
# name: what it changes, the check that catches it, and the claim that it breaks
CHEATS = {
    "MovesAnotherRole": (MOVES, check_slopes, r"(moves nothing|is a function of its view), but .* stage 'turns'"),
    "ShiftsInValidation": (SHIFTS, check_slopes, r"a loss moves nothing, .* stage 'turns' moved \['helper'\]"),
    "HasAWrongSlope": ({"prediction_loss": wrong_slope}, check_slopes, "those of its loss, but update 2 .* is off by"),
    "ForgetsASlope": (FORGETS, check_slopes, "the slopes of an update are those of its loss"),
    "NamesARoleItNeverMoves": ({"updates": two_roles}, check_slopes, "but update 1 .* never moves 'helper'"),
    "HasASeedOfItsOwn": ({"prediction_loss": own_seed}, check_slopes, "a function of its view, but update 2"),
    "DiffersFromFitToFit": ({"prediction_loss": own_seed}, check_fit, r"the same bits, but \d+ of 1203 answers differ"),
    "DrawsFromNumpy": (drawing(np.random.random), check_fit, "fit leaves the global random state alone"),
    "DrawsFromRandom": (drawing(random.random), check_fit, "fit leaves the global random state alone"),
    "IgnoresTheSeed": (FIXED_SEED, check_fit, "another seed gives other bits"),
    "ChangesItsSettings": ({"prediction_loss": other_settings}, check_fit, "fit leaves the settings as they were"),
    "PredictsMoreThanOne": ({"plan": doubled}, check_fit, r"are probabilities, but after an ordinary log .* \[1\."),
    "PlansDifferently": (OTHER_PLAN, check_plan, "the plan is the same every time"),
    "PlansNothing": ({"plan": lambda self: None}, check_plan, "the plan is valid, but it is a NoneType"),
    "HasNoPrediction": ({"plan": without_prediction}, check_plan, r"has a prediction, but it has only \['helper'\]"),
    "LearnsNothingFromNothing": (FROM_NOTHING, check_logs, "refused with a DataError, but it was learned from"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_caught_by_the_claim_it_breaks(name):
    changed, check, claim = CHEATS[name]
    with pytest.raises(AssertionError, match=f"^{name}: .*{claim}.*[.]$"):
        check(cheat(name, **changed))


@pytest.mark.parametrize(
    ("changed", "check", "raised", "note"),
    [
        ({"validate": stepped}, check_slopes, AttributeError, None),
        ({"updates": unknown_role}, check_plan, PlanError, None),
        ({"fit": refusing(lambda log: len(log) == 6, IndexError())}, check_logs, IndexError, "6 ratings"),
        ({"fit": refusing(lambda log: not log.binary, TypeError())}, check_logs, TypeError, "grades"),
    ],
)
def test_what_a_method_raises_is_let_pass_with_a_note_on_the_log(changed, check, raised, note):
    with pytest.raises(raised) as caught:
        check(cheat("Raises", **changed))
    if note:
        assert caught.value.__notes__ == [f"Raises: a log of {note} is learned from or refused with an UnskewError."]


class Forgetful(FactorNet):
    def state(self):
        return {name: 1.5 * value for name, value in super().state().items()}


class ForgetfulMF(MF):
    def from_state(self, state, owner=None):
        return Forgetful(**super().from_state(state).tables)


def test_a_net_that_keeps_the_wrong_thing_is_caught():
    register("forgetful")(ForgetfulMF)
    method = Naive(net=ForgetfulMF(n_factors=3))
    with pytest.raises(AssertionError, match="Naive: a saved and loaded model answers with the same bits"):
        check_saving(method, method.fit(ordinary()[0], training=SHORT))
