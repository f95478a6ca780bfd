"""How well each user's own test pairs are ordered, averaged over users.

A user's list is the pairs that user has in the test, best score first. Pairs of one user with the same score form a
*tie block*, and every metric is its expected value over all orders of the tied pairs, in closed form: at each place of
a block stands the block's mean, and a constant predictor earns what a random ranking does (McSherry & Najork, 2008).

Ratings lie in [0, 1]. A rating is a gain as it stands (`ndcg`) and *positive* from 0.5 on (all others). What is *shown*
to people, whether rated or not, is in `TopLists`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError, whole
from unskew.metrics.checks import checked_columns, ratio, require_unit_interval
from unskew.special import gammaln

POSITIVE_FROM = 0.5
"""The rating, on the unit scale, from which a pair counts as positive."""

EmptyUsers = Literal["skip", "one", "zero"]


@dataclass(frozen=True, eq=False)
class UserLists:
    """All users' lists, laid end to end; the arrays below have one entry per pair but where noted."""

    users: NDArray[np.int64]  # one per list, ascending
    starts: NDArray[np.int64]  # one per list: where it begins
    owner: NDArray[np.int64]  # index of the list the pair stands in
    ratings: NDArray[np.float64]
    block: NDArray[np.int64]  # index of the tie block the pair stands in

    @classmethod
    def from_rows(cls, y_true: ArrayLike, y_pred: ArrayLike, users: ArrayLike) -> UserLists:
        """Sort rows (rating, score, integer user code) into lists: O(n log n), in any order of rows."""
        ratings, scores, _ = checked_columns(y_true, y_pred)
        require_unit_interval(ratings, "y_true")
        codes = np.asarray(users)
        if codes.shape != ratings.shape or not np.issubdtype(codes.dtype, np.integer):
            raise DataError(f"users are {codes.dtype} of shape {codes.shape}: give {ratings.size} integer codes.")
        # Ratings break the sort's ties only to make sums of floats the same for every order of rows.
        order = np.lexsort((ratings, -scores, codes))
        codes, scores = codes[order], scores[order]
        new_user = np.concatenate(([True], codes[1:] != codes[:-1]))
        new_block = new_user | np.concatenate(([True], scores[1:] != scores[:-1]))
        starts = np.flatnonzero(new_user)
        return cls(codes[starts], starts, np.cumsum(new_user) - 1, ratings[order], np.cumsum(new_block) - 1)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Pairs in each list."""
        return np.diff(self.starts, append=self.ratings.size)

    @cached_property
    def positives(self) -> NDArray[np.int64]:
        """Positive pairs in each list."""
        return np.add.reduceat(self._positive.astype(np.int64), self.starts)

    def auc(self, k: int = 0) -> NDArray[np.float64]:
        """Return each user's chance that a positive pair scores above a negative one; NaN without both kinds.

        Mann-Whitney by ranks counted from the bottom, tied pairs sharing their mean rank:
        (sum of the positives' ranks - P (P + 1) / 2) / (P N).
        """
        rank = self.lengths[self.owner] - self._block_mean(self._position)
        positives, negatives = self.positives, self.lengths - self.positives
        rank_sum = np.add.reduceat(np.where(self._positive, rank, 0.0), self.starts)
        return ratio(rank_sum - positives * (positives + 1) / 2, positives * negatives)

    def ndcg(self, k: int) -> NDArray[np.float64]:
        """Return each user's DCG / IDCG with DCG = sum_{j <= k} r_(j) / log2(j + 1); NaN where every rating is 0.

        IDCG is the same sum with the ratings in their best order (Jarvelin & Kekalainen, 2002; linear gain).
        """
        discount = self._within(k) / np.log2(self._position + 2)
        best = self.ratings[np.lexsort((-self.ratings, self.owner))]
        dcg = np.add.reduceat(self._block_mean(self.ratings) * discount, self.starts)
        return ratio(dcg, np.add.reduceat(best * discount, self.starts))

    def recall(self, k: int) -> NDArray[np.float64]:
        """Return each user's share of positives found among the first k; NaN for a user without any."""
        return ratio(self._hits(k), self.positives)

    def precision(self, k: int) -> NDArray[np.float64]:
        """Return each user's share of positives among the first min(k, list length); NaN for a user without any."""
        hits = np.where(self.positives > 0, self._hits(k), np.nan)
        return hits / np.minimum(k, self.lengths)

    def hit(self, k: int) -> NDArray[np.float64]:
        """Return each user's chance of a positive among the first k; NaN for a user without any.

        Within a block that k cuts, m of n places are looked at: the chance to miss its b positives is hypergeometric,
        prod_{j < b} (n - m - j) / (n - j).
        """
        whole(k, "k", 1)
        starts, size, positive = self._blocks
        looked_at = np.clip(k - self._position[starts], 0, size)
        missed = np.exp(_log_choose(size - positive, looked_at) - _log_choose(size, looked_at))
        chance = 1 - np.multiply.reduceat(missed, np.flatnonzero(np.diff(self.owner[starts], prepend=-1)))
        return np.where(self.positives > 0, chance, np.nan)

    def reciprocal_rank(self, k: int = 0) -> NDArray[np.float64]:
        """Return each user's expected 1 / place of the first positive; NaN for a user without any."""
        starts, size, positive = self._blocks
        owner, found = self.owner[starts], np.full(len(self.users), np.nan)
        with_any = np.flatnonzero(positive)
        blocks = with_any[np.diff(owner[with_any], prepend=-1) > 0]  # the first with a positive, of each user
        found[owner[blocks]] = 1 / (self._position[starts[blocks]] + 1.0)
        for block in blocks[size[blocks] > 1]:
            n, b, before = int(size[block]), int(positive[block]), int(self._position[starts[block]])
            places = np.arange(n - b + 1)
            first = np.exp(_log_choose(n - 1 - places, np.full(len(places), b - 1)) - _log_choose(np.array(n), b))
            found[owner[block]] = float((first / (before + 1 + places)).sum())
        return found

    @cached_property
    def _blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where tie blocks begin, their sizes and their positives."""
        starts = np.flatnonzero(np.diff(self.block, prepend=-1))
        return starts, np.diff(starts, append=self.ratings.size), np.add.reduceat(self._positive.astype(int), starts)

    @cached_property
    def _position(self) -> NDArray[np.int64]:
        return np.arange(self.ratings.size) - self.starts[self.owner]

    @cached_property
    def _positive(self) -> NDArray[np.bool_]:
        return self.ratings >= POSITIVE_FROM

    def _block_mean(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        return (np.bincount(self.block, values) / np.bincount(self.block))[self.block]

    def _within(self, k: int) -> NDArray[np.bool_]:
        whole(k, "k", 1)
        return self._position < k

    def _hits(self, k: int) -> NDArray[np.float64]:
        return np.add.reduceat(self._block_mean(self._positive) * self._within(k), self.starts)


def _log_choose(n: NDArray[np.integer], k: NDArray[np.integer] | int) -> NDArray[np.float64]:
    """log (n choose k); -inf where k is larger than n."""
    n, k = np.broadcast_arrays(n, k)
    inside = k <= n
    left = np.where(inside, n - k, 0)
    return np.where(inside, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(left + 1.0), -np.inf)


@dataclass(frozen=True, eq=False)
class TopLists:
    """What is shown: the items of everybody's list laid end to end, which list each is of, its place from 1."""

    owner: NDArray[np.int64]
    items: NDArray[np.int64]
    rank: NDArray[np.int64]
    counts: NDArray[np.int64]  # of ratings in the log, one an item

    @property
    def keys(self) -> NDArray[np.int64]:
        """A number for each pair of a list and an item."""
        return self.owner * len(self.counts) + self.items

    def coverage(self, k: int) -> float:
        """Return the share of the catalogue that somebody is shown."""
        return len(np.unique(self.items[self.rank <= k])) / len(self.counts)

    def novelty(self, k: int) -> float:
        """Return the mean of -log2 of the share of ratings that a shown item has: rare items are news."""
        share = (self.counts[self.items[self.rank <= k]] + 1) / (self.counts.sum() + len(self.counts))
        return float(-np.log2(share).mean())

    def same_first(self, k: int = 1) -> float:
        """Return the share of users who get the most frequent first item."""
        first = self.items[self.rank == 1]
        return float(np.bincount(first).max() / len(first)) if len(first) else 0.0
