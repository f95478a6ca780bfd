"""What a log can say of any model, gathered once: weights, imputed ratings, pairs that stand for the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.estimation.scores import Codes, Scores, Values, imputation_of, scores_of
from unskew.estimation.weighing import Weighing
from unskew.methods.weighting import Naive
from unskew.model import Recommender
from unskew.training.crossfit import cross_fit
from unskew.training.options import Training

T = TypeVar("T")

MAX_PAIRS = 2_000_000
LIST_CELLS = 50  # times as many scores may be looked at, a chunk at a time, to find the best k of users


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rows of a log, 1/p and imputed rating of each, and pairs of the catalogue: all of them or a sample.

    `weighing` and `imputation` are None where no estimator asks for them. Nothing here is longer than the log or
    `max_pairs`.
    """

    log: RatingLog
    weighing: Weighing | None
    imputation: Scores | None
    seed: int = 0
    max_pairs: int = MAX_PAIRS

    @property
    def whole(self) -> bool:
        """Whether `pairs` are all pairs of the catalogue."""
        return self.log.n_pairs <= self.max_pairs

    @cached_property
    def pairs(self) -> tuple[Codes, Codes]:
        n_pairs, n_items = self.log.n_pairs, self.log.n_items
        if self.whole:
            return np.divmod(np.arange(n_pairs), n_items)
        return np.divmod(np.random.default_rng([self.seed, 71]).integers(n_pairs, size=self.max_pairs), n_items)

    @cached_property
    def list_users(self) -> NDArray[np.int64]:
        """The users whose lists are looked at: all, or as many random ones as `max_pairs` allows."""
        most = max(LIST_CELLS * self.max_pairs // self.log.n_items, 2)
        if self.log.n_users <= most:
            return np.arange(self.log.n_users)
        chosen = np.random.default_rng([self.seed, 72]).choice(self.log.n_users, most, replace=False)
        return np.sort(chosen)

    @cached_property
    def weights(self) -> Values:
        return _required(self.weighing, "propensities").weights

    @cached_property
    def ratings(self) -> Values:
        """Of the log's rows, in [0, 1]."""
        return self.log.ratings.astype(np.float64)

    @cached_property
    def imputed_seen(self) -> Values:
        return self.imputed(self.log.users, self.log.items)

    @cached_property
    def imputed_pairs(self) -> Values:
        return self.imputed(*self.pairs)

    @cached_property
    def covariate_pairs(self) -> Values:
        """h = 1/p - 1 of the catalogue's pairs."""
        return _required(self.weighing, "propensities").of_pairs(*self.pairs) - 1

    def imputed(self, users: Codes, items: Codes) -> Values:
        """Imputed ratings in [0, 1]."""
        said, scale = _required(self.imputation, "imputed ratings")(users, items), self.log.scale
        unit = said if scale.binary else (said - scale.low) / (scale.high - scale.low)
        if len(unit) and not (unit.min() >= -1e-6 and unit.max() <= 1 + 1e-6):
            raise DataError(
                f"The imputation runs from {said.min():g} to {said.max():g}; it must be a rating of the log's scale "
                "or, for a binary log, a probability."
            )
        return np.clip(unit, 0, 1)


def _required(part: T | None, name: str) -> T:
    if part is None:
        raise ParameterError(f"an estimator that needs {name} was asked for without any.")
    return part


def imputation_from(
    source: Any, log: RatingLog, *, seed: int = 0, training: Training | None = None, n_folds: int = 5
) -> Scores:
    """Imputed ratings on the log's scale: those given, one number for all, or cross-fitted `Naive` predictions.

    Of an unskew model it is the imputation or, where it has none, the prediction. Imputed ratings must not have been
    fitted to the very ratings they are compared with: the default leaves each rating out of its own.
    """
    if source is None:
        fitted = cross_fit(Naive(), log, n_folds=n_folds, seed=seed, training=training)
        return Scores(lambda users, items: np.asarray(log.scale.from_unit(fitted(users, items))), complete=True)
    if isinstance(source, Recommender):
        return imputation_of(source, log)
    if isinstance(source, (int, float, np.number)) and not isinstance(source, bool):
        constant = float(source)
        return Scores(lambda users, items: np.full(len(users), constant), complete=True)
    return scores_of(source, log, "the imputation", "imputation")
