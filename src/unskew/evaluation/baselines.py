"""What simple models answer, so that a figure of another means something."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.evaluation.fits import Answers
from unskew.registry import make
from unskew.training.options import Training

SHRUNK = 5  # ratings at the mean of the log that a user's or an item's own are averaged with
POPULARITY = "popularity"


def baselines(log: RatingLog, seed: int) -> dict[str, Answers]:
    """Return popularity (an order, no chance), item means, user means and plain training of a log, on the unit scale.

    Each answers for codes, the code -1 being an unknown user or item.
    """
    counts = np.append(np.bincount(log.items, minlength=log.n_items), 0).astype(np.float64)
    plain = make("naive").fit(log, seed=seed, training=Training(progress=False))

    def shrunk(codes: NDArray[Any], n: int) -> NDArray[np.float64]:
        total, count = np.bincount(codes, log.ratings, n), np.bincount(codes, minlength=n)
        return np.append((total + SHRUNK * log.positive_rate) / (count + SHRUNK), log.positive_rate)

    items, users = shrunk(log.items, log.n_items), shrunk(log.users, log.n_users)
    return {
        POPULARITY: lambda u, i: counts[i],
        "item means": lambda u, i: items[i],
        "user means": lambda u, i: users[u],
        "plain training": plain.predict_codes,
    }
