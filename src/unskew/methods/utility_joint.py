"""Selection on utility by one likelihood: utilities, slope, activity and exposure learned together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from unskew.data.log import RatingLog
from unskew.methods.base import NetMethod
from unskew.methods.weighting import Naive
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.nets.scalar import Scalar
from unskew.propensity.tables import Uniform
from unskew.propensity.utility import Utility
from unskew.recommender import Recommender
from unskew.training.checks import check_number
from unskew.training.plan import Copy, Fit, Plan, Role, Stage, Update
from unskew.training.view import View
from unskew.utility.likelihood import seen_error, seen_rating_error, utility_likelihood


@dataclass(frozen=True, kw_only=True)
class UtilityModel(NetMethod):
    """Joint maximum likelihood of ratings and of which pairs were seen, under selection on utility (docs/utility.md).

    The prediction says the explained utility z of every pair. It starts as a naive net under the slope that `utility`
    has estimated in two steps, beside activity and exposure; then all of them learn together from seen pairs, their
    ratings and sampled pairs. Without evidence for a slope the model is Naive, bit for bit; only then `error` counts.
    `activity_l2` is the L2 of activity and exposure, `pairs_per_row` the number of pairs sampled for each rating of a
    batch.
    """

    utility: Utility = field(default_factory=lambda: Utility(base=Uniform()))
    activity: NetRecipe = field(default_factory=lambda: MF(n_factors=16, spread=0.1))
    activity_l2: float = 0.01
    pairs_per_row: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "activity_l2", least=0)
        check_number(self, "pairs_per_row", above=0)

    def ratings_alone(self, v: View) -> Tensor:
        return seen_rating_error(v, _unexplained(v))

    def everything(self, v: View) -> Tensor:
        return utility_likelihood(v, _unexplained(v))

    def plan(self) -> Plan:
        activity = Role(self.activity, learning_rate=self.learning_rate, l2=self.activity_l2, starts_at="seen")
        roles = {
            "prediction": self.learner(),
            "activity": activity,
            "slope": Role(Scalar(setting="slope"), learning_rate=self.learning_rate / 10),
            "utility": Role(self.utility),
        }
        ratings, seen = Update(("prediction",), self.ratings_alone), Update(("activity",), seen_error)
        together = Update(("prediction", "activity", "slope"), self.everything)
        stages = (
            Stage("utility", fits=(Fit("utility"),)),
            Stage("ratings", (ratings,), copies=(Copy("utility", "slope"),), validate=self.ratings_alone),
            Stage("activity", (seen,), validate=seen_error),
            Stage("prediction", (together,), validate=self.everything),
        )
        return Plan(roles, stages, self.error_function, self.pairs_per_row)

    def fit_plan(self, plan: Plan, log: RatingLog, **arguments: Any) -> Recommender:
        model = super().fit_plan(plan, log, **arguments)
        if model.player("utility").slope:
            model.history.notes.append(f"The joint likelihood ended at a slope of {model.player('slope').value:.3f}.")
            return model
        naive = Naive(net=self.net, learning_rate=self.learning_rate, l2=self.l2, error=self.error)
        plain = naive.fit(log, **arguments | {"training": arguments["training"].inside("naive")})
        players = {**model.cast.players, "prediction": plain.player("prediction")}
        return replace(model, cast=replace(model.cast, players=players))


def _unexplained(v: View) -> float:
    k: float = v.cast.players["utility"].selection.numbers.unexplained
    return k
