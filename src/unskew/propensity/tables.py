"""Propensities that are looked up or counted, not learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from unskew.data.duplicates import pair_keys
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DataError, ParameterError
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values, refuse_spread
from unskew.training.options import Training


class FittedItems(FittedPropensity):
    """One propensity an item."""

    stored = ("of_item",)

    def __init__(self, of_item: Values) -> None:
        self.of_item = of_item

    def pair(self, users: Codes, items: Codes) -> Values:
        return self.of_item[items]


@dataclass(frozen=True, kw_only=True)
class Uniform(Propensity):
    """p = |O|/|D| for every pair: what missing completely at random would mean."""

    fitted = FittedItems

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        return FittedItems(np.full(split.facts.n_items, split.facts.density))


@dataclass(frozen=True, kw_only=True)
class Popularity(Propensity):
    """p proportional to n_i^exponent, n_i the ratings of item i.

    Scaled so that the mean over all pairs is the base rate |O|/|D|; `relative=True` is the score of the
    implicit-feedback literature, (n_i / max_j n_j)^exponent, whose level means nothing. An item nobody rated
    counts as half a rating.
    """

    fitted = FittedItems

    exponent: float = 0.5
    relative: bool = False

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        log = split.log
        counts = split.group.total(np.bincount(log.items, minlength=log.n_items)).astype(np.float64)
        unrated = int((counts == 0).sum())
        score = (np.maximum(counts, 0.5) / counts.max()) ** self.exponent
        fitted = FittedItems(score if self.relative else _scaled(score, split.facts.density))
        if unrated:
            fitted.notes = (f"{unrated} items without a rating were counted as half a rating each.",)
        return fitted


def _scaled(score: Values, base_rate: float) -> Values:
    """min(1, c score) with c such that the mean is the base rate."""
    if base_rate >= 1 or score.min() == score.max():
        return np.full_like(score, base_rate)
    c = brentq(lambda c: np.minimum(c * score, 1).mean() - base_rate, 0, 1 / score.min())
    return np.asarray(np.minimum(c * score, 1))


class KnownColumn:
    """Propensities of a log's rows, looked up by pair."""

    def __init__(self, log: RatingLog, column: NDArray[np.float64]) -> None:
        _check_known(column, len(log))
        self.column, self._n_items = column, log.n_items
        keys = pair_keys(log.users, log.items, log.n_items)
        order = np.argsort(keys)
        self._keys, self._values = keys[order], column[order].astype(np.float64)

    def __call__(self, users: Codes, items: Codes) -> Values:
        wanted = pair_keys(users, items, self._n_items)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        if (self._keys[place] != wanted).any():
            raise DataError(
                "The known propensities are a column of the log and say nothing of unseen pairs; "
                "this method needs them: pass a function of (users, items)."
            )
        return np.asarray(self._values[place])


class FittedKnown(FittedPropensity):
    """Propensities a function gives."""

    def __init__(self, function: Callable[[Codes, Codes], ArrayLike]) -> None:
        self.function = function
        self.answers_unseen = not isinstance(function, KnownColumn)

    def pair(self, users: Codes, items: Codes) -> Values:
        p = np.asarray(self.function(users, items), np.float64)
        _check_known(p, len(users))
        return p

    def joined_by(self, counts: NDArray[np.int64]) -> FittedKnown:
        raise ParameterError("Known propensities say nothing of new users: fit the model again with their ratings.")

    def arrays(self) -> dict[str, NDArray[np.float64]] | None:
        """A column of the log is data; a function is not."""
        return {"column": self.function.column} if isinstance(self.function, KnownColumn) else None

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.float64]], recipe: Known, log: RatingLog) -> FittedKnown:
        return cls(KnownColumn(log, arrays["column"]))


class FittedKnownWithRating(FittedKnown):
    """Propensities a function gives, and a second one for pairs whose rating is known."""

    def __init__(
        self,
        function: Callable[[Codes, Codes], ArrayLike],
        with_rating: Callable[[Codes, Codes, NDArray[np.float64]], ArrayLike],
    ) -> None:
        super().__init__(function)
        self.with_rating = with_rating

    def given_rating(self, users: Codes, items: Codes, ratings: ArrayLike) -> Values:
        p = np.asarray(self.with_rating(users, items, np.asarray(ratings, np.float64)), np.float64)
        _check_known(p, len(users))
        return p


def _check_known(p: Values, expected: int) -> None:
    if p.shape != (expected,):
        raise DataError(f"The known propensity gave an array of shape {p.shape} for {expected} pairs.")
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        raise DataError(f"The known propensity of a pair is {p[bad][0]}; it must be above 0 and at most 1.")


@dataclass(frozen=True)
class Known(Propensity):
    """Propensities the user supplies: a function of (user codes, item codes), or a column of the log's rows.

    A column holds one value a rating, in the log's order: enough for weighting seen pairs (IPS, SNIPS), and
    refused with a sentence where a method asks for a pair that was not seen. `given_rating` may add a function of
    (user codes, item codes, ratings in [0, 1]).
    """

    fitted = FittedKnown

    pairs: Callable[[Codes, Codes], ArrayLike] | ArrayLike
    given_rating: Callable[[Codes, Codes, NDArray[np.float64]], ArrayLike] | None = None

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        refuse_spread(self, split)
        function = self.pairs if callable(self.pairs) else KnownColumn(split.log, np.asarray(self.pairs))
        if self.given_rating is None:
            return FittedKnown(function)
        return FittedKnownWithRating(function, self.given_rating)
