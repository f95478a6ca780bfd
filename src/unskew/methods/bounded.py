"""BRD-DR: doubly robust learning that expects hidden confounders."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unskew.methods.robust import DRJL
from unskew.methods.space import LogUniform, Space
from unskew.risk.estimators import snips
from unskew.risk.joint import worst_weights
from unskew.risk.robust import dr, imputation_error, per_stake
from unskew.training.checks import check_number
from unskew.training.plan import Copy, Plan, Stage, Update
from unskew.training.view import View

MODEL, BENCHMARK = ("prediction", "imputation"), ("benchmark", "benchmark_imputation")


@dataclass(frozen=True, kw_only=True)
class BRDDR(DRJL):
    """Benchmarked robust deconfounder: beats a frozen DR-JL under the worst propensities (Ding et al., 2022).

    Hidden confounders may have made the odds of p wrong by a factor of up to `odds_bound` (Gamma). The inverse
    propensities v that hurt the prediction most, compared with the converged DR-JL it starts from, have a closed form:
    an end of their interval by the sign of (e - e_imputed) - (e - e_imputed of the benchmark).
    """

    odds_bound: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "odds_bound", least=1)

    def space(self) -> Space:
        return super().space() | {"odds_bound": LogUniform(1.1, 10.0)}

    def worst_case(self, v: View) -> Tensor:
        """(1/|D|) [sum_D e_imputed + sum_O v (e - e_imputed)] at the v that is worst relative to the benchmark."""
        o, d = v.observed, v.sampled
        gap = o.error() - o.imputed_error()
        weight = worst_weights(gap.detach() - self.benchmark_gap(v), o.inverse_propensity(), self.odds_bound)
        return (d.total(d.imputed_error()) + o.total(weight * gap)) / v.n_pairs

    def benchmark_gap(self, v: View) -> Tensor:
        o = v.observed
        return o.error("benchmark") - o.imputed_error("benchmark", "benchmark_imputation")

    def worst_imputation(self, v: View) -> Tensor:
        """The imputation loss at its worst weights, the upper ends."""
        weight = 1 + (v.observed.inverse_propensity() - 1) * self.odds_bound
        return imputation_error(v, weight) * per_stake(v, weight)

    def benchmark_imputation_loss(self, v: View) -> Tensor:
        weight = v.observed.inverse_propensity()
        return imputation_error(v, weight, *BENCHMARK) * per_stake(v, weight, BENCHMARK[0])

    def plan(self) -> Plan:
        base = super().plan()
        roles = {
            **base.roles,
            "benchmark": base.roles["prediction"],
            "benchmark_imputation": base.roles["imputation"],
        }
        first = (
            Update(("benchmark_imputation",), self.benchmark_imputation_loss),
            Update(("benchmark",), lambda v: dr(v, *BENCHMARK)),
        )
        second = Update(("imputation",), self.worst_imputation), Update(("prediction",), self.worst_case)
        copies = tuple(Copy(source, target) for source, target in zip(BENCHMARK, MODEL, strict=True))
        stages = (
            self.propensity_stage(),
            Stage("benchmark", first, validate=lambda v: snips(v, "benchmark")),
            Stage("prediction", second, copies=copies, validate=snips),
        )
        return Plan(roles, stages, self.error_function, self.pairs_per_row)
