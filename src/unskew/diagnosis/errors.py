"""How wrong the estimated risk of the prediction can be: what calibration would move, and the bounds of the theory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unskew.diagnosis.evidence import judged_evidence, scores_from
from unskew.diagnosis.subject import Subject
from unskew.estimation.estimate import Estimate
from unskew.estimation.evidence import Evidence
from unskew.estimation.quantities import metric_of
from unskew.estimation.risk import estimate
from unskew.estimation.terms import Judged
from unskew.metrics.intervals import Interval
from unskew.theory.bounds import Bound, corollary_3, theorem_2, theorem_4
from unskew.theory.lemma import expected_residual, label_errors

MSE = metric_of("mse")


@dataclass(frozen=True)
class ErrorFigures:
    """The mean squared error of the prediction over all pairs, and what its estimate hangs on.

    `propensity_moves` and `imputation_moves` are the doubly robust estimate with that nuisance calibrated minus the
    same without: Lemma 1's bias, if what is calibrated were the truth. The bounds take the calibrated nuisances for
    the truth as well, so they are about the error that can be seen; they are of errors in [0, 1].
    """

    n_ratings: int
    naive: Interval
    weighted: Interval
    doubly_robust: Interval
    standard_error: float
    effective_sample_size: float
    propensity_moves: Interval
    imputation_moves: Interval
    theorem_2: Bound
    corollary_3: Bound
    theorem_4: Bound
    calibrated: tuple[str, ...]  # the nuisances that are used calibrated already

    @property
    def mend_first(self) -> str | None:
        """The uncalibrated nuisance whose calibration moves the estimate most, if more than chance moves it."""
        moves = {"propensity": self.propensity_moves, "imputation": self.imputation_moves}
        certain = {
            name: abs(move.value)
            for name, move in moves.items()
            if name not in self.calibrated and not move.covers(0.0)
        }
        return max(certain, key=lambda name: certain[name]) if certain else None


def errors_of(subject: Subject) -> ErrorFigures:
    def judged(evidence: Evidence, estimator: str = "dr") -> Estimate:
        return estimate(estimator, MSE, Judged(scores_from(subject.prediction, evidence.log), evidence, [MSE]))

    as_used = judged_evidence(subject)
    robust = judged(as_used)
    with_p, without_p = (judged(judged_evidence(subject, propensity=which)) for which in ("after", "before"))
    with_q, without_q = (judged(judged_evidence(subject, imputation=which)) for which in ("after", "before"))
    two, three, four = _bounds(subject)
    return ErrorFigures(
        n_ratings=len(subject.judged),
        naive=judged(as_used, "naive").interval(0.95),
        weighted=judged(as_used, "snips").interval(0.95),
        doubly_robust=robust.interval(0.95),
        standard_error=robust.standard_error,
        effective_sample_size=robust.effective_sample_size,
        propensity_moves=with_p.minus(without_p).interval(0.95),
        imputation_moves=with_q.minus(without_q).interval(0.95),
        theorem_2=two,
        corollary_3=three,
        theorem_4=four,
        calibrated=tuple(part.name for part in (subject.propensity, subject.imputation) if part.used == "after"),
    )


def _bounds(subject: Subject) -> tuple[Bound, Bound, Bound]:
    """On pairs of the catalogue; what is a variance is brought from their number to the catalogue's."""
    evidence = judged_evidence(subject)
    users, items = evidence.pairs
    p = subject.propensity.after(users, items)
    p_hat = np.clip(np.maximum(subject.propensity.before(users, items), subject.clip), 1e-9, 1.0)
    q, r_tilde = subject.imputation.after(users, items), subject.imputation.before(users, items)
    e1, e0 = label_errors(np.clip(subject.prediction(users, items), 0.0, 1.0), "squared")
    two = theorem_2(p, p_hat, expected_residual(q, r_tilde, e1, e0))
    three, four = corollary_3(p, p_hat, q, r_tilde, e1, e0), theorem_4(p, p_hat, q, r_tilde, e1, e0)
    share = len(users) / subject.log.n_pairs
    ece, mce = four.as_printed
    return (
        two,
        three,
        replace(
            four,
            exact=four.exact * share,
            sharp=four.sharp * share,
            by_largest_gap=four.by_largest_gap * share,
            as_printed=(ece, mce * share),
        ),
    )
