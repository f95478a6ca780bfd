"""A propensity that knows how often each rating is met among random pairs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DataError, ParameterError
from unskew.group import Group
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values
from unskew.propensity.tables import Uniform
from unskew.training.checks import check_number
from unskew.training.options import Training
from unskew.unbiased.family import MOST_LEVELS, Family
from unskew.unbiased.learn import FEWEST
from unskew.unbiased.lines import fit_line
from unskew.unbiased.report import Use
from unskew.unbiased.trust import judge

ROWS_AT_ONCE = 1 << 20


class FittedNaiveBayes(FittedPropensity):
    """P(seen) of the base, and P(seen given the rating) = P(seen) P(r given seen) / P(r), at most 1."""

    stored = ("base", "ratings", "ratio")

    def __init__(self, base: FittedPropensity, ratings: Values, ratio: Values, uses: tuple[Use, ...] = ()) -> None:
        self.base, self.ratings, self.ratio, self.uses = base, ratings, ratio, uses
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
    another, ratings given seen are counted by 1 / max(p, |O|/|D|). The slice is passed to `fit(log, unbiased=...)` and
    must not be test data. P(r) is a mixture of three rivals, each trusted as it foretells random ratings left out: that
    of the log, that of the log tilted by exp(theta r) and, for graded ratings, how often each was drawn, with `prior`
    ratings of the log's own kind counted in.
    """

    fitted = FittedNaiveBayes

    base: Propensity = field(default_factory=Uniform)
    prior: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "prior", above=0)

    def fit_split(self, split: Split, *, seed: int, training: Training, unbiased: RatingLog | None) -> FittedNaiveBayes:
        if unbiased is None:
            raise ParameterError("NaiveBayes needs random ratings: pass fit(log, unbiased=random_log).")
        base = self.base.fit_split(split, seed=seed, training=training, unbiased=unbiased)
        if base.knows_ratings:
            name = type(self.base).__name__
            raise ParameterError(
                f"The base of NaiveBayes must not depend on the rating, as {name} does; use Factors()."
            )
        levels, in_log = _given_seen(base, split)
        log_chances, uses = self.among_all(levels, np.log(in_log), unbiased.ratings, seed)
        ratio = in_log / np.exp(log_chances)
        if ratio.max() * split.facts.density > 1:
            raise DataError("The unbiased slice implies a propensity above 1; it is too small or not random.")
        return FittedNaiveBayes(base, levels, ratio, uses)

    def among_all(
        self, levels: Values, log_seen: Values, ratings: NDArray[np.float32], seed: int
    ) -> tuple[Values, tuple[Use, ...]]:
        """log P(r) of every level, and what the rivals were worth."""
        family, n = Family(levels, log_seen), len(levels)

        def nothing(drawn: _Drawn) -> Values:
            return log_seen

        def tilted(drawn: _Drawn) -> Values:
            values = levels[drawn.level]
            _, theta = fit_line(family, np.zeros(len(drawn)), values, slope=False)
            return _normalised(log_seen + theta * levels)

        def counted(drawn: _Drawn) -> Values:
            counts = np.bincount(drawn.level, minlength=n) + self.prior * np.exp(log_seen)
            return np.asarray(np.log(counts / counts.sum()))

        rivals = {"nothing": nothing, "tilted P(r)": tilted} | ({"counted P(r)": counted} if n > 2 else {})
        drawn = _Drawn(_nearest(levels, ratings))
        if len(drawn) < FEWEST:
            return log_seen, (Use("propensity", "P(r)", f"not tried: {FEWEST} ratings are needed"),)
        fitted, trust, uses = judge(
            rivals,
            drawn,
            lambda left_out, found: found[left_out.level],
            lambda found: f"mean {np.exp(found) @ levels:.3f}",
            role="propensity",
            seed=seed,
        )
        return _normalised(trust @ np.array(fitted)), tuple(uses)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The levels of random ratings."""

    level: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.level)

    def take(self, rows: NDArray[np.bool_]) -> _Drawn:
        return _Drawn(self.level[rows])


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


def _normalised(log_chances: Values) -> Values:
    return np.asarray(log_chances - logsumexp(log_chances))
