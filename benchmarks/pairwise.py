"""How well each user's ratings are ordered, as a loss: what a net says of two items of one user, compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEIGHBOURS = 32  # with how many of the user's other ratings each is compared, at most


def pairwise_log_loss(
    y_true: ArrayLike, logits: ArrayLike, users: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """The mean over pairs of one user's ratings r > s of w_r w_s (r - s) log(1 + exp(z_s - z_r)), weights normalised.

    The level of a user's ratings cancels out of z_r - z_s, and so does every error in it: what is left is the order of
    items, which a log-loss of single ratings hardly sees. Each rating is compared with the next 32 of its user, in the
    order given: all pairs for users with up to 33 ratings. nan if no user has two different ratings.
    """
    codes, ratings = np.asarray(users), np.asarray(y_true, np.float64)
    z, w = np.asarray(logits, np.float64), np.ones(len(ratings)) if sample_weight is None else np.asarray(sample_weight)
    order = np.argsort(codes, kind="stable")
    codes, ratings, z, w = codes[order], ratings[order], z[order], w[order]
    loss = total = 0.0
    for distance in range(1, min(NEIGHBOURS, len(codes) - 1) + 1):
        of_one = codes[distance:] == codes[:-distance]
        if not of_one.any():
            break
        above, gap, weight = _compared(ratings, z, w, distance, of_one)
        loss += float((weight * np.logaddexp(0, -above * gap)).sum())
        total += float(weight.sum())
    return loss / total if total else float("nan")


def _compared(
    ratings: NDArray[np.float64],
    z: NDArray[np.float64],
    w: NDArray[np.float64],
    distance: int,
    of_one: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Of the pairs so far apart: which is rated higher, the difference of their logits, and what they weigh."""
    differ, gap = ((values[distance:] - values[:-distance])[of_one] for values in (ratings, z))
    return np.sign(differ), gap, (w[distance:] * w[:-distance])[of_one] * np.abs(differ)
