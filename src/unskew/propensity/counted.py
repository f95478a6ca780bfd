"""Propensities that are looked up or counted, not learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unskew.data.pairs import pair_keys
from unskew.errors import DataError, ParameterError
from unskew.losses.columns import Array
from unskew.losses.elementwise import root
from unskew.nets.base import Part, State, extended_rows
from unskew.propensity.base import FittedPropensity, Propensity, Values, logit_of
from unskew.training.plan import Given


class ItemPropensity(FittedPropensity):
    """One propensity an item, the last one that of unknown items."""

    def __init__(self, of_item: Array) -> None:
        self.of_item = of_item.astype(np.float32)

    @classmethod
    def of(cls, p: Values) -> ItemPropensity:
        return cls(logit_of(np.append(p, p.mean())))

    def logits(self, users: Array, items: Array) -> Array:
        return self.of_item[items]

    def state(self) -> dict[str, Array]:
        return {"of_item": self.of_item}

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> ItemPropensity:
        return ItemPropensity(extended_rows(self.of_item[:, None], n_items)[:, 0])


class CountedByItem(Propensity):
    """Settings of a propensity that depends on the item alone."""

    def from_state(self, state: State, owner: Part | None = None) -> ItemPropensity:
        return ItemPropensity(state["of_item"])


@dataclass(frozen=True, kw_only=True)
class Uniform(CountedByItem):
    """p = |O|/|D| for every pair: what missing completely at random would mean."""

    def fit_in(self, given: Given) -> ItemPropensity:
        return ItemPropensity.of(np.full(given.log.n_items, given.log.density))


@dataclass(frozen=True, kw_only=True)
class Popularity(CountedByItem):
    """p proportional to n_i^exponent, n_i the ratings of item i.

    Scaled so that the mean over all pairs is the base rate |O|/|D|; `relative=True` is the score of the
    implicit-feedback literature, (n_i / max_j n_j)^exponent, whose level means nothing. An item nobody rated
    counts as half a rating.
    """

    needs_all_pairs = True

    exponent: float = 0.5
    relative: bool = False

    def fit_in(self, given: Given) -> ItemPropensity:
        counts = np.bincount(given.log.items, minlength=given.log.n_items)
        score = (np.maximum(counts, 0.5) / counts.max()) ** self.exponent
        fitted = ItemPropensity.of(score if self.relative else _scaled(score, given.log.density))
        if unrated := int((counts == 0).sum()):
            fitted.notes = (f"{unrated} items without a rating were counted as half a rating each.",)
        return fitted


def _scaled(score: Values, base_rate: float) -> Values:
    """min(1, c score) with c such that the mean is the base rate."""
    if base_rate >= 1 or score.min() == score.max():
        return np.full_like(score, base_rate)

    def excess(c: float) -> tuple[float, float]:
        return float(np.minimum(c * score, 1).mean() - base_rate), float((score * (c * score < 1)).mean())

    return np.asarray(np.minimum(root(excess, 0, 1 / score.min()) * score, 1))


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Propensities of single pairs, by their keys in order."""

    keys: Array
    p: Array
    n_items: int

    def __call__(self, users: Array, items: Array) -> Values:
        wanted = pair_keys(users, items, self.n_items)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        if (self.keys[place] != wanted).any():
            raise DataError(
                "The known propensities are a column of the log and do not cover unseen pairs; "
                "this method needs them: pass a function of (users, items)."
            )
        return np.asarray(self.p[place])


class KnownPropensity(FittedPropensity):
    """Propensities that a function gives, and maybe a second one for pairs whose rating is known."""

    def __init__(self, function: Callable[[Any, Any], Any], with_rating: Any) -> None:
        self.function, self.with_rating = function, with_rating
        self.answers_unseen = not isinstance(function, KnownPairs)
        self.knows_ratings = with_rating is not None
        self.is_data = not self.answers_unseen and with_rating is None

    def pair(self, users: Array, items: Array) -> Values:
        users, items = np.asarray(users), np.asarray(items)
        if (users < 0).any() or (items < 0).any():
            raise DataError("Known propensities do not cover unknown users or items: leave their rows out.")
        return _check_known(np.asarray(self.function(users, items), np.float64), len(users))

    def logits(self, users: Array, items: Array) -> Array:
        return logit_of(self.pair(users, items)).astype(np.float32)

    def rating_ratio(self, users: Array, items: Array, ratings: Array) -> Array:
        given = np.asarray(self.with_rating(users, items, np.asarray(ratings, np.float64)), np.float64)
        return (_check_known(given, len(users)) / self.pair(users, items)).astype(np.float32)

    def state(self) -> dict[str, Array]:
        """A column of the log is data; a function is not."""
        column = vars(self.function) if isinstance(self.function, KnownPairs) else {}
        return {name: np.asarray(value) for name, value in column.items()}

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> KnownPropensity:
        raise ParameterError("Known propensities do not cover new users: fit the model again with their ratings.")


def _check_known(p: Values, expected: int) -> Values:
    if p.shape != (expected,):
        raise DataError(f"The known propensity gave an array of shape {p.shape} for {expected} pairs.")
    if (bad := ~((p > 0) & (p <= 1))).any():
        raise DataError(f"The known propensity of a pair is {p[bad][0]}; it must be above 0 and at most 1.")
    return p


@dataclass(frozen=True)
class Known(Propensity):
    """Propensities the user supplies: a function of (user codes, item codes), or a column of the log's rows.

    A column, such as logged propensities, holds one value a rating, in the log's order: enough for weighting seen pairs
    (IPS, SNIPS), and refused with a sentence where a method asks for a pair that was not seen. `given_rating` may add a
    function of (user codes, item codes, ratings in [0, 1]).
    """

    pairs: Callable[[Any, Any], ArrayLike] | ArrayLike
    given_rating: Callable[[Any, Any, Any], ArrayLike] | None = None

    def fit_in(self, given: Given) -> KnownPropensity:
        if callable(self.pairs):
            return KnownPropensity(self.pairs, self.given_rating)
        log, column = given.log, _check_known(np.asarray(self.pairs, np.float64), len(given.log))
        keys = pair_keys(log.users, log.items, log.n_items)
        order = np.argsort(keys)
        return KnownPropensity(KnownPairs(keys[order], column[order], log.n_items), self.given_rating)

    def from_state(self, state: State, owner: Part | None = None) -> KnownPropensity:
        if "keys" in state:
            return KnownPropensity(KnownPairs(state["keys"], state["p"], int(state["n_items"])), self.given_rating)
        if not callable(self.pairs):
            raise ParameterError("Known propensities came from a function, which no file holds: pass it again.")
        return KnownPropensity(self.pairs, self.given_rating)
