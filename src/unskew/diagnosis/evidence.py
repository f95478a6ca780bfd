"""A subject as the estimators see it: rows, weights and imputed ratings."""

from __future__ import annotations

import numpy as np

from unskew.data.log import RatingLog
from unskew.diagnosis.subject import Subject
from unskew.estimation.calibrated import OfPairs, some_rows
from unskew.estimation.evidence import Evidence
from unskew.estimation.scores import Codes, Scores, Values
from unskew.estimation.weighing import Weighing

MAX_PAIRS = 200_000


def scores_from(said: OfPairs, log: RatingLog) -> Scores:
    """Values in [0, 1] by codes as scores on the log's own scale."""

    def answer(users: Codes, items: Codes) -> Values:
        return np.asarray(log.scale.from_unit(np.clip(said(users, items), 0.0, 1.0)), np.float64)

    return Scores(answer, complete=True)


def judged_evidence(subject: Subject, *, propensity: str | None = None, imputation: str | None = None) -> Evidence:
    """The ratings that may judge the prediction; nuisances "before" or "after" calibration, by default as used.

    `imputation="naive"` are cross-fitted predictions, which are no model's own. Propensities are not clipped: see
    `unskew.diagnose`.
    """
    share = len(subject.judged) / len(subject.log)
    which = propensity or subject.propensity.used
    seen = subject.seen_before if which == "before" else subject.seen_after
    pair = subject.propensity.before if which == "before" else subject.propensity.after
    own = subject.imputation
    said: dict[str | None, OfPairs] = {"before": own.before, "after": own.after, "naive": subject.naive}
    log = subject.judging
    weighing = Weighing(
        np.maximum(share * seen[subject.judged], 1e-12),
        lambda users, items: share * pair(users, items),
        log.n_pairs,
    )
    return Evidence(log, weighing, scores_from(said.get(imputation, own.as_used), log), subject.seed, MAX_PAIRS)


def whole_evidence(subject: Subject) -> Evidence:
    """All ratings, or of a very long log a sample of them, with cross-fitted predictions as imputed ones."""
    rows, pair = some_rows(subject.log, subject.seed), subject.propensity.as_used
    log, share = subject.log.take(rows), len(rows) / len(subject.log)
    seen = np.maximum(share * subject.seen_used[rows], 1e-12)
    weighing = Weighing(seen, lambda users, items: share * pair(users, items), log.n_pairs)
    return Evidence(log, weighing, scores_from(subject.naive, log), subject.seed, MAX_PAIRS)
