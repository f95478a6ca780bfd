"""What a propensity is: a recipe that fits itself on a log, and a fitted thing that answers for pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import Split, holdout_split
from unskew.errors import DataError
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
        p = self.pair(users.numpy(), items.numpy())
        with np.errstate(divide="ignore"):
            return torch.from_numpy((np.log(p) - np.log1p(-p)).astype(np.float32))

    def user_vectors(self, users: Tensor) -> Tensor:
        return torch.from_numpy(self.vectors(users.numpy()))

    @property
    def tilt(self) -> Any:
        return self._tilt if self.knows_ratings else None

    def _tilt(self, users: Tensor, items: Tensor, ratings: Tensor) -> Tensor:
        pairs = users.numpy(), items.numpy()
        return torch.from_numpy((self.given_rating(*pairs, ratings.numpy()) / self.pair(*pairs)).astype(np.float32))


class Propensity(ABC):
    """A recipe for propensities: settings only; `fit` gives the fitted thing and leaves the recipe as it was."""

    fitted: ClassVar[type[FittedPropensity]]  # what `fit` gives, if files can hold it

    def fit(
        self, log: RatingLog, *, seed: int = 0, training: Training | None = None, unbiased: RatingLog | None = None
    ) -> FittedPropensity:
        training = training or Training()
        split = holdout_split(log, training.holdout, by=training.holdout_by, seed=seed)
        return self.fit_split(split, seed=seed, training=training, unbiased=unbiased)

    @abstractmethod
    def fit_split(self, split: Split, *, seed: int, training: Training, unbiased: RatingLog | None) -> FittedPropensity:
        """Fit on a log that is already split; learners train on the one part and stop by the other."""

    def fit_on(self, occasion: Occasion, previous: Any) -> FittedPropensity:
        """The training loop's way in."""
        seed = int(occasion.generator.integers(2**63))
        return self.fit_split(occasion.split, seed=seed, training=occasion.training, unbiased=occasion.unbiased)


def refuse_collapsed(fitted: FittedPropensity, log: RatingLog, seed: int, n_sampled: int = 20_000) -> None:
    """Refuse a learned propensity that says the same of every pair or misses the base rate by more than 10%."""
    pairs = np.random.default_rng([seed, 17]).integers(log.n_pairs, size=n_sampled)
    p = fitted.pair(*np.divmod(pairs, log.n_items))
    base_rate = len(log) / log.n_pairs
    name = type(fitted).__name__
    if p.std() < 1e-3 * p.mean():
        raise DataError(
            f"{name} has collapsed: it says {p.mean():.4g} of every pair (spread {p.std():.1g}); "
            "lower its l2 or use Additive() or Uniform()."
        )
    # 20,000 draws know the mean of heavy-tailed propensities only roughly: two standard errors are not its fault.
    slack = 0.1 * base_rate + 2 * p.std() / np.sqrt(n_sampled)
    if abs(p.mean() - base_rate) > slack:
        raise DataError(
            f"{name} has a mean of {p.mean():.4g} over all pairs where {base_rate:.4g} of them were seen; "
            "train it longer, lower its l2 or use Additive()."
        )
