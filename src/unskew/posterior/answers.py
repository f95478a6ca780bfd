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
    """Hold how ratings map to what the sampler reads: levels 0, 1, .. or standardised values on a continuum."""

    values: Float
    """Distinct ratings in order; for a continuum its centre and spread."""
    continuous: bool

    @staticmethod
    def of(ratings: Float) -> Ratings:
        """Find the levels of a log as they stand; more than 20 distinct ratings are a continuum."""
        ratings = np.asarray(ratings, float)
        values = np.unique(ratings)
        if len(values) == 1:
            raise DataError(
                f"all {len(ratings):,} ratings are {values[0]:g}: nothing tells what is liked from what is not; "
                "give a log with at least two distinct ratings."
            )
        if len(values) <= defaults.MOST_LEVELS:
            return Ratings(values, False)
        size = np.abs(values).max()
        centre, spread = (ratings / size).mean(), (ratings / size).std()
        middle = np.subtract(*np.percentile(ratings / size, [90, 10]))
        if middle < 1e-6 * spread:
            raise DataError(
                f"the rating {values[np.abs(values).argmax()]:g} lies so far from all others that these look alike "
                "on its scale; remove it, or give levels."
            )
        return Ratings(np.array([centre * size, spread * size]), True)

    @property
    def n_levels(self) -> int:
        """Return the number of levels; 1 for a continuum."""
        return 1 if self.continuous else len(self.values)

    def encode(self, ratings: Float) -> Any:
        """Turn ratings into levels or standardised values."""
        if self.continuous:
            return (np.asarray(ratings, float) - self.values[0]) / self.values[1]
        levels = np.searchsorted(self.values, ratings)
        wrong = self.values[np.minimum(levels, len(self.values) - 1)] != ratings
        if wrong.any():
            known = ", ".join(f"{v:g}" for v in self.values)
            raise DataError(f"a rating of {np.asarray(ratings)[wrong][0]:g} is none of the levels {known}; use these.")
        return levels

    def middle(self) -> float:
        """Return the rating from which the upper half begins, for checks that need one."""
        return float(self.values[0] if self.continuous else self.values[(len(self.values) + 1) // 2])


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
    noise: float
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
        return np.asarray(self.noise * (self.users.scale[users] * self.items.scale[items]) ** 2)

    def spread(self, users: Codes, items: Codes) -> Float:
        """Return the standard deviation of a rating around the mean of f."""
        return np.asarray(np.sqrt(self.noise_variance(users, items) + self.variance(users, items)))

    def threshold(self, liked_from: float | None = None) -> float:
        """Return where f must lie for a rating of at least `liked_from` to be as likely as not."""
        liked_from = self.liked_from if liked_from is None else liked_from
        if self.ratings.continuous:
            return float((liked_from - self.ratings.values[0]) / self.ratings.values[1])
        level = int(np.searchsorted(self.ratings.values, liked_from))
        if not 0 < level < len(self.ratings.values):
            known = ", ".join(f"{v:g}" for v in self.ratings.values)
            raise ParameterError(f"liked_from={liked_from:g} does not divide the ratings {known}; choose one between.")
        return float(self.thresholds[level - 1])

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
        if self.ratings.continuous:
            raise ParameterError("ratings on a continuum have no levels; ask for the expected rating or a chance.")
        gaps = self.thresholds[None, :] - (self.scores(users, items) - shift)[:, None]
        below = ndtr(gaps / self.spread(users, items)[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def level_chances(self, users: Codes, items: Codes) -> tuple[Float, Float]:
        """Return the levels of ratings, and the chance of each for every pair."""
        return self.ratings.values, self.levels(users, items)

    def expected(self, users: Codes, items: Codes, shift: Any = 0.0) -> Float:
        """Return the expected rating."""
        if not self.ratings.continuous:
            return np.asarray(self.levels(users, items, shift) @ self.ratings.values)
        centre, size = self.ratings.values
        return np.asarray(centre + size * (self.scores(users, items) - shift))

    def log_likelihood(self, users: Codes, items: Codes, ratings: Float) -> Float:
        """Return the log-chance (log-density on a continuum) of ratings."""
        encoded = self.ratings.encode(ratings)
        if self.ratings.continuous:
            variance = self.spread(users, items) ** 2
            return np.asarray(
                -0.5 * (np.log(2 * np.pi * variance) + (encoded - self.scores(users, items)) ** 2 / variance)
            )
        return np.asarray(np.log(np.maximum(self.levels(users, items)[np.arange(len(users)), encoded], 1e-12)))

    def std(self, users: Codes, items: Codes, liked_from: float | None = None) -> Float:
        """Return the standard deviation of an answer over what f may be; that of P(liked) is exact by Owen's T.

        With h = z and rho = v / (noise + v): E[Phi^2] = Phi(h) - 2 T(h, sqrt((1 - rho) / (1 + rho))).
        """
        v = self.variance(users, items)
        if self.scale is not None:
            return np.asarray(np.sqrt(v))
        h = self.margin(users, items, liked_from)
        rho = v / (v + self.noise_variance(users, items))
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
        size, own = np.sqrt(self.noise) * self.users.scale, self.items.scale[:-1, None]
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
