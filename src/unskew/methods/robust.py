"""Doubly robust methods: a prediction, an imputation that learns with it, and a propensity."""

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unskew.losses.batch import Rows, View
from unskew.losses.columns import logit, square, value_of
from unskew.losses.doubly_robust import dr, imputation_error, inverse, targeted_dr, targeted_imputation_error, variance
from unskew.losses.joint import balance, worst_weights
from unskew.losses.weighting import seen_likelihood, snips
from unskew.methods.base import NetMethod, PropensityMethod
from unskew.methods.settings import CLIP, Choice, L2Range, LogUniform, Space
from unskew.nets.base import NetSpec, Part, PartSpec
from unskew.nets.factors import MF
from unskew.propensity.base import Propensity
from unskew.propensity.counted import Popularity
from unskew.settings import setting
from unskew.training.plan import FitContext, FitSpec, Plan, Role, Stage, Update, turns

Array = NDArray[Any]


def wide() -> MF:
    """Factors that start wide: an imputation learns where the label has an effect on the error of the prediction.

    At a logit of 0 it has none, so nets that start near there teach their imputations nothing at first.
    """
    return MF(init_std=0.5)


@dataclass(frozen=True, kw_only=True)
class DRJL(PropensityMethod):
    """Doubly robust joint learning: imputation and prediction take turns on every batch (Wang et al., ICML 2019).

    The imputation minimises (1/|D|) sum_O (e - e_imputed)^2 / p, on every batch divided by the mean effect of the label
    (see `losses.doubly_robust.imputation_error`), the prediction minimises the doubly robust risk. `imputation` fills
    the role of the imputation, None for a net like the prediction's; what fits itself is fitted before and does not
    learn. `imputation_l2` defaults to `l2`; `pairs_per_row` pairs are sampled for each rating of a batch. With a
    `trade_off` (lambda) the weights 1/p become lambda (1 - p)^2 / p^3 + (1 - lambda)(1 - p) / p^2.
    """

    net: NetSpec = setting(factory=wide)
    imputation: PartSpec | None = None
    imputation_l2: float | None = setting(None, least=0)
    trade_off: float | None = setting(None, least=0, most=1)
    pairs_per_row: float = setting(2.0, above=0)

    def space(self) -> Space:
        learns = isinstance(self.imputation_part(), NetSpec)
        own: Space = {"imputation_l2": L2Range(0.001, 1.0, when_none=self.l2)} if learns else {}
        # At either end of its trade-off this is another method, and so it remains.
        own |= {"trade_off": Choice((0.25, 0.5, 0.75))} if 0 < (self.trade_off or 0) < 1 else {}
        return super().space() | own

    def imputation_part(self) -> PartSpec:
        return self.imputation or self.net

    def imputation_weight(self, w: Array) -> Array:
        """Return the weight of a rating, of w = 1/p."""
        return w if self.trade_off is None else w * (w - 1) * (self.trade_off * (w - 1) + 1 - self.trade_off)

    def imputation_loss(self, v: View) -> Any:
        return imputation_error(v, self.imputation_weight)

    def prediction_loss(self, v: View) -> Any:
        return dr(v)

    def imputation_role(self) -> Role:
        role = self.learner()._replace(part=self.imputation_part())
        return role if self.imputation_l2 is None else role._replace(l2=self.imputation_l2)

    def plan(self) -> Plan:
        nets = {"imputation": self.imputation_role(), "prediction": self.learner()}
        steps = turns(imputation=self.imputation_loss, prediction=self.prediction_loss)
        stage = Stage("prediction", steps, validate=snips)
        return Plan({"propensity": self.propensity_role(), **nets}, (stage,), self.error, self.pairs_per_row)


class ConstantRating(Part):
    """The same rating for every pair."""

    other_arrays = ("logit",)

    def __init__(self, logit: Array) -> None:
        self.logit = np.asarray(logit, np.float32)

    def logits(self, users: Array, items: Array) -> Array:
        return np.full(len(users), self.logit, np.float32)


