"""A start for factor nets where a random one leads nowhere: the leading directions of what effects leave unexplained.

From a random start interactions have to align before they help, which takes dozens of passes over a log of few ratings
a user; meanwhile effects begin to be learned by heart, the risk rises, and training stops with no interaction learned.
The directions themselves take a sparse singular value decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.nets.base import Catalogue, Net, NetRecipe
from unskew.nets.factors import FactorNet
from unskew.nets.table import Table
from unskew.utility.ordered import Levels, OrderedLogit, fit_ordered

Values = NDArray[np.float64]

MOST_DIRECTIONS = 16
EXACT = 1e-3  # relative error of a singular value
SWEEPS, SHRINKAGE = 6, 8.0  # of effects: ratings that count for the average beside those of a user or an item
CALIBRATION_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Directions:
    """What ratings less user and item effects share: v_u . w_i, one row a user and one an item.

    Residuals are divided by sqrt((n_u + mean) (n_i + mean)), so that neither those who rated much nor those who
    rated little rule the decomposition (regularised as in Chaudhuri, Chung & Tsiatas, COLT 2012), and singular values
    are lowered by the first that is left out, which is noise (soft thresholding: Mazumder, Hastie & Tibshirani, JMLR
    2010).
    """

    users: Values
    items: Values

    @classmethod
    def of(cls, log: RatingLog, count: int) -> Directions | None:
        """The leading `count`; nothing in a log with too few users or items for them."""
        count = min(count, log.n_users - 2, log.n_items - 2)
        if count < 1:
            return None
        scales = [(counts + counts.mean()) ** -0.5 for counts in _counts(log)]
        left = _residuals(log) * scales[0][log.users] * scales[1][log.items]
        matrix = csr_array((left, (log.users, log.items)), shape=(log.n_users, log.n_items))
        first = np.random.default_rng(0).standard_normal(min(matrix.shape))
        users, sizes, items = svds(matrix, k=count + 1, v0=first, tol=EXACT)
        order = np.argsort(-sizes)
        leading, noise = order[:count], sizes[order[count]]
        lowered = np.sqrt(len(log) * (sizes[leading] - noise))
        return cls(users[:, leading] * lowered * scales[0][:, None], items.T[:, leading] * lowered * scales[1][:, None])

    def __call__(self, log: RatingLog) -> Values:
        return np.asarray(np.einsum("nk,nk->n", self.users[log.users], self.items[log.items]))

    def calibrated(self, log: RatingLog) -> Directions:
        """As large as ratings that they were not made from bear out."""
        said = self(log)
        spoken = said.any() and log.ratings.min() < log.ratings.max()
        slope = fitted_to(log, said[:, None]).slopes[0] if spoken else 0.0
        scale = float(np.sqrt(max(slope, 0.0)))
        return Directions(self.users * scale, self.items * scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class Led(NetRecipe):
    """A factor net that starts with the leading directions of a split's training rows as its factors, and no others.

    They are as large as the ratings held out bear out. Other nets start as they always do.
    """

    net: NetRecipe
    split: Split = field(repr=False)

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        net = self.net.build(catalogue, generator)
        if can_be_led(net):
            found = self._directions(min(MOST_DIRECTIONS, _n_factors(net)))
            if found is not None:
                for table, side in ((net.users, found.users), (net.items, found.items)):
                    table.value[:, : _n_factors(net)] = 0.0
                    table.value[:, : side.shape[1]] = torch.from_numpy(side)
        return net

    def _directions(self, count: int) -> Directions | None:
        log, held_out = self.split.log, self.split.holdout_rows
        found = Directions.of(log.take(self.split.train_rows), count)
        some = held_out[:: 1 + len(held_out) // CALIBRATION_ROWS]
        return None if found is None else found.calibrated(log.take(some))


def can_be_led(net: Net) -> TypeGuard[FactorNet]:
    """Whether a start can be given to a net: to factors beside biases, with tables of their own."""
    return isinstance(net, FactorNet) and net.offset is not None and type(net.users) is Table and _n_factors(net) > 0


def _n_factors(net: FactorNet) -> int:
    return net.users.value.shape[1] - 1


def fitted_to(log: RatingLog, x: Values) -> OrderedLogit:
    """The calibration of x to a log's ratings."""
    levels = Levels.of(log.ratings)
    return fit_ordered(x, levels.level(log.ratings), len(levels))


def _counts(log: RatingLog) -> list[NDArray[np.int64]]:
    return [np.bincount(log.users, minlength=log.n_users), np.bincount(log.items, minlength=log.n_items)]


def _residuals(log: RatingLog) -> Values:
    """Ratings less their mean and effects of users and items, fitted in turns and shrunk."""
    of_user, of_item = _counts(log)
    centred = log.ratings - np.mean(log.ratings, dtype=np.float64)
    user, item = np.zeros(log.n_users), np.zeros(log.n_items)
    for _ in range(SWEEPS):
        item = np.bincount(log.items, centred - user[log.users], log.n_items) / (of_item + SHRINKAGE)
        user = np.bincount(log.users, centred - item[log.items], log.n_users) / (of_user + SHRINKAGE)
    return np.asarray(centred - user[log.users] - item[log.items])
