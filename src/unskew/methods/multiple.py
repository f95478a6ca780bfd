"""MR: several propensities and several imputations, combined by least squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from torch import Tensor

from unskew.methods.base import PropensityMethod
from unskew.methods.space import LogUniform, Space
from unskew.propensity.base import Propensity
from unskew.propensity.tables import Popularity
from unskew.risk.estimators import snips
from unskew.risk.robust import imputation_error, per_stake
from unskew.training.checks import check_number
from unskew.training.fitted import Occasion
from unskew.training.plan import Fit, Plan, Role, Stage, Update
from unskew.training.view import RowsView, View

PROPENSITIES, IMPUTATIONS = ("propensity", "second_propensity"), ("imputation", "second_imputation")


def candidates(rows: RowsView) -> Tensor:
    """u = (1/p of every propensity, e_imputed of every imputation), one row a pair."""
    weights = [rows.inverse_propensity(role).detach() for role in PROPENSITIES]
    return torch.stack([*weights, *(rows.imputed_error(imputation=role) for role in IMPUTATIONS)], 1)


class Shares:
    """The fitted combination: one share for each candidate."""

    stored: ClassVar[tuple[str, ...]] = ("shares",)

    def __init__(self, shares: NDArray[np.float64]) -> None:
        self.shares = np.asarray(shares)

    def joined_by(self, counts: NDArray[np.int64]) -> Shares:
        return self


def solve_shares(u: NDArray[np.float64], error: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """argmin sum_O (e - u.eta)^2 + ridge |eta|^2, the shares of imputed errors not negative.

    Columns are scaled to unit length first; `ridge` is relative to that. A negative share of an imputed error would
    make the prediction *maximise* it.
    """
    length = np.linalg.norm(u, axis=0)
    scaled = u / np.maximum(length, 1e-12)
    k = u.shape[1]
    rows = np.vstack([scaled, np.sqrt(ridge) * np.eye(k)])
    low = np.where(np.arange(k) < len(PROPENSITIES), -np.inf, 0.0)
    found = lsq_linear(rows, np.concatenate([error, np.zeros(k)]), bounds=(low, np.inf))
    return np.asarray(found.x / np.maximum(length, 1e-12))


@dataclass(frozen=True)
class Combines:
    """The role of the combination: solved anew on all training rows whenever it is asked for."""

    fitted: ClassVar[type] = Shares
    ridge: float

    @torch.no_grad()
    def fit_on(self, occasion: Occasion, previous: Any) -> Shares:
        o, group = occasion.train.observed, occasion.split.group
        rows = torch.column_stack([candidates(o), o.error()]).double().numpy(force=True)
        if not group.alone:  # a triangle in the place of each worker's rows has the same sums of squares
            triangle: NDArray[np.float64] = np.linalg.qr(rows, mode="r")  # type: ignore[assignment]
            rows = np.concatenate(group.gathered(triangle))
        return Shares(solve_shares(rows[:, :-1], rows[:, -1], self.ridge))


@dataclass(frozen=True, kw_only=True)
class MR(PropensityMethod):
    """Multiple robust: right if any candidate propensity or imputation is, or a mix of them (Li et al., 2023).

    The error is regressed on u = (1/p_1, 1/p_2, e_imputed_1, e_imputed_2) over all seen ratings, once an epoch; the
    prediction minimises (1/|D|) [sum_D u.eta + sum_O mean_j (e - u.eta)/p_j]. The first imputation is weighted by 1/p,
    the second as in MRDR; `second_propensity` is the other candidate; `ridge` keeps nearly equal candidates apart.
    """

    second_propensity: Propensity = field(default_factory=Popularity)
    ridge: float = 1e-3
    pairs_per_row: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "ridge", least=0)
        check_number(self, "pairs_per_row", above=0)

    def space(self) -> Space:
        return super().space() | {"ridge": LogUniform(1e-4, 0.1)}

    def prediction_loss(self, v: View) -> Tensor:
        o, d = v.observed, v.sampled
        eta = torch.from_numpy(v.cast.players["combination"].shares).to(o.ratings)
        residual = o.error() - candidates(o) @ eta
        weight = torch.stack([o.inverse_propensity(role) for role in PROPENSITIES]).mean(0)
        return (d.total(candidates(d) @ eta) + o.total(residual * weight)) / v.n_pairs

    def first_loss(self, v: View) -> Tensor:
        weight = v.observed.inverse_propensity()
        return imputation_error(v, weight) * per_stake(v, weight)

    def second_loss(self, v: View) -> Tensor:
        weight = v.observed.inverse_propensity()
        weight = weight * (weight - 1)
        return imputation_error(v, weight, imputation="second_imputation") * per_stake(v, weight)

    def plan(self) -> Plan:
        roles = {
            "propensity": self.propensity_role(),
            "second_propensity": Role(self.second_propensity, clip=self.clip),
            **{role: self.learner() for role in (*IMPUTATIONS, "prediction")},
            "combination": Role(Combines(self.ridge)),
        }
        updates = (
            Update(("imputation",), self.first_loss),
            Update(("second_imputation",), self.second_loss),
            Update(("prediction",), self.prediction_loss),
        )
        stages = (
            Stage("propensity", fits=tuple(map(Fit, PROPENSITIES))),
            Stage("prediction", updates, fits=(Fit("combination"), Fit("combination", per="epoch")), validate=snips),
        )
        return Plan(roles, stages, self.error_function, self.pairs_per_row)
