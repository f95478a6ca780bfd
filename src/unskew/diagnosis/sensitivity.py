"""What a cause of seeing that nobody measured could do to the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.diagnosis.evidence import judged_evidence, scores_from
from unskew.diagnosis.subject import Subject
from unskew.estimation.evidence import Evidence
from unskew.estimation.quantities import metric_of
from unskew.estimation.risk import estimate
from unskew.estimation.scores import Scores, scores_of
from unskew.estimation.terms import Judged, Terms
from unskew.metrics.intervals import Interval
from unskew.theory.sensitivity import overturning_factor, weighted_range

MSE = metric_of("mse")
FACTORS = (1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class SensitivityFigures:
    """The prediction against a rival, doubly robust, and how far hidden causes of seeing could move both answers.

    `difference` is the prediction's mean squared error less the rival's; `overturning_factor` by how much a hidden
    cause would have to change the odds of being seen to turn its sign. `ranges` are (factor, lowest, highest) of the
    prediction's own error.
    """

    rival: str
    difference: Interval
    overturning_factor: float
    ranges: tuple[tuple[float, float, float], ...]

    @property
    def better(self) -> str | None:
        """ "prediction" or "rival", None if chance explains the difference."""
        if self.difference.covers(0.0):
            return None
        return "prediction" if self.difference.value < 0 else "rival"


def sensitivity_of(subject: Subject, rival: Any = None, name: str = "the rival") -> SensitivityFigures:
    """`rival` are anybody's scores; without any, the best constant.

    Imputed are cross-fitted predictions: by its own imputation a model would be compared with what resembles it.
    """
    evidence = judged_evidence(subject, imputation="naive")
    name, scores = (name, scores_of(rival, evidence.log, name)) if rival is not None else _constant(evidence)
    own = Judged(scores_from(subject.prediction, evidence.log), evidence, [MSE])
    return sensitivity_figures(own, Judged(scores, evidence, [MSE]), name)


def sensitivity_figures(own: Judged, other: Judged, name: str) -> SensitivityFigures:
    """Of one model against another, which is called `name`, both judged by the same evidence."""
    mine, theirs = own.terms(MSE, imputed=True), other.terms(MSE, imputed=True)
    assert mine.imputed is not None
    assert theirs.imputed is not None
    w, n = own.evidence.weights, mine.n_pairs
    residual = _residual(mine)
    direct = float(mine.imputed.direct_a.mean())
    ranges = []
    for factor in FACTORS:
        low, high = weighted_range(residual / n, np.maximum(w, 1.0), factor)
        ranges.append((factor, direct + low, direct + high))
    return SensitivityFigures(
        rival=name,
        difference=estimate("dr", MSE, own).minus(estimate("dr", MSE, other)).interval(0.95),
        overturning_factor=overturning_factor(
            (residual - _residual(theirs)) / n, np.maximum(w, 1.0), direct - float(theirs.imputed.direct_a.mean())
        ),
        ranges=tuple(ranges),
    )


def _residual(terms: Terms) -> Any:
    assert terms.imputed is not None
    return terms.a - terms.imputed.a


def _constant(evidence: Evidence) -> tuple[str, Scores]:
    level = float(np.average(evidence.ratings, weights=evidence.weights))
    return f"a constant, {level:.2f}", scores_from(lambda users, items: np.full(len(users), level), evidence.log)
