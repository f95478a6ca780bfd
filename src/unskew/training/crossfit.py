"""Predictions for any pair from a model that has not seen its rating: a method fitted once for each fold of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import pair_fold
from unskew.errors import DataError, checked_seed
from unskew.training.options import Training

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """One model a fold; a pair, seen or not, is answered by the model trained without its fold.

    Folds are a hash of the pair. So whether a pair was seen has no part in its own prediction, and seen and unseen
    pairs of a fold are answered by the same model: their predictions can be compared.
    """

    models: Sequence[Any]
    seed: int

    def fold(self, users: Codes, items: Codes) -> NDArray[np.int64]:
        """Which model answers for each pair."""
        return pair_fold(self.seed, users, items, len(self.models))

    def __call__(self, users: Codes, items: Codes) -> NDArray[np.float64]:
        """Predictions in [0, 1] by codes."""
        found = np.empty(len(users))
        fold = self.fold(users, items)
        for number, model in enumerate(self.models):
            inside = np.flatnonzero(fold == number)
            found[inside] = model.predict_codes(users[inside], items[inside])
        return found


def cross_fit(
    method: Any, log: RatingLog, *, n_folds: int = 5, seed: int = 0, training: Training | None = None
) -> CrossFitted:
    """Fit the method on the log without each fold in turn."""
    seed = checked_seed(seed)
    fold = pair_fold(seed, log.users, log.items, n_folds)
    models = []
    for number in range(n_folds):
        rows = np.flatnonzero(fold != number)
        if len(rows) < 2:
            raise DataError(f"{len(log)} ratings are too few to leave out one of {n_folds} folds; give more ratings.")
        models.append(method.fit(log.take(rows), seed=seed, training=training))
    return CrossFitted(models, seed)
