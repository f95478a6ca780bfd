"""The value of a metric over the pairs that nobody chose, by estimators of the literature.

naive: the mean over left-out ratings. ips: sum w e / N, w = (1 - p) / p (Horvitz & Thompson, 1952). snips: sum w e /
sum w (Swaminathan & Joachims, NeurIPS 2015). dr: the mean over unseen pairs of the error by imputed ratings, plus the
self-normalised residual (Wang et al., ICML 2019). All are one formula with other weights and another imputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError
from unskew.evaluation.judge import Corner, Estimate, Evidence, Values, gather, mean_of, order_of
from unskew.evaluation.scores import by_fold
from unskew.findings import Interval, Table
from unskew.metrics.checks import finite_vector
from unskew.metrics.table import Metric, find
from unskew.model import Recommender

ESTIMATORS = ("naive", "ips", "snips", "dr")
BY_THE_LOG = ("mse", "mae", "log_loss", "auc", "user_auc", "precision")


@dataclass(frozen=True, eq=False, repr=False)
class Risk:
    """Values of metrics by estimators over the pairs that nobody chose; what cannot be is "cannot tell"."""

    found: dict[tuple[str, str], Interval | None]  # by metric and estimator
    n_ratings: int
    effective: float

    def __getitem__(self, key: tuple[str, str]) -> Interval | None:
        if key not in self.found:
            raise ParameterError(f"there is no estimate {key!r} here; choose from {', '.join(map(str, self.found))}.")
        return self.found[key]

    @property
    def table(self) -> Table:
        """A row a metric, a column an estimator."""
        estimators = list(dict.fromkeys(estimator for _, estimator in self.found))
        rows = []
        for metric in dict.fromkeys(metric for metric, _ in self.found):
            cells = [self.found[metric, estimator] for estimator in estimators]
            rows.append((metric, *("cannot tell" if cell is None else cell for cell in cells)))
        caption = (
            f"Over the pairs that nobody chose, by {self.n_ratings:,} ratings worth {self.effective:,.0f} equal ones"
        )
        return Table(caption, ("", *estimators), rows)

    def __repr__(self) -> str:
        return f"{self.table.caption}\n{self.table.text()}"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Values and ends by metric and estimator, None for what cannot be."""
        found: dict[str, Any] = {}
        for (metric, estimator), interval in self.found.items():
            found.setdefault(metric, {})[estimator] = None if interval is None else interval.to_dict()
        return {"estimates": found, "ratings": self.n_ratings, "effective_ratings": self.effective}


def estimate_risk(
    model_or_scores: Any,
    log: RatingLog | None = None,
    *,
    metrics: Sequence[str] = ("mse", "auc", "user_auc", "precision@10"),
    estimators: Sequence[str] = ESTIMATORS,
    propensity: Any = None,
    seed: int = 0,
) -> Risk:
    """Estimate how good answers are over the pairs that nobody chose, from a log alone.

    An unskew model without a `log` is judged on its own: its method is fitted five times without a fold. Of all else
    give scores (see `scores_of`) that were not trained on the log. `propensity` are known chances of being seen: a
    function of (users, items), or one number a rating.
    """
    asked = [find(name) for name in metrics]
    for metric in asked:
        if metric.name.partition("@")[0] not in BY_THE_LOG:
            raise ParameterError(f"a log cannot tell {metric.name} of unseen pairs; ask for {', '.join(BY_THE_LOG)}@K.")
    for name in estimators:
        if name not in ESTIMATORS:
            raise ParameterError(f"there is no estimator {name!r}; choose from {', '.join(ESTIMATORS)}.")
    if log is None and not isinstance(model_or_scores, Recommender):
        raise ParameterError("scores need a log that they were not trained on: give one.")
    log = model_or_scores.log if log is None else as_log(log, model_or_scores)
    evidence = gather(log, seed=seed, propensity=known_propensity(propensity, log))
    scores = evidence.scores(by_fold(model_or_scores, log, evidence.fold_of_ratings, "the model"))
    found: dict[tuple[str, str], Interval | None] = {}
    for metric in asked:
        for estimator in estimators:
            value = estimate(evidence, metric, estimator, scores)
            low, high = metric.range
            possible = low <= value.value - 1.96 * value.error and value.value + 1.96 * value.error <= high
            found[metric.name, estimator] = value.interval() if possible else None
    return Risk(found, evidence.n_held, evidence.effective)


def known_propensity(source: Any, log: RatingLog) -> Values | None:
    """Known chances of being seen, one a rating, from a function or an array."""
    if source is None:
        return None
    if callable(source):
        source = source(np.asarray(log.user_ids)[log.users], np.asarray(log.item_ids)[log.items])
    found = finite_vector(source, "the propensity")
    if len(found) != len(log):
        raise DataError(f"there are {len(found):,} propensities for {len(log):,} ratings; give one for each rating.")
    return found


def corner_of(evidence: Evidence, estimator: str) -> Corner:
    """How an estimator reads the log."""
    alike = evidence.corners["alike"]
    if estimator == "dr":
        return alike
    weight = evidence.held.astype(np.float64) if estimator == "naive" else alike.weight
    return Corner(evidence.y, weight, np.zeros(len(weight)))


def estimate(evidence: Evidence, metric: Metric, estimator: str, scores: Values) -> Estimate:
    """One metric of one model's scores by one estimator."""
    corner = corner_of(evidence, estimator)
    if metric.name in ("auc", "user_auc"):
        found = order_of(evidence, scores, corner, within_users=metric.name == "user_auc")
        total, value = found.all.sum(), found.value
        terms = ((found.right - value * found.all) / total, (found.right_by_item - value * found.all_by_item) / total)
        return Estimate(value, evidence.error(*terms))
    if metric.k:
        return liked_of_shown(evidence, scores, metric.k, corner)
    binary, external = evidence.log.binary, evidence.log.scale.from_unit
    cell, given = metric.cell, np.asarray(external(scores))
    assert cell is not None
    if metric.probabilities and not (binary and scores.min() >= 0 and scores.max() <= 1):
        raise DataError(f"{metric.name} needs probabilities of a binary log, and some scores lie outside [0, 1].")
    happened = cell(given, np.asarray(external(evidence.y)))
    if binary:
        expected = corner.q * cell(given, np.ones(len(given))) + (1 - corner.q) * cell(given, np.zeros(len(given)))
    else:
        expected = cell(given, np.asarray(external(corner.q)))
    if estimator == "ips":
        base = evidence.corners["alike"].base
        value = float((corner.base * happened).sum() / base.sum())
        influence = (corner.base * happened - value * base) / base.sum()
        return Estimate(value, evidence.error(influence))
    return mean_of(evidence, corner, expected, happened - expected)


def liked_of_shown(evidence: Evidence, scores: Values, k: int, corner: Corner) -> Estimate:
    """The mean rating of the k best pairs of every user outside the training rows."""
    inside = first_k(evidence, scores, k)
    here = Corner(corner.q, corner.base * inside, corner.weight * inside)
    return mean_of(evidence, here, corner.q, evidence.y - corner.q)


def first_k(evidence: Evidence, scores: Values, k: int) -> Values:
    """1 for rows among the k best of their user, else 0; a sample of pairs knows no best ones."""
    if not evidence.whole:
        raise DataError("lists of a catalogue this large cannot be judged by a sample of its pairs; leave them out.")
    group = evidence.fold * evidence.log.n_users + evidence.users
    order = np.lexsort((-scores, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    inside = np.zeros(len(order))
    inside[order[place < k]] = 1.0
    return inside
