"""Which of two models is better, from a log alone: one paired interval, and one line of plain language."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.estimation.estimate import Estimate
from unskew.estimation.estimators import ESTIMATORS
from unskew.estimation.evidence import MAX_PAIRS
from unskew.estimation.holdout import for_judging, judging_log
from unskew.estimation.quantities import Metric, metric_of
from unskew.estimation.risk import checked_scores, estimate, estimator_names, evidence_for
from unskew.estimation.terms import Judged
from unskew.metrics.intervals import Interval, normal_interval
from unskew.theory.sensitivity import overturning_factor
from unskew.training.options import Training


@dataclass(frozen=True)
class Comparison:
    """Two models on one log; `difference` is the first's value minus the second's, paired pair by pair.

    `naive` is that difference without weights. `overturning_factor` is how strongly a hidden cause would have to
    change the odds of being seen to overturn the sign of the difference; None where it is not defined (naive, eib,
    auc).
    """

    names: tuple[str, str]
    metric: str
    estimator: str
    confidence: float
    first: Interval
    second: Interval
    difference: Interval
    standard_error: float
    naive: Interval
    overturning_factor: float | None
    n_ratings: int
    effective_sample_size: float
    lower_is_better: bool

    @property
    def better(self) -> str | None:
        """The name of the better model, None if the interval of the difference covers zero."""
        return None if self.difference.covers(0.0) else self._favours(self.difference.value)

    def _favours(self, difference: float) -> str:
        return self.names[0 if (difference < 0) == self.lower_is_better else 1]

    def __str__(self) -> str:
        _, low, high = self.difference
        value, level = abs(self.difference.value), f"{self.confidence:.0%} interval"
        sample = f"{self.estimator}, {self.n_ratings:,} ratings worth {self.effective_sample_size:,.0f} equal ones"
        if self.better is None:
            line = (
                f"This log cannot tell {self.names[0]} from {self.names[1]}: their difference in {self.metric} is "
                f"{self.difference.value:+.4f} ({level} {low:+.4f} to {high:+.4f}; {sample})"
            )
        else:
            other = self.names[1 - self.names.index(self.better)]
            least, most = sorted((abs(low), abs(high)))
            line = (
                f"{self.better} is better than {other}: its {self.metric} is {self._direction} by {value:.4f} "
                f"({level} {least:.4f} to {most:.4f}; {sample})"
            )
        return f"{line}{self._naive_in_words}{self._factor_in_words}."

    @property
    def _direction(self) -> str:
        return "lower" if self.lower_is_better else "higher"

    @property
    def _naive_in_words(self) -> str:
        if self.estimator == "naive" or self._favours(self.naive.value) == self._favours(self.difference.value):
            return ""
        return f"; unweighted, {self._favours(self.naive.value)} would look better"

    @property
    def _factor_in_words(self) -> str:
        factor = self.overturning_factor
        if self.better is None or factor is None:
            return ""
        if math.isinf(factor):
            return "; no hidden cause of being seen could overturn this"
        return f"; a hidden cause that changes the odds of being seen by a factor of {factor:.2f} could overturn this"


def compare(
    first: Any,
    second: Any,
    log: RatingLog | None = None,
    *,
    metric: str = "mse",
    estimator: str = "snips",
    propensity: Any = None,
    imputation: Any = None,
    confidence: float = 0.95,
    share: float = 1.0,
    clip: float = 0.0,
    calibrate: bool = True,
    max_pairs: int = MAX_PAIRS,
    names: tuple[str, str] = ("A", "B"),
    seed: int = 0,
    training: Training | None = None,
) -> Comparison:
    """Is `first` better than `second` for all pairs? Scores and settings as in `estimate_risk`.

    Two unskew models that were fitted on one log may leave `log` out: what both held out judges them.

    The interval is of the difference: errors of the two models on the same pair rise and fall together, so it is much
    narrower than the two intervals suggest.
    """
    log = None if log is None else as_log(log, first if hasattr(first, "log") else second)
    asked, (name,) = metric_of(metric), estimator_names(estimator)
    normal_interval(0.0, 0.0, confidence)
    first, second = (for_judging(source, log) for source in (first, second))
    judging = judging_log([first, second], log, share)
    sources = zip((first, second), names, strict=True)
    said = [checked_scores(source, judging.log, (name,), [asked], of) for source, of in sources]
    evidence = evidence_for(
        judging,
        (name,),
        propensity,
        imputation,
        clip=clip,
        calibrate=calibrate,
        max_pairs=max_pairs,
        seed=seed,
        training=training,
    )
    judged = [Judged(scores, evidence, [asked]) for scores in said]
    return comparison(judged, asked, name, names=names, confidence=confidence)


def comparison(
    judged: list[Judged],
    asked: Metric,
    estimator: str,
    *,
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
) -> Comparison:
    """Of two models that have been judged by the same evidence."""
    found = [estimate(estimator, asked, one) for one in judged]
    difference = found[0].minus(found[1])
    return Comparison(
        names=names,
        metric=asked.name,
        estimator=estimator,
        confidence=confidence,
        first=found[0].interval(confidence),
        second=found[1].interval(confidence),
        difference=difference.interval(confidence),
        standard_error=difference.standard_error,
        naive=_paired("naive", asked, judged).interval(confidence),
        overturning_factor=_overturning(estimator, asked, judged),
        n_ratings=len(judged[0].log),
        effective_sample_size=difference.effective_sample_size,
        lower_is_better=asked.lower_is_better,
    )


def _paired(name: str, metric: Metric, judged: list[Judged]) -> Estimate:
    first, second = (estimate(name, metric, one) for one in judged)
    return first.minus(second)


def _overturning(name: str, metric: Metric, judged: list[Judged]) -> float | None:
    """By the sums that give the difference its sign; what both models share, a known or common b, has no part in it."""
    if metric.kind == "auc" or name in ("naive", "eib"):
        return None
    imputes = ESTIMATORS[name].imputes
    one, other = (each.terms(metric, imputes) for each in judged)
    values, offset = one.a - other.a, 0.0
    if one.imputed is not None and other.imputed is not None:
        values = values - (one.imputed.a - other.imputed.a)
        offset = float(one.imputed.direct_a.mean() - other.imputed.direct_a.mean())
    weights = judged[0].evidence.weights[one.rows]
    return overturning_factor(values / one.n_pairs, weights, offset)
