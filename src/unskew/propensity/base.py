"""What a propensity is: a recipe that fits itself on a log, and a fitted thing that answers for pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DataError, ParameterError
from unskew.group import ALONE, Group, interleaved
from unskew.seeds import checked_seed
from unskew.training.fitted import Occasion
from unskew.training.options import Training

if TYPE_CHECKING:
    from unskew.training.history import History

Codes = NDArray[np.integer[Any]]
Values = NDArray[np.float64]


class FittedPropensity(ABC):
    """P(seen) for any pair, by codes.

    `pair` ignores the rating; `given_rating` uses it where the model can tell, and is what a seen pair is weighted
    by. `notes` say what a user should know about the fit, `stored` which arguments of the constructor a file keeps.
    """

    stored: ClassVar[tuple[str, ...] | None] = None
    by_user: ClassVar[tuple[str, ...]] = ()  # which of them hold a row for each user
    group: Group = ALONE  # the workers of whom each answers for its own users
    notes: tuple[str, ...] = ()
    history: History | None = None
    answers_unseen: bool = True  # False if only seen pairs are known

    @abstractmethod
    def pair(self, users: Codes, items: Codes) -> Values:
        """P(seen) of the pairs (users[n], items[n])."""

    def given_rating(self, users: Codes, items: Codes, ratings: ArrayLike) -> Values:
        """P(seen given the rating); for a model that cannot tell, the same as `pair`."""
        return self.pair(users, items)

    @property
    def knows_ratings(self) -> bool:
        return type(self).given_rating is not FittedPropensity.given_rating

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        """One row a user, for networks that tell users apart; here a single constant: all users look alike."""
        return np.zeros((len(users), 1), np.float32)

    # How the training loop hears a propensity: as a role at rest.
    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        p = self.pair(users.numpy(force=True), items.numpy(force=True))
        with np.errstate(divide="ignore"):
            return torch.from_numpy((np.log(p) - np.log1p(-p)).astype(np.float32)).to(users.device)

    def user_vectors(self, users: Tensor) -> Tensor:
        return torch.from_numpy(self.vectors(users.numpy(force=True)))

    def gather(self, group: Group) -> None:
        """Let the first worker's answer for the users of all."""
        for name in self.by_user:
            parts = group.to_first(getattr(self, name))
            if parts is not None:
                setattr(self, name, interleaved(parts))
        self.group = ALONE

    def joined_by(self, counts: NDArray[np.int64]) -> FittedPropensity:
        """The same beside new users who have given so many ratings each; here nothing depends on the user."""
        return self

    @property
    def tilt(self) -> Any:
        return self._tilt if self.knows_ratings else None

    def _tilt(self, users: Tensor, items: Tensor, ratings: Tensor) -> Tensor:
        pairs = users.numpy(force=True), items.numpy(force=True)
        tilt = self.given_rating(*pairs, ratings.numpy(force=True)) / self.pair(*pairs)
        return torch.from_numpy(tilt.astype(np.float32)).to(users.device)


class Propensity(ABC):
    """A recipe for propensities: settings only; `fit` gives the fitted thing and leaves the recipe as it was."""

    fitted: ClassVar[type[FittedPropensity]]  # what `fit` gives, if files can hold it
    reads_features: ClassVar[bool] = False

    def fit(
        self,
        log: RatingLog,
        *,
        seed: int = 0,
        training: Training | None = None,
        random_ratings: RatingLog | None = None,
    ) -> FittedPropensity:
        seed, training = checked_seed(seed), training or Training()
        split = training.split(log, seed)
        return self.fit_split(split, seed=seed, training=training, random_ratings=random_ratings)

    @abstractmethod
    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        """Fit on a log that is already split; learners train on the one part and stop by the other."""

    def fit_on(self, occasion: Occasion, previous: Any) -> FittedPropensity:
        """The training loop's way in."""
        seed = int(occasion.generator.integers(2**63))
        return self.fit_split(
            occasion.split, seed=seed, training=occasion.training, random_ratings=occasion.random_ratings
        )


def refuse_spread(recipe: Propensity, split: Split) -> None:
    """Say that a propensity needs the whole log in one place."""
    if not split.group.alone:
        raise ParameterError(
            f"{type(recipe).__name__} cannot be fitted by several workers: use Additive(), Popularity() or Factors()."
        )


def refuse_collapsed(fitted: FittedPropensity, split: Split, seed: int, n_sampled: int = 20_000) -> None:
    """Refuse a learned propensity that says the same of every pair or misses the base rate by more than 10%."""
    facts, group = split.facts, split.group
    pairs = np.random.default_rng([seed, 17]).integers(facts.n_pairs, size=n_sampled)
    users, items = np.divmod(pairs, facts.n_items)
    mine = group.mine(users)
    p = fitted.pair(group.rows(users[mine]), items[mine])
    mean = float(group.total(p.sum())) / n_sampled
    spread = np.sqrt(float(group.total(((p - mean) ** 2).sum())) / n_sampled)
    base_rate = facts.density
    name = type(fitted).__name__
    if spread < 1e-3 * mean:
        raise DataError(
            f"{name} has collapsed: it says {mean:.4g} of every pair (spread {spread:.1g}); "
            "lower its l2 or use Additive() or Uniform()."
        )
    # 20,000 draws know the mean of heavy-tailed propensities only roughly: two standard errors are not its fault.
    slack = 0.1 * base_rate + 2 * spread / np.sqrt(n_sampled)
    if abs(mean - base_rate) > slack:
        raise DataError(
            f"{name} has a mean of {mean:.4g} over all pairs where {base_rate:.4g} of them were seen; "
            "train it longer, lower its l2 or use Additive()."
        )
