"""Answer from the kept sweeps: ordinary vectors, a variance, thresholds and scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.nets.base import Linear, Part, pair_products
from unskew.nets.near import LOGIT, PROBIT_SLOPE, Near, Products, Ranked, by_logits
from unskew.posterior import defaults
from unskew.posterior.flat import flat
from unskew.posterior.kernels import Float, Float32, Int
from unskew.posterior.new_rows import NewRows
from unskew.special import log_ndtr, logit, ndtr, owens_t

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Ratings:
    """Hold how ratings map to levels 0, 1, ..: as they stand or, on a continuum, by their ranks.

    By ranks ratings are learned alike whatever they are distributed like, stars as well as seconds watched or amounts
    spent, where a normal y loses all order to the few largest ones.
    """

    values: Float
    """The rating of each level; on a continuum the mean of its ratings."""
    starts: Float = field(default_factory=lambda: np.zeros(0))
    """On a continuum, the least rating of each level."""

    @staticmethod
    def of(ratings: Float, liked_from: float | None = None) -> Ratings:
        """Find the levels of a log; more than 20 distinct ratings are a continuum, on which a level starts at liked."""
        ratings = np.asarray(ratings, float)
        values = np.unique(ratings)
        if len(values) == 1:
            raise DataError(
                f"all {len(ratings):,} ratings are {values[0]:g}: nothing tells what is liked from what is not; "
                "give a log with at least two distinct ratings."
            )
        if len(values) <= defaults.MOST_LEVELS:
            return Ratings(values)
        n_levels = min(defaults.LEVELS, max(defaults.FEWEST_LEVELS, len(ratings) // defaults.RATINGS_A_LEVEL))
        starts = np.quantile(ratings, np.arange(n_levels) / n_levels, method="higher")
        starts = np.unique(starts if liked_from is None else np.append(starts, liked_from))
        starts = values[:2] if len(starts) == 1 else starts  # nearly all ratings are the least one
        level = np.searchsorted(starts, ratings, side="right") - 1
        return Ratings(np.bincount(level, ratings) / np.bincount(level), starts)

    @property
    def continuous(self) -> bool:
        """Whether levels are parts of a continuum."""
        return len(self.starts) > 0

    def encode(self, ratings: Float) -> Int:
        """Turn ratings into levels."""
        if self.continuous:
            return np.maximum(np.searchsorted(self.starts, ratings, side="right") - 1, 0)
        levels = np.searchsorted(self.values, ratings)
        wrong = self.values[np.minimum(levels, len(self.values) - 1)] != ratings
        if wrong.any():
            known = ", ".join(f"{v:g}" for v in self.values)
            raise DataError(f"a rating of {np.asarray(ratings)[wrong][0]:g} is none of the levels {known}; use these.")
        return levels

    def threshold(self, rating: float, thresholds: Float) -> float:
        """Return where f must lie for ratings of at least this one to be as likely as not; in a level, by its ends."""
        if self.continuous:
            starts = self.starts[1:]
            if starts[0] <= rating <= starts[-1]:
                return float(np.interp(rating, starts, thresholds))
            raise ParameterError(
                f"liked_from={rating:g} leaves too few ratings on one side; choose a number from {starts[0]:g} to "
                f"{starts[-1]:g}."
            )
        level = int(np.searchsorted(self.values, rating))
        if not 0 < level < len(self.values):
            known = ", ".join(f"{v:g}" for v in self.values)
            raise ParameterError(f"liked_from={rating:g} does not divide the ratings {known}; choose one between.")
        return float(thresholds[level - 1])

    def middle(self) -> float:
        """Return the rating from which the upper half of the levels begins, for checks that need one."""
        return float((self.starts if self.continuous else self.values)[(len(self.values) + 1) // 2])


@dataclass(frozen=True)
class Rows:
    """Hold the users or the items of a model, the average new one last."""

    vectors: Float32
    scale: Float
    """Of the noise of a rating."""
    log_variance: Float
    """What a row adds to log variance of f."""

    def with_new(self, *new: Rows) -> Rows:
        """Return these rows with new ones before the last."""
        parts = [(getattr(self, f.name), [getattr(row, f.name) for row in new]) for f in fields(self)]
        return Rows(*(np.concatenate([own[:-1], *more, own[-1:]]) for own, more in parts))

    def average(self) -> Rows:
        """Return the average new row alone."""
        return Rows(*(getattr(self, f.name)[-1:] for f in fields(self)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior(Part):
    """Answer P(liked), or the expected rating of a graded log, from vectors of users and items.

    f = v_u . w_i, with an additive log-variance; the last user and item are the average new ones, which the code -1
    reads.
    """

    orders: ClassVar[tuple[str, ...]] = ("liking", "lower", "thompson")

    ratings: Ratings
    users: Rows
    items: Rows
    thresholds: Float
    """Ends of the levels without those at infinity."""
    liked_from: float
    sweeps: int
    scale: tuple[float, float] | None = None
    """Ends of the scale of a graded log, whose answers are expected ratings."""
    notes: list[str] = field(default_factory=list)
    shots: dict[str, Any] = field(default_factory=dict)
    """Item rows and priors of some kept sweeps: what fold-in averages over."""
    chain: dict[str, Any] = field(default_factory=dict)
    """The state that more sweeps go on from."""

    def scores(self, users: Codes, items: Codes) -> Float:
        """Return the mean of f."""
        return pair_products(users, items, self.users.vectors, self.items.vectors).astype(np.float64)

    def variance(self, users: Codes, items: Codes) -> Float:
        """Return the variance of f: what the log leaves open."""
        return np.asarray(np.exp(self.users.log_variance[users] + self.items.log_variance[items]))

    def noise_variance(self, users: Codes, items: Codes) -> Float:
        """Return the variance of a rating around f."""
        return np.asarray((self.users.scale[users] * self.items.scale[items]) ** 2)

    def spread(self, users: Codes, items: Codes) -> Float:
        """Return the standard deviation of a rating around the mean of f."""
        return np.asarray(np.sqrt(self.noise_variance(users, items) + self.variance(users, items)))

    def threshold(self, liked_from: float | None = None) -> float:
        """Return where f must lie for a rating of at least `liked_from` to be as likely as not."""
        return self.ratings.threshold(self.liked_from if liked_from is None else liked_from, self.thresholds)

    def margin(self, users: Codes, items: Codes, liked_from: float | None = None, shift: Any = 0.0) -> Float:
        """Return z with P(liked) = Phi(z): (f - shift - t) / sqrt(noise + variance of f)."""
        gap = self.scores(users, items) - shift - self.threshold(liked_from)
        return np.asarray(gap / self.spread(users, items))

    def probability(self, users: Codes, items: Codes, liked_from: float | None = None, shift: Any = 0.0) -> Float:
        """Return P(rating >= liked_from)."""
        return np.asarray(ndtr(self.margin(users, items, liked_from, shift)))

    liked, state = probability, flat

    def answer_margin(self, users: Codes, items: Codes) -> Float:
        """Return z with Phi(z) the answer to a pair; here that of the posterior itself."""
        return self.margin(users, items)

    def logits(self, users: Codes, items: Codes) -> Float32:
        """Return the answers as log-odds, exact in both tails."""
        if self.scale is None:
            z = self.answer_margin(users, items)
            return np.asarray(log_ndtr(z) - log_ndtr(-z), np.float32)
        low, high = self.scale
        unit = (self.expected(users, items) - low) / (high - low)
        return np.asarray(logit(np.clip(unit, 1e-7, 1 - 1e-7)), np.float32)

    def levels(self, users: Codes, items: Codes, shift: Any = 0.0) -> Float:
        """Return the chance of every level, a row a pair."""
        return self._chances(self.scores(users, items) - shift, self.spread(users, items))

    def _chances(self, f: Float, spread: Float) -> Float:
        """Return the chance of every level around f, with this standard deviation."""
        below = ndtr((self.thresholds - f[:, None]) / spread[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def level_chances(self, users: Codes, items: Codes) -> tuple[Float, Float]:
        """Return the levels of ratings, and the chance of each for every pair."""
        return self.ratings.values, self.levels(users, items)

    def expected(self, users: Codes, items: Codes, shift: Any = 0.0) -> Float:
        """Return the expected rating."""
        return np.asarray(self.levels(users, items, shift) @ self.ratings.values)

    def log_likelihood(self, users: Codes, items: Codes, ratings: Float) -> Float:
        """Return the log-chance of the levels of ratings."""
        levels = self.ratings.encode(ratings)
        return np.asarray(np.log(np.maximum(self.levels(users, items)[np.arange(len(users)), levels], 1e-12)))

    def std(self, users: Codes, items: Codes, liked_from: float | None = None, as_rating: bool = False) -> Float:
        """Return the standard deviation of an answer over what f may be; that of P(liked) is exact by Owen's T.

        With h = z and rho = v / (noise + v): E[Phi^2] = Phi(h) - 2 T(h, sqrt((1 - rho) / (1 + rho))). Answers of a
        graded log are expected ratings, over f by Gauss and Hermite.
        """
        v, noise = self.variance(users, items), self.noise_variance(users, items)
        if as_rating or (self.scale is not None and liked_from is None):
            f, (at, weights) = self.scores(users, items), np.polynomial.hermite_e.hermegauss(8)
            found = np.stack([self._chances(f + x * np.sqrt(v), np.sqrt(noise)) @ self.ratings.values for x in at])
            mean = np.average(found, axis=0, weights=weights)
            return np.asarray(np.sqrt(np.average((found - mean) ** 2, axis=0, weights=weights)))
        h, rho = self.margin(users, items, liked_from), v / (v + noise)
        second = ndtr(h) - 2 * owens_t(h, np.sqrt((1 - rho) / (1 + rho)))
        return np.asarray(np.sqrt(np.maximum(second - ndtr(h) ** 2, 0.0)))

    def order_scores(self, by: str, users: Codes, items: Codes, rng: np.random.Generator) -> NDArray[Any]:
        """Return what a list is ranked by: answers, or chances with f at its lower bound or drawn."""
        if by == "liking":
            return self.logits(users, items)
        mean, deviation = self.order_moments(users, items)
        drawn = rng.standard_normal(len(users)) if by == "thompson" else np.full(len(users), -defaults.LOWER)
        return np.asarray(ndtr(mean + drawn * deviation))

    def order_moments(self, users: Codes, items: Codes) -> tuple[Float, Float]:
        """Return mean and deviation of z with P(liked) = Phi(z), over what the log leaves open of f."""
        noise = np.sqrt(self.noise_variance(users, items))
        mean = (self.scores(users, items) - self.threshold()) / noise
        return mean, np.sqrt(self.variance(users, items)) / noise

    def near_margin(self) -> Callable[[Codes], tuple[Near, Float32]]:
        """Return the margin of users and all items at once, and the spread in units of the noise's deviation."""
        size, own = self.users.scale, self.items.scale[:-1, None]
        offset = np.full((len(own), 1), -self.threshold())
        products = Products(np.hstack([self.items.vectors[:-1], offset]) / own)
        left = (
            np.exp(self.users.log_variance) / size**2,
            np.asarray(np.exp(self.items.log_variance[:-1]) / own[:, 0] ** 2, np.float32),
        )
        sides = np.column_stack([self.users.vectors, np.ones(len(size))]) / size[:, None]

        def margin(users: Codes) -> tuple[Near, Float32]:
            found, spread = products(sides[users]), np.outer(left[0][users].astype(np.float32), left[1])
            spread += np.float32(1)
            np.sqrt(spread, out=spread)
            np.divide(found.values, spread, out=found.values)
            return found, spread

        return margin

    def ranked(self, by: str) -> Ranked | None:
        if by not in self._prepared:
            self._prepared[by] = self.prepared(by)
        return self._prepared[by]

    @cached_property
    def _prepared(self) -> dict[str, Ranked | None]:
        return {}  # a server asks for one list after the other

    def prepared(self, by: str) -> Ranked | None:
        """Make what `ranked` returns."""
        if by != "liking" or self.scale is not None:
            return None
        margin = self.near_margin()
        return lambda users: by_logits(margin(users)[0], LOGIT.function, PROBIT_SLOPE)

    def user_vectors(self, users: Codes) -> Float32:
        return self.users.vectors[users]

    def linear(self) -> Linear:
        """Return f - t, whose sign tells whether a pair is liked rather than not; chances are mapped from there."""
        offsets = np.full(len(self.items.vectors), -self.threshold(), np.float32)
        return Linear(self.users.vectors, self.items.vectors, offsets)

    def sizes(self) -> tuple[int | None, int | None]:
        return len(self.users.scale) - 1, len(self.items.scale) - 1

    def extended(self, counts: Int, owner: Part | None = None) -> Self:
        return replace(self, users=self.users.with_new(*len(counts) * [self.users.average()]))

    def continued(self, log: RatingLog, sweeps: int, burn: int | None = None) -> Self:
        """Return the part after further sweeps over its log or, thrown away some first, over a longer one.

        What was fitted around it stays.
        """
        from unskew.posterior.factors import resumed  # which imports this module

        return resumed(self, log, sweeps, burn)

    def folded(self, starts: Int, items: Int, stars: Float) -> Self:
        """Return the part with a new user for each chunk of ratings, by the posterior of one row given all items."""
        chunks = ((items[a:b], stars[a:b].astype(float)) for a, b in pairwise(starts.tolist()))
        new = [Rows(*self.new_rows.of(*chunk)) if len(chunk[0]) else self.users.average() for chunk in chunks]
        return replace(self, users=self.users.with_new(*new))

    @cached_property
    def new_rows(self) -> NewRows:
        """Return what new users are answered by."""
        return NewRows(self)
