"""A propensity that knows how often each rating occurs among random pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.losses.columns import Array
from unskew.nets.base import Part, State
from unskew.propensity.base import FittedPropensity, Propensity, Values
from unskew.propensity.counted import Uniform
from unskew.settings import setting
from unskew.training.plan import Given

MOST_LEVELS = 12  # more distinct ratings than these are counted by the nearest of as many levels


class BayesPropensity(FittedPropensity):
    """P(seen) of the base, and P(seen given the rating) = P(seen) P(r given seen) / P(r), at most 1."""

    knows_ratings = True

    def __init__(self, base: FittedPropensity, levels: Values, ratio: Array) -> None:
        self.base, self.levels, self.ratio = base, levels, ratio.astype(np.float32)
        self.notes, self.answers_unseen, self.history = base.notes, base.answers_unseen, base.history

    def logits(self, users: Array, items: Array) -> Array:
        return self.base.logits(users, items)

    def user_vectors(self, users: Array) -> Array:
        return self.base.user_vectors(users)

    def rating_ratio(self, users: Array, items: Array, ratings: Array) -> Array:
        return self.ratio[_nearest(self.levels, ratings)]

    def state(self) -> dict[str, Array]:
        base = {f"base.{name}": value for name, value in self.base.state().items()}
        return base | {"levels": self.levels, "ratio": self.ratio}

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> BayesPropensity:
        return BayesPropensity(cast(FittedPropensity, self.base.extended(counts, n_items)), self.levels, self.ratio)


@dataclass(frozen=True, kw_only=True)
class NaiveBayes(Propensity):
    """P(seen given u, i, r) = P(seen given u, i) P(r given seen) / P(r), with P(r) from random ratings.

    Schnabel et al., ICML 2016, where P(seen given u, i) is the same for all pairs, as with the default `base`; with
    another, ratings given seen are counted by 1 / max(p, |O|/|D|). P(r) is how often each rating occurs among the
    random ones, with `prior` ratings of the log's own kind counted in. Random ratings must not be test data.
    """

    base: Propensity = setting(factory=Uniform)
    prior: float = setting(1.0, above=0)

    def fit_in(self, given: Given) -> BayesPropensity:
        if given.random_ratings is None:
            raise ParameterError("NaiveBayes needs random ratings: pass random_ratings=random_log to the fit.")
        base = self.base.fit_in(given)
        if base.knows_ratings:
            does = f"as {type(self.base).__name__} does"
            raise ParameterError(f"The base of NaiveBayes must not depend on the rating, {does}; use Factors().")
        levels, in_log = _given_seen(base, given.log)
        drawn = np.bincount(_nearest(levels, given.random_ratings.ratings), minlength=len(levels))
        ratio = in_log * (drawn.sum() + self.prior) / (drawn + self.prior * in_log)
        if ratio.max() * given.log.density > 1:
            raise DataError("The random ratings imply a propensity above 1; they are too few or not random.")
        return BayesPropensity(base, levels, ratio)

    def from_state(self, state: State, owner: Part | None = None) -> BayesPropensity:
        known = {name.removeprefix("base."): value for name, value in state.items() if name.startswith("base.")}
        return BayesPropensity(cast(FittedPropensity, self.base.from_state(known)), state["levels"], state["ratio"])


def _given_seen(base: FittedPropensity, log: RatingLog) -> tuple[Values, Values]:
    """The levels of ratings and how often each occurs among seen pairs, were all pairs as likely to be seen."""
    levels, density = np.unique(log.ratings).astype(np.float64), log.density
    if len(levels) > MOST_LEVELS:
        levels = np.linspace(levels[0], levels[-1], MOST_LEVELS)
    weight = density / np.maximum(base.pair(log.users, log.items), density)
    total = np.bincount(_nearest(levels, log.ratings), weight, minlength=len(levels))
    return levels[total > 0], total[total > 0] / total.sum()


def _nearest(levels: Values, ratings: ArrayLike) -> Array:
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, np.asarray(ratings, np.float64))
