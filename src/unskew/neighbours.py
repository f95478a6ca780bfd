"""What is alike in the eyes of a model, and which ratings count for an answer: both by its inner products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.losses.columns import sigmoid
from unskew.nets.base import Linear

Values = NDArray[np.float64]
ROWS_AT_ONCE = 1 << 9


def mean_and_root(rows: NDArray[Any]) -> tuple[Values, Values]:
    """Return the mean of some rows, and the symmetric square root of their covariance, which may be singular."""
    mean = rows.mean(0, dtype=np.float64)
    away = rows - mean
    spread, axes = np.linalg.eigh(away.T @ away / len(rows))
    return mean, (axes * np.sqrt(np.maximum(spread, 0))) @ axes.T


def alike(rows: Values, others: Values, asked: NDArray[Any], k: int) -> tuple[NDArray[np.int64], Values]:
    """Return the k rows most like each asked one, and how alike: places and correlations, of shape (asked, k).

    Two rows are alike if what they answer goes up and down together over all `others`: corr(a, b) = a'Cb / |a||b| with
    C their covariance. Rotations of factors do not change it, and columns in which others do not differ have no part.
    """
    seen = rows @ mean_and_root(others)[1]
    length = np.sqrt(np.square(seen).sum(1, keepdims=True))
    seen = seen / np.where(length > 0, length, 1)
    k = min(k, len(rows) - 1)
    places, found = np.empty((len(asked), k), np.int64), np.empty((len(asked), k))
    for start in range(0, len(asked), ROWS_AT_ONCE):
        part = asked[start : start + ROWS_AT_ONCE]
        scores = seen[part] @ seen.T
        scores[np.arange(len(part)), part] = -np.inf  # nobody is his own neighbour
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        held = np.take_along_axis(scores, best, axis=1)
        order = np.lexsort((best, -held), axis=1)  # equal ones in the order of the catalogue
        places[start : start + len(part)] = np.take_along_axis(best, order, axis=1)
        found[start : start + len(part)] = np.take_along_axis(held, order, axis=1)
    return places, found


def contributions(form: Linear, rated: NDArray[Any], ratings: Values, item: int) -> Values:
    """Return how much each rating of a user moves the logit of an item away from the average user's.

    With users normal around their mean with covariance C, the user's row given the ratings is, to first order,
    mean + S sum_j x_j (r_j - p_j) with S = (C^-1 + sum_j p_j (1 - p_j) x_j x_j')^-1 and p_j what the average user would
    rate: a rating contributes x_i' S x_j (r_j - p_j). Solved in the root of C, which may be singular.
    """
    mean, root = mean_and_root(form.users)
    x, p = form.items[rated] @ root, sigmoid(form.items[rated] @ mean + form.offsets[rated])
    precision = np.eye(len(mean)) + (x * (p * (1 - p))[:, None]).T @ x
    direction = np.linalg.solve(precision, form.items[item] @ root)
    return np.asarray((x @ direction) * (ratings - p))
