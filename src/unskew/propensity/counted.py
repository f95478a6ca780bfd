"""Propensities that are counted or looked up, not learned: uniform, by popularity, known, and by random ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unskew.data.pairs import pair_keys
from unskew.errors import DataError, ParameterError
from unskew.losses.columns import Array, logit, root
from unskew.nets.base import Part, State
from unskew.propensity.base import FittedPropensity, Propensity, Values
from unskew.settings import setting
from unskew.training.plan import Given

MOST_LEVELS = 12  # more distinct ratings than these are counted by the nearest of as many levels


class ItemPropensity(FittedPropensity):
    """One propensity an item, the last one that of unknown items."""

    item_rows = ("of_item",)

    def __init__(self, of_item: Array) -> None:
        self.of_item = of_item.astype(np.float32)

    @classmethod
    def of(cls, p: Values) -> ItemPropensity:
        return cls(logit(np.append(p, p.mean())))

    def logits(self, users: Array, items: Array) -> Array:
        return self.of_item[items]


@dataclass(frozen=True, kw_only=True)
class Uniform(Propensity):
    """p = |O|/|D| for every pair: what missing completely at random would mean."""

    fitted = ItemPropensity

    def fit_in(self, given: Given) -> ItemPropensity:
        return ItemPropensity.of(np.full(given.log.n_items, given.log.density))


@dataclass(frozen=True, kw_only=True)
class Popularity(Propensity):
    """p proportional to n_i^exponent, n_i the ratings of item i.

    Scaled so that the mean over all pairs is the base rate |O|/|D|; `relative=True` is the score of the
    implicit-feedback literature, (n_i / max_j n_j)^exponent, whose level means nothing. An item nobody rated
    counts as half a rating.
    """

    fitted, needs_all_pairs = ItemPropensity, True

    exponent: float = setting(0.5, least=-10, most=10)
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
    """Propensities that a function gives."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function, self.is_data = function, isinstance(function, KnownPairs)
        self.answers_unseen = not self.is_data

    def pair(self, users: Array, items: Array) -> Values:
        users, items = np.asarray(users), np.asarray(items)
        if (users < 0).any() or (items < 0).any():
            raise DataError("Known propensities do not cover unknown users or items: leave their rows out.")
        return _check_known(self.function(users, items), len(users))

    def logits(self, users: Array, items: Array) -> Array:
        return logit(self.pair(users, items)).astype(np.float32)

    def state(self) -> dict[str, Array]:
        """Return the column of the log, which is data as a function is not."""
        return {name: np.asarray(value) for name, value in vars(self.function).items()} if self.is_data else {}

    def extended(self, counts: Array, owner: Part | None = None) -> Part:
        raise ParameterError("Known propensities do not cover new users: fit the model again with their ratings.")


def _check_known(given: Any, expected: int) -> Values:
    try:
        p = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"Known propensities must be numbers, not {given!r:.80}.") from None
    if p.shape != (expected,):
        raise DataError(f"The known propensity gave an array of shape {p.shape} for {expected} pairs.")
    if (bad := ~((p > 0) & (p <= 1))).any():
        raise DataError(f"The known propensity of a pair is {p[bad][0]}; it must be above 0 and at most 1.")
    return p


@dataclass(frozen=True)
class Known(Propensity):
    """Propensities that are given: a function of (user codes, item codes), or a column of the log's rows.

    A column holds one value a rating, in the log's order, by default the log's own (`pscore`) as far as its rows stand
    for all pairs: enough for weighting seen pairs (IPS, SNIPS), and refused where a method asks for an unseen one.
    """

    pairs: Callable[[Any, Any], ArrayLike] | ArrayLike | None = None

    def fit_in(self, given: Given) -> KnownPropensity:
        if callable(self.pairs):
            return KnownPropensity(self.pairs)
        log, column = given.log, given.log.chances if self.pairs is None else self.pairs
        if column is None:
            raise DataError(
                "Known() reads the propensities of impressions by one policy, and the log has none: name the column "
                "pscore, and learn from clicks, target='click'."
            )
        p = _check_known(column, len(log))
        keys = pair_keys(log.users, log.items, log.n_items)
        order = np.argsort(keys)
        keys, p = keys[order], p[order]
        if len(two := np.flatnonzero((keys[1:] == keys[:-1]) & (p[1:] != p[:-1]))):
            raise DataError(
                f"Two rows of one pair have the known propensities {p[two[0]]:g} and {p[two[0] + 1]:g}: "
                "give the chance that the pair is seen at all."
            )
        return KnownPropensity(KnownPairs(keys, p, log.n_items))

    def from_state(self, state: State, owner: Part | None = None) -> KnownPropensity:
        if "keys" in state:
            return KnownPropensity(KnownPairs(state["keys"], state["p"], int(state["n_items"])))
        if not callable(self.pairs):
            raise ParameterError("Known propensities came from a function, which no file holds: pass it again.")
        return KnownPropensity(self.pairs)


class BayesPropensity(ItemPropensity):
    """P(seen) of any pair, and P(seen given the rating) = P(seen) P(r given seen) / P(r), at most 1."""

    knows_ratings, other_arrays = True, ("levels", "ratio")

    def __init__(self, of_item: Array, levels: Values, ratio: Array) -> None:
        super().__init__(of_item)
        self.levels, self.ratio = levels, ratio.astype(np.float32)

    def rating_ratio(self, users: Array, items: Array, ratings: Array) -> Array:
        return self.ratio[_nearest(self.levels, ratings)]


@dataclass(frozen=True, kw_only=True)
class NaiveBayes(Propensity):
    """P(seen given r) = P(seen) P(r given seen) / P(r), P(seen) = |O|/|D|, with P(r) from random ratings.

    Schnabel et al., ICML 2016. P(r) is how often each rating occurs among the random ones, with `prior` ratings of the
    log's own kind counted in. Random ratings must not be test data.
    """

    fitted = BayesPropensity

    prior: float = setting(1.0, above=0)

    def fit_in(self, given: Given) -> BayesPropensity:
        if given.random_ratings is None:
            raise ParameterError("NaiveBayes needs random ratings: pass random_ratings=random_log to the fit.")
        log, density, levels = given.log, given.log.density, np.unique(given.log.ratings).astype(np.float64)
        if len(levels) > MOST_LEVELS:
            levels = np.linspace(levels[0], levels[-1], MOST_LEVELS)
        seen = np.bincount(_nearest(levels, log.ratings), minlength=len(levels))
        levels, in_log = levels[seen > 0], seen[seen > 0] / len(log)
        drawn = np.bincount(_nearest(levels, given.random_ratings.ratings), minlength=len(levels))
        ratio = in_log * (drawn.sum() + self.prior) / (drawn + self.prior * in_log)
        if ratio.max() * density > 1:
            raise DataError("The random ratings imply a propensity above 1; they are too few or not random.")
        return BayesPropensity(logit(np.full(given.log.n_items + 1, density)), levels, ratio)


def _nearest(levels: Values, ratings: ArrayLike) -> Array:
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, np.asarray(ratings, np.float64))
