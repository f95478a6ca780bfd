"""The Bayesian factor model as a method: `bayes` by itself, `dce-bayes` with a targeted correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.methods.base import Method
from unskew.methods.dce_bayes import BayesianPart, exposure_of, fit_corrected, fit_posterior, part_from
from unskew.nets.base import Part, State
from unskew.posterior import defaults
from unskew.propensity.conditional import FittedExposure
from unskew.settings import check_settings, setting
from unskew.training.plan import FitContext, FitSpec, Plan, Role, Stage


class Sampled(FitSpec):
    """Settings of a part that is sampled."""

    kind: ClassVar[str] = "imputation"
    reads_features: ClassVar[bool] = True
    learns_from_all: ClassVar[bool] = True

    def from_state(self, state: State, owner: Part | None = None) -> BayesianPart:
        return part_from(state)


@dataclass(frozen=True, kw_only=True)
class BayesianFactors(Sampled):
    """The Bayesian factor model: an ordered probit on the levels of ratings as they stand, rows averaged over sweeps.

    y_ui = c + b_u + b_i + v_u . w_i + noise, rows normal around a linear function of features and of who saw what, all
    shrinkage learned by Gibbs sweeps (`posterior.gibbs`). Nothing needs tuning: `n_factors` and `prior_scale` are there
    for experiments, `sweeps=None` stops when answers stand still, `exposure=None` and `history=None` let who-saw-what
    in if left-out ratings ask for it. It learns from every rating of the log, the hold-out included.

    >>> unskew.make("dr-jl", imputation=unskew.BayesianFactors(sweeps=50)).imputation.sweeps
    50
    """

    n_factors: int = setting(defaults.FACTORS, least=1, most=256)
    sweeps: int | None = setting(None, least=2, most=1_000_000)
    prior_scale: float = setting(defaults.PRIOR_SCALE, above=0)
    exposure: bool | None = None
    history: bool | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def fit_in(self, context: FitContext) -> BayesianPart:
        return fit_posterior(context, self)


@dataclass(frozen=True, kw_only=True)
class CorrectedFactors(Sampled):
    """`BayesianFactors` with its exposure and, where left-out ratings ask for them, correction and level shift."""

    factors: BayesianFactors = setting(factory=BayesianFactors)
    corrections: bool = True
    unexplained: float = setting(defaults.UNEXPLAINED, least=0, most=1)

    def fit_in(self, context: FitContext) -> BayesianPart:
        return fit_corrected(context, self)


@dataclass(frozen=True)
class ExposureOfPrediction(FitSpec):
    """The propensity that a `CorrectedFactors` prediction brings along."""

    kind: ClassVar[str] = "propensity"

    def fit_in(self, context: FitContext) -> FittedExposure:
        return exposure_of(context.view.parts["prediction"])

    def from_state(self, state: State, owner: Part | None = None) -> FittedExposure:
        return exposure_of(owner)


@dataclass(frozen=True, kw_only=True)
class DCEBayes(Method):
    """A Bayesian factor model with a targeted correction: the default, with nothing to tune.

    In this order: (1) the posterior of `factors`, its answers mapped by a + b logit if left-out ratings ask for it; (2)
    a targeted correction by all left-out ratings, on its logit and log p with experts by user group, applied if it
    lowers the cross-fitted weighted log-loss by two standard errors; (3) a level shift if liking drives seeing by more
    than two standard errors, with `unexplained` (k) of what the model cannot explain driving it too. Each says in a
    line whether it acted.
    """

    factors: BayesianFactors = setting(factory=BayesianFactors)
    unexplained: float = setting(defaults.UNEXPLAINED, least=0, most=1)
    corrections: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)

    def plan(self) -> Plan:
        spec = CorrectedFactors(factors=self.factors, corrections=self.corrections, unexplained=self.unexplained)
        roles = {
            "prediction": Role(spec),
            "propensity": Role(ExposureOfPrediction(), clip=None, shares_with="prediction"),
        }
        stages = Stage("prediction", fits=("prediction",)), Stage("propensity", fits=("propensity",))
        return Plan(roles, stages)


@dataclass(frozen=True, kw_only=True)
class Bayes(DCEBayes):
    """A Bayesian factor model by itself, with the exposure of its log for lists: no correction and no shift."""

    corrections: ClassVar[bool] = False
