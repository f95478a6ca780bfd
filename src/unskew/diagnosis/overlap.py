"""Can the seen pairs stand for all pairs? Propensities of both, what weights leave of the log, and balance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from unskew.data.log import RatingLog
from unskew.diagnosis.groups import Groups
from unskew.diagnosis.subject import Subject
from unskew.estimation.calibrated import seen_and_unseen
from unskew.estimation.scores import Codes, Values
from unskew.estimation.weighing import Trouble, Weighing
from unskew.metrics.accuracy import roc_auc
from unskew.metrics.intervals import effective_sample_size

LEVELS = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
SHRINKAGE = 5.0  # ratings of an average user or item that are added to a mean
COLLAPSED = 1e-3  # of the mean


@dataclass(frozen=True)
class GroupOverlap:
    """What the weights leave of one group's ratings."""

    name: str
    n_ratings: int
    effective_sample_size: float


@dataclass(frozen=True)
class Balance:
    """How far seen pairs are from all pairs in one property, in its standard deviations, before and after weighting."""

    property: str
    before: float
    after: float


@dataclass(frozen=True)
class OverlapFigures:
    """Propensities as the model uses them, unclipped, and what their inverses do to the log.

    `over_pairs` and `over_seen` are their quantiles at `LEVELS`. `coverage` is the share of all pairs that the seen
    ones stand for, (1/|D|) sum 1/p, which is 1 but for chance if every pair can be seen and the propensities are
    right; `discrimination` is the chance that a seen pair has a higher propensity than an unseen one. `uneven` is how
    many times more users' and items' numbers of ratings vary than they would by chance.
    """

    base_rate: float
    mean: float
    spread: float
    over_pairs: tuple[float, ...]
    over_seen: tuple[float, ...]
    discrimination: float
    clip: float
    clipped_share_of_seen: float
    clipped_share_of_pairs: float
    coverage: float
    coverage_error: float
    coverage_clipped: float
    largest_weights: tuple[float, ...]
    largest_share: float
    n_ratings: int
    effective_sample_size: float
    groups: tuple[GroupOverlap, ...]
    balance: tuple[Balance, ...]
    uneven: tuple[float, float]
    uneven_p_values: tuple[float, float]
    trouble: Trouble | None  # why the weights cannot speak for all pairs

    @property
    def collapsed(self) -> bool:
        """Whether the propensity says the same of every pair, whatever its rating."""
        return self.spread < COLLAPSED * self.mean and self.over_seen[-1] - self.over_seen[0] < COLLAPSED * self.mean


def overlap_of(subject: Subject) -> OverlapFigures:
    log, pair, seen = subject.log, subject.propensity.as_used, subject.seen_used
    rows = seen_and_unseen(log, seed=subject.seed)
    p = pair(rows.users, rows.items)
    mean = float(np.average(p, weights=rows.weight))
    raw, clipped = (Weighing(np.maximum(seen, 1e-12), None, log.n_pairs, clip) for clip in (0.0, subject.clip))
    w = raw.weights
    top = np.sort(w)[::-1][:5]
    uneven = [_dispersion(codes, n, other) for codes, n, other in _sides(log)]
    return OverlapFigures(
        base_rate=len(log) / log.n_pairs,
        mean=mean,
        spread=float(np.sqrt(np.average((p - mean) ** 2, weights=rows.weight))),
        over_pairs=_quantiles(p, rows.weight),
        over_seen=tuple(float(value) for value in np.quantile(seen, LEVELS)),
        discrimination=roc_auc(rows.seen, p, sample_weight=rows.weight) if 0 < rows.seen.mean() < 1 else 0.5,
        clip=subject.clip,
        clipped_share_of_seen=float((seen < subject.clip).mean()),
        clipped_share_of_pairs=float(np.average(p < subject.clip, weights=rows.weight)),
        coverage=raw.coverage[0],
        coverage_error=raw.coverage[1],
        coverage_clipped=clipped.coverage[0],
        largest_weights=tuple(float(value) for value in top),
        largest_share=float(top[0] / w.sum()),
        n_ratings=len(log),
        effective_sample_size=effective_sample_size(w),
        groups=_by_group(log, w, subject.seed),
        balance=_balance(log, w),
        uneven=(uneven[0][0], uneven[1][0]),
        uneven_p_values=(uneven[0][1], uneven[1][1]),
        trouble=raw.trouble,
    )


def _quantiles(p: Values, weight: Values) -> tuple[float, ...]:
    order = np.argsort(p)
    share = np.cumsum(weight[order]) / weight.sum()
    at = np.minimum(np.searchsorted(share, LEVELS), len(p) - 1)
    return tuple(float(value) for value in p[order][at])


def _by_group(log: RatingLog, w: Values, seed: int) -> tuple[GroupOverlap, ...]:
    masks = Groups(log, seed).masks(log.users, log.items)
    return tuple(GroupOverlap(name, int(mask.sum()), effective_sample_size(w[mask])) for name, mask in masks)


def _sides(log: RatingLog) -> list[tuple[Codes, int, int]]:
    return [(log.users, log.n_users, log.n_items), (log.items, log.n_items, log.n_users)]


def _dispersion(codes: Codes, n: int, others: int) -> tuple[float, float]:
    """The variance of counts over that of a binomial, and the chance of as much if all pairs were alike."""
    counts = np.bincount(codes, minlength=n)
    rate = counts.sum() / (n * others)
    binomial = others * rate * (1 - rate)
    if binomial <= 0:
        return 1.0, 1.0
    ratio = float(((counts - counts.mean()) ** 2).sum() / binomial)
    return ratio / max(n - 1, 1), float(chi2.sf(ratio, max(n - 1, 1)))


def _balance(log: RatingLog, w: Values) -> tuple[Balance, ...]:
    """Activity, popularity, and the mean ratings of users and items, shrunk where ratings are few."""
    found = []
    for side, (codes, n, _) in zip(("user", "item"), _sides(log), strict=True):
        counts = np.bincount(codes, minlength=n).astype(np.float64)
        total = np.bincount(codes, log.ratings, minlength=n)
        overall = float(log.ratings.mean())
        mean = (total + SHRINKAGE * overall) / (counts + SHRINKAGE)
        activity = "activity of users" if side == "user" else "popularity of items"
        for name, of_each in ((activity, np.log1p(counts)), (f"mean rating of {side}s", mean)):
            spread = float(of_each.std())
            if spread < 1e-9:  # all alike, and so they are among the seen
                found.append(Balance(name, 0.0, 0.0))
                continue
            before, after = (float(np.average(of_each[codes], weights=weight)) for weight in (np.ones(len(w)), w))
            centre = float(of_each.mean())
            found.append(Balance(name, (before - centre) / spread, (after - centre) / spread))
    return tuple(found)