@dataclass(frozen=True)
class MeanRating(FitSpec):
    """An imputation that learns nothing: the mean rating of the training rows for every pair."""

    kind: ClassVar[str] = "imputation"
    fitted = ConstantRating

    def fit_in(self, context: FitContext) -> ConstantRating:
        return ConstantRating(logit(context.split.train_mean, nearest=1e-6))


@dataclass(frozen=True, kw_only=True)
class DR(DRJL):
    """Doubly robust around a constant: every imputed rating is the log's mean, and nothing is learned of it."""

    imputation: PartSpec | None = MeanRating()


@dataclass(frozen=True, kw_only=True)
class MRDR(DRJL):
    """More robust doubly robust: the imputation is fitted where its error makes the risk vary (Guo et al., SIGIR 2021).

    Imputation weights (1 - p) / p^2, the variance of o/p.
    """

    trade_off: float | None = setting(0.0, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class DRMSE(DRJL):
    """DR-MSE: the imputation is fitted where its error hurts bias and variance of DR (Dai et al., KDD 2022).

    A `trade_off` of 1 is DR-BIAS, of 0 MRDR.
    """

    trade_off: float | None = setting(0.5, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class TDR(DRJL):
    """Targeted doubly robust: imputed errors are corrected along h = 1/p - 1 (Li et al., ICLR 2023).

    The correction adds epsilon h to each imputed error. `learning="collaborative"` lets the imputation learn around it,
    "joint" as in DR-JL; with "none" every imputed rating is the log's mean, and only the correction adapts. With
    `differentiate=False` epsilon is a constant for the prediction, whose slopes are then those of plain DR.
    Differentiated, the correction gives clipped ratings back some of the weight that the clip took, and the risk asks
    for about twice the `l2`, which the rule gives it.
    """

    learning: Literal["collaborative", "joint", "none"] = "collaborative"
    differentiate: bool = False

    def learner(self) -> Role:
        return super().learner()._replace(l2_factor=2.0 if self.differentiate else 1.0)

    def imputation_part(self) -> PartSpec:
        return MeanRating() if self.learning == "none" else super().imputation_part()

    def imputation_loss(self, v: View) -> Any:
        if self.learning == "joint":
            return super().imputation_loss(v)
        return targeted_imputation_error(v, self.imputation_weight)

    def prediction_loss(self, v: View) -> Any:
        # A constant epsilon adds epsilon h, which the prediction cannot move: plain DR has the same slopes.
        return targeted_dr(v) if self.differentiate else dr(v)


@dataclass(frozen=True, kw_only=True)
class TMRDR(TDR):
    """Targeted doubly robust whose imputation is weighted as in MRDR, by (1 - p) / p^2."""

    trade_off: float | None = setting(0.0, least=0, most=1)


BENCHMARK: dict[str, Any] = {"prediction": "benchmark", "imputation": "benchmark_imputation"}


@dataclass(frozen=True, kw_only=True)
class BRDDR(DRJL):
    """Benchmarked robust deconfounder: beats a frozen DR-JL under the worst propensities (Ding et al., 2022).

    Hidden confounders may have made the odds of p wrong by a factor of up to `odds_bound` (Gamma). The inverse
    propensities v that hurt the prediction most, compared with the converged DR-JL it starts from, have a closed form:
    an end of their interval by the sign of (e - e_imputed) - (e - e_imputed of the benchmark).
    """

    odds_bound: float = setting(2.0, least=1, search=LogUniform(1.1, 10.0))

    def worst_case(self, v: View) -> Any:
        """(1/|D|) [sum_D e_imputed + sum_O v (e - e_imputed)] at the v that is worst relative to the benchmark."""
        o, d = v.observed, v.sampled
        gap, benchmark = o.residual(), value_of(o.residual(*BENCHMARK.values()))
        weight = worst_weights(gap.value - benchmark, o.inverse_propensity(), self.odds_bound)
        return (d.total(d.imputed_error()) + o.total(weight * gap)) / v.n_pairs

    def worst_imputation(self, v: View) -> Any:
        """Return the imputation loss at its worst weights, the upper ends."""
        return imputation_error(v, lambda w: self.imputation_weight(1 + (w - 1) * self.odds_bound))

    def plan(self) -> Plan:
        base = super().plan()
        roles = {**base.roles, **{twin: base.roles[role] for role, twin in BENCHMARK.items()}}
        learned = partial(imputation_error, weigh=self.imputation_weight, **BENCHMARK)
        first = turns(benchmark_imputation=learned, benchmark=partial(dr, **BENCHMARK))
        second = turns(imputation=self.worst_imputation, prediction=self.worst_case)
        copies = tuple((twin, role) for role, twin in BENCHMARK.items() if isinstance(roles[role].part, NetSpec))
        stages = (
            Stage("benchmark", first, validate=partial(snips, role=BENCHMARK["prediction"])),
            Stage("prediction", second, copies=copies, validate=snips),
        )
        return Plan(roles, stages, self.error, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class StableDR(NetMethod):
    """Stabilised doubly robust: SNIPS with a propensity constrained to balance imputed errors (Li et al., ICLR 2023).

    Per batch the imputation learns as in DR-JL (`weighting="mrdr"`: with MRDR's weights), the propensity minimises its
    likelihood + `balance` times the squared imbalance (1/|D|) sum_D (o/p)(e_imputed - mean), and the prediction
    minimises the self-normalised risk. The propensity is a net, `propensity_net`, trained once beforehand.
    """

    net: NetSpec = setting(factory=wide)
    propensity_net: NetSpec = setting(factory=lambda: MF(n_factors=16, init_std=0.1))
    propensity_l2: float = setting(0.01, least=0, search=LogUniform(0.001, 0.1))
    clip: float | None = setting(None, least=0, most=1, search=CLIP)
    balance: float = setting(10.0, least=0, search=LogUniform(1.0, 100.0))
    imputation: PartSpec | None = None
    weighting: Literal["dr", "mrdr"] = "dr"
    pairs_per_row: float = setting(2.0, above=0)

    def plan(self) -> Plan:
        propensity = Role(self.propensity_net, self.learning_rate, self.propensity_l2, clip=self.clip, starts_at="seen")
        imputation = self.learner()._replace(part=self.imputation or self.net)
        roles = {"propensity": propensity, "imputation": imputation, "prediction": self.learner()}
        first = turns(propensity=seen_likelihood)
        weigh = {"dr": inverse, "mrdr": variance}[self.weighting]
        imputes, predicts = turns(imputation=partial(imputation_error, weigh=weigh), prediction=snips)
        balances = *first[0], Update(("propensity",), lambda v: square(balance(v)), self.balance)
        stages = (
            Stage("propensity", first, validate=seen_likelihood),
            Stage("prediction", (imputes, balances, predicts), validate=snips),
        )
        return Plan(roles, stages, self.error, self.pairs_per_row)


PROPENSITIES, IMPUTATIONS = ("propensity", "second_propensity"), ("imputation", "second_imputation")


def candidates(rows: Rows) -> tuple[Any, ...]:
    """u: 1/p of every propensity, e_imputed of every imputation."""
    imputed = (rows.imputed_error(imputation=role) for role in IMPUTATIONS)
    return *map(rows.inverse_propensity, PROPENSITIES), *imputed


class Shares(Part):
    """The fitted combination of MR: one share for each candidate, 1/p of every propensity and e of every imputation."""

    other_arrays = ("shares",)

    def __init__(self, shares: Array) -> None:
        self.shares = np.asarray(shares, np.float64)

    def combined(self, rows: Rows) -> Any:
        """u . eta, with the slopes of the imputed errors."""
        terms = candidates(rows)
        return sum((float(share) * term for share, term in zip(self.shares, terms, strict=True)), np.float32(0))


def solve_shares(u: NDArray[np.float64], error: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """argmin sum_O (e - u.eta)^2 + ridge |eta|^2, the shares of imputed errors not negative.

    Columns are scaled to unit length first; `ridge` is relative to that. A negative share of an imputed error would
    make the prediction *maximise* it. Whichever of these shares are 0, the others solve their normal equations: the
    best of all such solutions that are allowed is the least there is.
    """
    length = np.maximum(np.linalg.norm(u, axis=0), 1e-12)
    scaled, k, free = u / length, u.shape[1], range(len(PROPENSITIES))
    products = np.einsum("nj,nk->jk", scaled, scaled) + ridge * np.eye(k)
    towards = np.einsum("nj,n->j", scaled, error)

    def solved(kept: list[int]) -> NDArray[np.float64]:
        shares = np.zeros(k)
        shares[kept] = np.linalg.lstsq(products[np.ix_(kept, kept)], towards[kept], rcond=None)[0]
        return shares

    bound = range(len(PROPENSITIES), k)
    choices = (solved([*free, *some]) for size in range(len(bound) + 1) for some in combinations(bound, size))
    allowed = (shares for shares in choices if (shares[bound.start :] >= 0).all())
    best = min(allowed, key=lambda shares: float(shares @ products @ shares - 2 * shares @ towards))
    return np.asarray(best / length)


@dataclass(frozen=True)
class Combination(FitSpec):
    """The role of the combination: solved anew on all training rows whenever it is asked for."""

    fitted = Shares

    ridge: float

    def fit_in(self, context: FitContext) -> Shares:
        o = context.train.observed
        u = np.column_stack([value_of(column) for column in candidates(o)]).astype(np.float64)
        return Shares(solve_shares(u, value_of(o.error()).astype(np.float64), self.ridge))


@dataclass(frozen=True, kw_only=True)
class MR(DRJL):
    """Multiple robust: right if any candidate propensity or imputation is, or a mix of them (Li et al., 2023).

    The error is regressed on u = (1/p_1, 1/p_2, e_imputed_1, e_imputed_2) over all seen ratings, once an epoch; the
    prediction minimises (1/|D|) [sum_D u.eta + sum_O mean_j (e - u.eta)/p_j]. The first imputation is weighted by 1/p,
    the second as in MRDR; `second_propensity` is the other candidate; `ridge` keeps nearly equal candidates apart.
    """

    second_propensity: Propensity = setting(factory=Popularity)
    ridge: float = setting(1e-3, least=0, search=LogUniform(1e-4, 0.1))

    def prediction_loss(self, v: View) -> Any:
        o, d, shares = v.observed, v.sampled, v.parts["combination"]
        weight = (o.inverse_propensity(PROPENSITIES[0]) + o.inverse_propensity(PROPENSITIES[1])) / 2
        return (d.total(shares.combined(d)) + o.total((o.error() - shares.combined(o)) * weight)) / v.n_pairs

    def plan(self) -> Plan:
        roles = {
            "propensity": self.propensity_role(),
            "second_propensity": self.propensity_role()._replace(part=self.second_propensity),
            "imputation": self.imputation_role(),
            "second_imputation": self.imputation_role()._replace(part=self.net),
            "prediction": self.learner(),
            "combination": Role(Combination(self.ridge)),
        }
        second = partial(imputation_error, weigh=variance, imputation="second_imputation")
        steps = turns(imputation=self.imputation_loss, second_imputation=second, prediction=self.prediction_loss)
        alone = (Stage("imputation", fits=("imputation",)),) if isinstance(self.imputation, FitSpec) else ()
        stages = (
            *alone,  # and calibrated, if it is, before it is combined
            Stage("combination", fits=("combination",)),
            Stage("prediction", steps, fits=("combination",), validate=snips),
        )
        return Plan(roles, stages, self.error, self.pairs_per_row)
