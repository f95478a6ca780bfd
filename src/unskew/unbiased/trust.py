"""How far to follow what random ratings seem to say: rivals are judged out of fold and mixed, not chosen.

Rival k is fitted to all folds of a slice but one and judged by the log-likelihood of the fold left out; elpd_k is the
sum over folds. The mixture has the weights

    w_k proportional to 2^-k exp(elpd_k),

Akaike's with cross-validation in place of his penalty (pseudo-BMA in Yao et al., Bayesian Analysis 2018), rivals in the
order of how much they change. So what a few ratings seem to say is followed a little of the way, and what many say
all the way. With one shift to be learned this costs a quarter of that shift's variance where none is needed and at most
twice the variance anywhere, while the rule of one standard error costs up to four times as much as the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from unskew.unbiased.report import Use

Values = NDArray[np.float64]

N_FOLDS = 10
NEGLIGIBLE = 0.01  # trust that counts as none
Fitted = TypeVar("Fitted")


class Sample(Protocol):
    """Random ratings, some of which can be left out."""

    def __len__(self) -> int: ...

    def take(self, rows: NDArray[Any]) -> Self: ...


SampleOf = TypeVar("SampleOf", bound=Sample)


def judge(
    rivals: Mapping[str, Callable[[SampleOf], Fitted]],
    sample: SampleOf,
    log_likelihood: Callable[[SampleOf, Fitted], Values],
    in_words: Callable[[Fitted], str],
    *,
    role: str,
    seed: int,
) -> tuple[list[Fitted], Values, list[Use]]:
    """All rivals fitted to the whole sample, their weights, and reports of all but the first, which does nothing."""
    told = [_out_of_fold(rival, sample, log_likelihood, seed) for rival in rivals.values()]
    trust = trusted(np.array([each.sum() for each in told]))
    fitted = [rival(sample) for rival in rivals.values()]
    uses = []
    for name, own, each, weight in zip(rivals, fitted, told, trust, strict=True):
        gain = each - told[0]
        error = float(np.sqrt(len(sample)) * gain.std())
        uses.append(Use(role, name, in_words(own), float(gain.sum()), error, float(weight)))
    return fitted, trust, uses[1:]


def trusted(elpd: Values) -> Values:
    """The weights of rivals by their expected log predictive densities; those below a hundredth are none."""
    log_weight = elpd - np.log(2) * np.arange(len(elpd))
    weight = np.exp(log_weight - log_weight.max())
    weight = np.where(weight < NEGLIGIBLE * weight.sum(), 0.0, weight)
    return np.asarray(weight / weight.sum())


def _out_of_fold(
    rival: Callable[[SampleOf], Fitted],
    sample: SampleOf,
    log_likelihood: Callable[[SampleOf, Fitted], Values],
    seed: int,
) -> Values:
    n = len(sample)
    fold = np.random.default_rng([seed, 0x666F6C64]).permutation(np.arange(n) % min(N_FOLDS, n))
    found = np.empty(n)
    for k in range(fold.max() + 1):
        inside = fold == k
        found[inside] = log_likelihood(sample.take(inside), rival(sample.take(~inside)))
    return found
