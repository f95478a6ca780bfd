"""The area under the curve over all pairs: the chance that a liked pair scores above one that is not liked.

Every row has a positive mass y and a negative mass 1 - y, of which it may stand for more or fewer pairs than one.
With weights they are w r and w (1 - r) on seen pairs; doubly robust they are r_tilde and 1 - r_tilde on all pairs,
corrected by w (r - r_tilde) and its negative on the seen ones. AUC = sum_{a, b} y_a (1 - y_b) [s_a > s_b] / (sum y
sum (1 - y)), ties counting one half; its influence function is that of a two-sample U-statistic.
"""

from __future__ import annotations

import numpy as np

from unskew.data.pairs import pair_keys
from unskew.errors import DataError
from unskew.estimation.estimate import Estimate
from unskew.estimation.evidence import Evidence
from unskew.estimation.scores import Values
from unskew.estimation.terms import Judged
from unskew.metrics.intervals import effective_sample_size
from unskew.metrics.ranking import POSITIVE_FROM


def auc(name: str, judged: Judged, evidence: Evidence) -> Estimate:
    """By estimator: naive; ips and snips, which agree, as AUC is a ratio; dr, tdr and eib."""
    liked = (evidence.ratings >= POSITIVE_FROM).astype(np.float64)
    if name == "naive":
        ones = np.ones(len(liked))
        return _weighted(judged.seen, liked, ones, chance=ones)
    w = evidence.weights
    if name in ("ips", "snips"):
        return _weighted(judged.seen, liked, w, chance=np.sqrt(1 - 1 / w))
    if not evidence.log.binary:
        raise DataError(f"auc by {name} needs a binary log: a mean rating has no threshold.")
    said, everywhere = evidence.imputed_seen, evidence.imputed_pairs
    if name == "tdr":
        h = w - 1
        epsilon = float(h @ (liked - said)) / max(float(h @ h), 1e-12)  # held fixed by the interval
        said, everywhere = said + epsilon * h, everywhere + epsilon * evidence.covariate_pairs
    factor = np.ones(len(w)) if name == "eib" else w
    return _doubly_robust(judged, evidence, factor * (liked - said), everywhere, w)


class _Curve:
    """Masses by distinct score, and for any row the share of negative mass below it and of positive mass above it."""

    def __init__(self, scores: Values, positive: Values, negative: Values) -> None:
        distinct, self.level = np.unique(scores, return_inverse=True)
        at_positive = np.bincount(self.level, positive, len(distinct))
        at_negative = np.bincount(self.level, negative, len(distinct))
        self.positive, self.negative = float(positive.sum()), float(negative.sum())
        if self.positive <= 0 or self.negative <= 0:
            kind = "liked" if self.positive <= 0 else "disliked"
            raise DataError(f"auc needs liked and disliked pairs, but there are none that are {kind}.")
        self._below = np.cumsum(at_negative) - at_negative / 2
        self._above = self.positive - np.cumsum(at_positive) + at_positive / 2
        self.ordered = float(at_positive @ self._below)

    def influence(self, value: float) -> tuple[Values, Values]:
        """What a little more positive mass, and negative mass, at each row would add to the area."""
        below, above = self._below[self.level] / self.negative, self._above[self.level] / self.positive
        return (below - value) / self.positive, (above - value) / self.negative


def _weighted(scores: Values, liked: Values, w: Values, chance: Values) -> Estimate:
    positive, negative = w * liked, w * (1 - liked)
    curve = _Curve(scores, positive, negative)
    value = curve.ordered / (curve.positive * curve.negative)
    of_positive, of_negative = curve.influence(value)
    influence = (positive * of_positive + negative * of_negative) * chance
    return Estimate(value, influence, effective_sample_size(w))


def _doubly_robust(judged: Judged, evidence: Evidence, correction: Values, said: Values, w: Values) -> Estimate:
    """Masses of the catalogue's pairs and of seen ones; where all pairs are at hand, those of a pair are added up."""
    log, scores = evidence.log, judged.pairs
    if evidence.whole:
        place = pair_keys(log.users, log.items, log.n_items)
        positive = said.copy()
        positive[place] += correction
        negative = 1 - positive
    else:
        each, place = log.n_pairs / len(said), len(said) + np.arange(len(log))
        scores = np.concatenate([scores, judged.seen])
        positive = np.concatenate([each * said, correction])
        negative = np.concatenate([each * (1 - said), -correction])
    curve = _Curve(scores, positive, negative)
    itself = float(positive @ negative)  # no row is to be compared with itself
    value = (curve.ordered - itself / 2) / (curve.positive * curve.negative - itself)
    of_positive, of_negative = curve.influence(value)
    influence = correction * (of_positive - of_negative)[place] * np.sqrt(1 - 1 / w)
    drawn = None
    if not evidence.whole:
        n = len(said)
        drawn = log.n_pairs * (said * of_positive[:n] + (1 - said) * of_negative[:n])
    return Estimate(value, influence, effective_sample_size(w), drawn)
