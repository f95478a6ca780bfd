"""The sums an estimator needs of one model and one metric: on seen pairs, and imputed over the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unskew.data.pairs import pair_keys
from unskew.errors import DataError
from unskew.estimation.evidence import Evidence
from unskew.estimation.quantities import Metric, check_probabilities, error_of, gain_of, place_value
from unskew.estimation.scores import Scores, Values
from unskew.topk import TopItems, top_items


@dataclass(frozen=True, eq=False)
class Imputed:
    """a and b by imputed ratings: of the seen pairs, and one `direct` entry for each unit the catalogue is averaged by.

    Those units are pairs of the catalogue or, for lists, users. b is None where its mean is known.
    """

    a: Values
    b: Values | None
    direct_a: Values
    direct_b: Values | None


@dataclass(frozen=True, eq=False)
class Terms:
    """a and b of the seen pairs that count: the value is mean_D a / mean_D b.

    Unless it is a ratio of unknowns, mean_D b is known to be 1, and b is only there to be normalised by. `owner`
    numbers the user of each row, None where the pair is the unit.
    """

    rows: NDArray[np.int64]  # of the log
    n_pairs: int  # that the means are over
    a: Values
    b: Values
    ratio: bool
    imputed: Imputed | None
    owner: NDArray[np.int64] | None = None
    n_owners: int = 0


class Judged:
    """One model's scores of seen pairs, of the catalogue's pairs and of everybody's best items, each found once."""

    def __init__(self, scores: Scores, evidence: Evidence, metrics: Iterable[Metric]) -> None:
        self.scores, self.evidence, self.log = scores, evidence, evidence.log
        self.longest = max((metric.k for metric in metrics), default=0)

    @cached_property
    def seen(self) -> Values:
        return self.scores(self.log.users, self.log.items)

    @cached_property
    def pairs(self) -> Values:
        return self.scores(*self.evidence.pairs)

    @cached_property
    def lists(self) -> TopItems:
        """The `longest` best items of each of the evidence's users."""
        evidence, items = self.evidence, np.arange(self.log.n_items)
        return top_items(self.scores, self.log, evidence.list_users, items, self.longest, exclude_seen=False)

    def terms(self, metric: Metric, imputed: bool) -> Terms:
        """Of any metric but auc, with what imputation says if `imputed`."""
        return self._of_lists(metric, imputed) if metric.k else self._of_pairs(metric, imputed)

    def _of_pairs(self, metric: Metric, imputed: bool) -> Terms:
        log, evidence = self.log, self.evidence
        error, external = error_of(metric, log.binary), log.scale.from_unit
        check_probabilities(self.seen, metric, log.binary)
        said = None
        if imputed:
            check_probabilities(self.pairs, metric, log.binary)
            said = Imputed(
                a=error(self.seen, external(evidence.imputed_seen)),
                b=None,
                direct_a=error(self.pairs, external(evidence.imputed_pairs)),
                direct_b=None,
            )
        a = error(self.seen, external(evidence.ratings))
        return Terms(np.arange(len(log)), log.n_pairs, a, np.ones(len(log)), False, said)

    def _of_lists(self, metric: Metric, imputed: bool) -> Terms:
        """ndcg and precision: b = |I| * place, whose mean over pairs is 1, and a = b * gain.

        recall: a = gain within the list, b = gain, so that it is liked pairs in lists over all liked pairs.
        """
        log, evidence, users = self.log, self.evidence, self.evidence.list_users
        if imputed and not log.binary and metric.kind != "ndcg":
            raise DataError(f"{metric.name} with imputed ratings needs a binary log: a mean rating has no threshold.")
        rows, owner = self._rows_of(users)
        worth = place_value(metric, log.n_items)
        place = worth[self._rank(rows, owner, metric.k)]
        if not place.any():
            raise DataError(
                f"No rating is of a pair in anybody's list of {metric.k}, so this log says nothing of {metric.name}; "
                "leave it out, or ask for longer lists."
            )
        gain = gain_of(metric, evidence.ratings[rows], log.binary)
        said = None
        if imputed:
            guess = evidence.imputed_seen[rows]
            said = Imputed(
                a=place * guess,
                b=guess if metric.is_ratio else None,
                direct_a=self._listed(metric, worth),
                direct_b=evidence.imputed_pairs if metric.is_ratio else None,
            )
        b = gain if metric.is_ratio else place
        return Terms(rows, len(users) * log.n_items, place * gain, b, metric.is_ratio, said, owner, len(users))

    def _rows_of(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of the log that belong to these users, and the number of the user of each."""
        number = np.full(self.log.n_users, -1, np.int64)
        number[users] = np.arange(len(users))
        rows = np.flatnonzero(number[self.log.users] >= 0)
        return rows, number[self.log.users[rows]]

    def _rank(self, rows: NDArray[np.int64], owner: NDArray[np.int64], k: int) -> NDArray[np.int64]:
        """The place of each seen pair in its user's list of k, 0 if it is not there."""
        listed = self.lists
        keys = pair_keys(listed.position, listed.items, self.log.n_items)
        order = np.argsort(keys)
        wanted = pair_keys(owner, self.log.items[rows], self.log.n_items)
        at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
        return np.where((keys[at] == wanted) & (listed.rank[at] <= k), listed.rank[at], 0)

    def _listed(self, metric: Metric, worth: Values) -> Values:
        """For each user the mean over the catalogue of imputed a, which is 0 outside the list."""
        listed, users = self.lists, self.evidence.list_users
        inside = listed.rank <= metric.k
        position, items = listed.position[inside], listed.items[inside]
        said = self.evidence.imputed(users[position], items) * worth[listed.rank[inside]]
        return np.bincount(position, said, minlength=len(users)) / self.log.n_items
