"""A propensity that knows how often each rating is met among random pairs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DataError, ParameterError
from unskew.group import Group
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values
from unskew.propensity.tables import Uniform
from unskew.training.checks import check_number
from unskew.training.options import Training

ROWS_AT_ONCE = 1 << 20
MOST_LEVELS = 12


class FittedNaiveBayes(FittedPropensity):
    """P(seen) of the base, and P(seen given the rating) = P(seen) P(r given seen) / P(r), at most 1."""

    stored = ("base", "ratings", "ratio")

    def __init__(self, base: FittedPropensity, ratings: Values, ratio: Values) -> None:
        self.base, self.ratings, self.ratio = base, ratings, ratio
        self.notes, self.answers_unseen = base.notes, base.answers_unseen

    def pair(self, users: Codes, items: Codes) -> Values:
        return self.base.pair(users, items)

    def given_rating(self, users: Codes, items: Codes, ratings: ArrayLike) -> Values:
        return np.minimum(self.pair(users, items) * self.ratio[_nearest(self.ratings, ratings)], 1.0)

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        return self.base.vectors(users)

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        return self.base(users, items)

    def gather(self, group: Group) -> None:
        self.base.gather(group)
        super().gather(group)


@dataclass(frozen=True, kw_only=True)
class NaiveBayes(Propensity):
    """P(seen given u, i, r) = P(seen given u, i) P(r given seen) / P(r), with P(r) from a slice of random ratings.

    Schnabel et al., ICML 2016, for whom P(seen given u, i) is the same for all pairs, as with the default `base`; with
    another, ratings given seen are counted by 1 / max(p, |O|/|D|). The random ratings are passed to `fit(log,
    random_ratings=...)` and must not be test data. P(r) is how often each was drawn, with `prior` ratings of the log's
    own kind counted in.
    """

    fitted = FittedNaiveBayes

    base: Propensity = field(default_factory=Uniform)
    prior: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "prior", above=0)

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedNaiveBayes:
        if random_ratings is None:
            raise ParameterError("NaiveBayes needs random ratings: pass fit(log, random_ratings=random_log).")
        base = self.base.fit_split(split, seed=seed, training=training, random_ratings=random_ratings)
        if base.knows_ratings:
            name = type(self.base).__name__
            raise ParameterError(
                f"The base of NaiveBayes must not depend on the rating, as {name} does; use Factors()."
            )
        levels, in_log = _given_seen(base, split)
        drawn = np.bincount(_nearest(levels, random_ratings.ratings), minlength=len(levels)) + self.prior * in_log
        ratio = in_log * drawn.sum() / drawn
        if ratio.max() * split.facts.density > 1:
            raise DataError("The random ratings imply a propensity above 1; they are too few or not random.")
        return FittedNaiveBayes(base, levels, ratio)


def _given_seen(base: FittedPropensity, split: Split) -> tuple[Values, Values]:
    """The levels of ratings and how often each is met among seen pairs, were all pairs as likely to be seen."""
    log, group, density = split.log, split.group, split.facts.density
    levels = np.unique(np.concatenate(group.gathered(np.unique(log.ratings)))).astype(np.float64)
    if len(levels) > MOST_LEVELS:
        levels = np.linspace(levels[0], levels[-1], MOST_LEVELS)
    total = np.zeros(len(levels))
    for start in range(0, len(log), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        weight = density / np.maximum(base.pair(log.users[rows], log.items[rows]), density)
        total += np.bincount(_nearest(levels, log.ratings[rows]), weight, minlength=len(levels))
    total = np.asarray(group.total(total), np.float64)
    return levels[total > 0], total[total > 0] / total.sum()


def _nearest(levels: Values, ratings: ArrayLike) -> NDArray[np.int64]:
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, np.asarray(ratings, np.float64))
