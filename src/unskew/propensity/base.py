"""What a propensity is: settings that fit themselves on a log, and a part that answers P(seen) for pairs."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.read import as_log, read_log
from unskew.errors import DataError, checked_seed
from unskew.losses.columns import Array, sigmoid
from unskew.nets.base import Part
from unskew.training.options import Training
from unskew.training.plan import FitSpec, Given, refuse_listed

Values = NDArray[np.float64]

SAMPLED = 20_000  # pairs that tell the mean of a propensity


class FittedPropensity(Part):
    """P(seen) for any pair of codes, whatever its rating; -1 is the average user or item."""

    def pair(self, users: Array, items: Array) -> Values:
        """P(seen) of the pairs (users[n], items[n])."""
        return np.asarray(sigmoid(self.logits(np.asarray(users), np.asarray(items)).astype(np.float64)))


class OfKnown(FittedPropensity):
    """A propensity of the log's users and items; new ones, and the average one (-1), have the base rate."""

    n_users: int
    n_items: int
    base_logit: float

    def known(self, users: Array, items: Array) -> NDArray[np.bool_]:
        """Return which pairs are of the log's users and items."""
        return np.asarray((users >= 0) & (items >= 0) & (users < self.n_users) & (items < self.n_items))

    @abstractmethod
    def known_logits(self, users: Array, items: Array) -> Array:
        """Return log-odds of seeing of known pairs."""

    def logits(self, users: Array, items: Array) -> Array:
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        known, found = self.known(users, items), np.full(len(users), self.base_logit, np.float32)
        found[known] = self.known_logits(users[known], items[known])
        return found


class Propensity(FitSpec):
    """Settings of a propensity; fitting gives a part and leaves the settings as they were."""

    kind: ClassVar[str] = "propensity"

    @abstractmethod
    def fit_in(self, given: Given) -> FittedPropensity:
        """Return the fitted propensity; learners train on the one part of the log and stop by the other."""

    def fit(
        self,
        log: Any,
        *,
        seed: int = 0,
        training: Training | None = None,
        random_ratings: Any = None,
    ) -> FittedPropensity:
        """Fit without a method around it, to a log and random ratings or what `read_log` makes such of."""
        log = as_log(log)
        random_ratings = None if random_ratings is None else read_log(random_ratings, like=log)
        refuse_listed(self, log)
        seed, training = checked_seed(seed), Training.given(training)
        return self.fit_in(Given(training.split(log, seed), training, seed, random_ratings))


def refuse_collapsed(fitted: FittedPropensity, log: RatingLog, seed: int) -> None:
    """Refuse a learned propensity that answers the same for every pair or misses the base rate by more than 10%."""
    drawn = log.population.draw_evenly(SAMPLED, np.random.default_rng([seed, 17]))
    p, base_rate = fitted.pair(drawn.users, drawn.items), log.density
    mean, deviation, name = float(np.average(p, weights=drawn.cells)), float(p.std()), type(fitted).__name__
    if deviation < 1e-3 * mean:
        raise DataError(
            f"{name} has collapsed: it answers {mean:.4g} for every pair (standard deviation {deviation:.1g}); "
            "lower its l2 or use Additive() or Uniform()."
        )
    # As many draws know the mean of heavy-tailed propensities only roughly: two standard errors are allowed for.
    if abs(mean - base_rate) > 0.1 * base_rate + 2 * deviation / np.sqrt(SAMPLED):
        raise DataError(
            f"{name} has a mean of {mean:.4g} over all pairs where {base_rate:.4g} of them were seen; "
            "train it longer, lower its l2 or use Additive()."
        )
