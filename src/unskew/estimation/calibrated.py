"""Propensities of a fitted model, calibrated to the pairs that were seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from unskew.calibration.platt import LARGEST_LOGIT, Examples, scalar_platt
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.estimation.scores import Codes, Values

OfPairs = Callable[[Codes, Codes], Values]

MOST_UNSEEN, MOST_SEEN = 200_000, 1_000_000


class SeenAndUnseen(NamedTuple):
    """The log's pairs, then unseen ones of the catalogue, all or samples, each for as many pairs as it stands for."""

    users: Codes
    items: Codes
    seen: Values  # 1 or 0
    weight: Values

    @property
    def n_seen(self) -> int:
        return int(self.seen.sum())


def seen_and_unseen(log: RatingLog, *, seed: int = 0, most: int = MOST_UNSEEN) -> SeenAndUnseen:
    """All pairs of a small catalogue; of a large one the seen pairs and a uniform sample of the others.

    Of a very long log the seen pairs are a sample, too, so that memory does not grow with it.
    """
    if log.n_pairs <= most:
        users, items = np.divmod(np.arange(log.n_pairs), log.n_items)
    else:
        users, items = np.divmod(np.random.default_rng([seed, 61]).integers(log.n_pairs, size=most), log.n_items)
    unseen = ~SeenPairs(log)(users, items)
    users, items, n = users[unseen], items[unseen], int(unseen.sum())
    each = (log.n_pairs - len(log)) / max(n, 1)
    rows = some_rows(log, seed)
    return SeenAndUnseen(
        np.concatenate([log.users[rows], users]),
        np.concatenate([log.items[rows], items]),
        np.repeat([1.0, 0.0], [len(rows), n]),
        np.repeat([len(log) / max(len(rows), 1), each], [len(rows), n]),
    )


def some_rows(log: RatingLog, seed: int) -> NDArray[np.int64]:
    """All rows of a log or, of a very long one, as many random ones as figures need."""
    if len(log) <= MOST_SEEN:
        return np.arange(len(log))
    return np.sort(np.random.default_rng([seed, 64]).choice(len(log), MOST_SEEN, replace=False, shuffle=False))


@dataclass(frozen=True)
class PlattMap:
    """p -> sigmoid(slope logit(p) + intercept)."""

    slope: float = 1.0
    intercept: float = 0.0

    def __call__(self, p: Values) -> Values:
        return np.asarray(expit(self.slope * bounded_logit(p) + self.intercept))

    def after(self, pair: OfPairs) -> OfPairs:
        """What the map makes of a function of pairs."""
        return lambda users, items: self(pair(users, items))


def bounded_logit(p: Values) -> Values:
    """logit(p), held within +-30 where p is 0 or 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(logit(p), -LARGEST_LOGIT, LARGEST_LOGIT))


def platt_map(said: Values, labels: Values, weight: Values) -> PlattMap:
    """The map of probabilities that fits labels best, by weighted maximum likelihood (Platt, 1999)."""
    if labels.min() == labels.max():
        return PlattMap()
    everybody = np.zeros(len(said), np.int64)
    examples = Examples(bounded_logit(said), labels, weight, everybody, np.zeros((1, 1), np.float32))
    return PlattMap(*scalar_platt(examples))


def calibrated_to_seen(pair: OfPairs, log: RatingLog, *, seed: int = 0) -> PlattMap:
    """The map that makes a propensity right on average at every level it speaks of, over all pairs.

    The propensity must be read where it was not trained, as cross-fitted `Factors` are: noise that overconfidence lets
    into p makes the mean of 1/p too large, and the slope takes it out.
    """
    rows = seen_and_unseen(log, seed=seed)
    return platt_map(pair(rows.users, rows.items), rows.seen, rows.weight)
