"""Fill the roles of the Bayesian methods from a log: what the sampler is given, and a bar over its sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unskew.methods.dce_bayes import (
    Answers,
    BayesianPart,
    exposure_of,
    fit_answers,
    given_of,
    part_of,
    with_average,
)
from unskew.nets.base import State
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors as Sampler
from unskew.posterior.factors import sample
from unskew.posterior.flat import unflat
from unskew.runtime import bar
from unskew.training.plan import FitContext

if TYPE_CHECKING:
    from unskew.methods.bayesian import BayesianFactors

__all__ = ["exposure_of", "fit_corrected", "fit_posterior", "part_from"]


def fit_posterior(context: FitContext, factors: BayesianFactors) -> BayesianPart:
    """Fit the posterior alone."""
    log, given, scale = _given(context, factors)
    with _Progress(context) as progress:
        found = sample(log, **given, progress=progress)
    return part_of(Answers(with_average(found.posterior), found.posterior.notes, scale, chain=found.state()))


def fit_corrected(
    context: FitContext, factors: BayesianFactors, *, corrections: bool, unexplained: float
) -> BayesianPart:
    """Fit the posterior, its exposure, and what left-out ratings ask for."""
    log, given, scale = _given(context, factors)
    given |= {"corrections": corrections and scale is None, "unexplained": unexplained, "scale": scale}
    if (random := context.random_ratings) is not None:
        given["random"] = Pairs(random.users, random.items, log.n_users, log.n_items, random.ratings).checked()
    with _Progress(context) as progress:
        return part_of(fit_answers(log, **given, progress=progress))


def part_from(state: State) -> BayesianPart:
    """Return the part of a state."""
    return part_of(unflat(Answers, state))


def _given(context: FitContext, factors: BayesianFactors) -> tuple[Pairs, dict[str, Any], tuple[float, float] | None]:
    """Return what the sampler is given of a log, and the ends of the scale of a graded one."""
    pairs, features, liked_from, scale = given_of(context.log)
    settings = Sampler(
        d=factors.n_factors, sweeps=factors.sweeps, prior_scale=factors.prior_scale, exposure=factors.exposure,
        history=factors.history, liked_from=liked_from,
    )  # fmt: skip
    return pairs, {"settings": settings, **features, "seed": int(context.rng.integers(2**31))}, scale


class _Progress:
    """A bar over sweeps for whatever the sampler is doing."""

    def __init__(self, context: FitContext) -> None:
        self.shown, self._bar, self._what = context.training.progress, None, ""
        self._open: Any = None

    def __enter__(self) -> Any:
        return self.advance

    def advance(self, done: int, total: int, what: str) -> None:
        if what != self._what:
            self.__exit__()
            self._what, self._open = what, bar(what, total, "sweep", shown=self.shown, at_most=True)
            self._bar = self._open.__enter__()
        if self._bar is not None:
            self._bar.advance()

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
