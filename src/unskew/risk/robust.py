"""Doubly robust risks: imputed errors for all pairs, corrected on the seen ones.

Notation as in `estimators`; e_imputed is the error of the prediction against the imputed rating.
"""

from __future__ import annotations

from torch import Tensor

from unskew.risk.closed import DoublyRobust, closed_form
from unskew.risk.sample import Pairs, Sample


@closed_form(DoublyRobust())
def dr(v: Sample, prediction: str = "prediction", imputation: str = "imputation") -> Tensor:
    """(1/|D|) [ sum_D e_imputed + sum_O (e - e_imputed) / p ]: unbiased if either p or the imputation is true.

    Wang et al., ICML 2019. On a mini-batch the second sum carries the factor |O|/|D| through the rows' weights.
    """
    o, d = v.observed, v.sampled
    residual = (o.error(prediction) - o.imputed_error(prediction, imputation)) * o.inverse_propensity()
    return (d.total(d.imputed_error(prediction, imputation)) + o.total(residual)) / v.n_pairs


def imputation_error(
    v: Sample, weight: Tensor, prediction: str = "prediction", imputation: str = "imputation"
) -> Tensor:
    """(1/|D|) sum_O weight (e - e_imputed)^2: with weight 1/p the loss of DR-JL, with (1 - p)/p^2 that of MRDR."""
    o = v.observed
    gap = o.error(prediction) - o.imputed_error(prediction, imputation)
    return o.total(weight * gap.square()) / v.n_pairs


def per_stake(v: Sample, weight: Tensor, prediction: str = "prediction") -> Tensor:
    """|D| / sum_O weight (e1 - e0)^2: makes an imputation loss a weighted mean of (r - r_imputed)^2.

    e - e_imputed = (e1 - e0)(r - r_imputed), so the loss fades wherever the prediction is undecided, and any L2 would
    take over. Dividing by the mean stake changes the loss by a factor that the imputation cannot move.
    """
    o = v.observed
    return (v.n_pairs / o.total(weight * o.stake(prediction).square()).clamp(min=1e-12)).detach()


def target_covariate(pairs: Pairs) -> Tensor:
    """h = 1/p - 1."""
    return pairs.inverse_propensity() - 1


def target_epsilon(o: Pairs) -> Tensor:
    """epsilon = sum_O h (e - e_imputed) / sum_O h^2: then sum_O h (e - e_imputed - epsilon h) = 0.

    If all propensities are 1 there is nothing to correct and epsilon is 0.
    """
    h = target_covariate(o)
    return o.total(h * (o.error() - o.imputed_error())) / o.total(h.square()).clamp(min=1e-12)


def targeted_dr(v: Sample, *, differentiate: bool = True) -> Tensor:
    """The doubly robust risk with imputed errors e_imputed + epsilon h (Li et al., ICLR 2023).

    epsilon h adds nothing to the gradient unless epsilon itself is differentiated.
    """
    o, d = v.observed, v.sampled
    epsilon = target_epsilon(o)
    if not differentiate:
        epsilon = epsilon.detach()
    direct = d.imputed_error() + epsilon * target_covariate(d)
    residual = (o.error() - o.imputed_error() - epsilon * target_covariate(o)) * o.inverse_propensity()
    return (d.total(direct) + o.total(residual)) / v.n_pairs


def targeted_imputation_error(v: Sample, weight: Tensor) -> Tensor:
    """(1/|D|) sum_O weight (e - e_imputed - epsilon h)^2, epsilon held fixed: the imputation learns what is left."""
    o = v.observed
    residual = o.error() - o.imputed_error() - target_epsilon(o).detach() * target_covariate(o)
    return o.total(weight * residual.square()) / v.n_pairs
