"""What exposure may follow beside popularity: the features of users and items, which can pass for liking.

A shop shows men what is for men, and men like it better. So pairs that fit by features are seen more often than liking
alone explains, and a slope that is read off them is far too large. As activity and exposure are left to explain all
that is special to a user or an item, they are left to explain what is special to a pair of features: a pair's rate is

    a_u b_i exp(slope z + gamma f),

f = x_u' C x_i being the part of the interaction that features of both sides can explain, and gamma free. What is left
to speak of the slope is what ratings alone tell about who likes what.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from unskew.data.log import RatingLog
from unskew.utility.crossfit import AT_ONCE, Codes, CrossFitted

Values = NDArray[np.float64]

MOST_DIRECTIONS = 32  # of the features of a side
NEGLIGIBLE = 1e-6  # share of the largest variance, below which a direction is none


@dataclass(frozen=True, eq=False)
class Crossing:
    """f = x_u' C x_i: the interaction of nets as far as it is linear in features of users times features of items.

    Rows of `users` and `items` have mean 0 and covariance 1, so C = E[interaction x_u x_i'] over random pairs is the
    least squares fit, and the square root of its sum of squares is the spread of f.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    weights: NDArray[np.float32]

    @property
    def spread(self) -> float:
        return float(np.linalg.norm(self.weights))

    def __call__(self, users: Codes, items: Codes) -> Values:
        return np.asarray(np.einsum("nk,nk->n", self.users[users] @ self.weights, self.items[items]), np.float64)

    @classmethod
    def of(cls, fitted: CrossFitted, log: RatingLog, pairs: NDArray[np.int64]) -> Crossing | None:
        """From what the nets say of these random pairs; nothing if nothing is known of users or of items."""
        if log.user_features is None or log.item_features is None:
            return None
        users, items = (_directions(side.encoded) for side in (log.user_features, log.item_features))
        weights = np.zeros((users.shape[1], items.shape[1]))
        for start in range(0, len(pairs), AT_ONCE):
            u, i = np.divmod(pairs[start : start + AT_ONCE], log.n_items)
            interaction = fitted.mean_parts(u, i)[:, 2:]
            weights += users[u].T @ (interaction * items[i])
        found = cls(users, items, (weights / len(pairs)).astype(np.float32))
        return found if found.spread else None


@dataclass(frozen=True, eq=False)
class Reading:
    """What cross-fitted nets say of pairs, where features are known with the interaction taken apart by them."""

    fitted: CrossFitted
    crossing: Crossing | None

    def parts(self, users: Codes, items: Codes, repeat: int) -> Values:
        """User effect, item effect and interaction; what a crossing explains of that stands in a fourth column."""
        parts = self.fitted.parts(users, items, repeat)
        if self.crossing is None:
            return parts
        explained = self.crossing(users, items)
        return np.column_stack([parts[:, :2], parts[:, 2] - explained, explained])

    def control(self, parts: Values) -> NDArray[np.float32]:
        """f of each row of parts at spread 1; empty without a crossing."""
        if self.crossing is None:
            return np.empty(0, np.float32)
        return (parts[:, 3] / self.crossing.spread).astype(np.float32)


def _directions(known: csr_array) -> NDArray[np.float32]:
    """The main directions of features, one row an id, with mean 0 and covariance 1."""
    n, width = known.shape
    if not width:
        return np.empty((n, 0), np.float32)
    if width > MOST_DIRECTIONS < n:
        _, _, axes = svds(known.astype(np.float64), k=MOST_DIRECTIONS, v0=np.ones(min(n, width)))
        placed = known @ axes.T
    else:
        placed = known.toarray().astype(np.float64)
    placed = placed - placed.mean(0)
    variances, axes = np.linalg.eigh(placed.T @ placed / n)
    kept = variances > NEGLIGIBLE * max(float(variances.max()), 1e-12)
    return np.asarray(placed @ axes[:, kept] / np.sqrt(variances[kept]), np.float32)
