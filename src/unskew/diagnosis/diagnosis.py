"""Know before you trust: everything that can be said of a log, or of a model and its log, without an experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.diagnosis import verdicts as say
from unskew.diagnosis.calibration import Calibration, calibrations_of, reliability_diagrams
from unskew.diagnosis.dependence import Dependence, Rates, dependences_of, rates_of
from unskew.diagnosis.errors import ErrorFigures, errors_of
from unskew.diagnosis.overlap import OverlapFigures, overlap_of
from unskew.diagnosis.rival import naive_beside
from unskew.diagnosis.selection import SelectionTest, selection_test
from unskew.diagnosis.sensitivity import SensitivityFigures, sensitivity_of
from unskew.diagnosis.subject import Subject, subject_of
from unskew.diagnosis.verdicts import Verdict
from unskew.estimation.calibrated import some_rows
from unskew.gone import called_otherwise
from unskew.methods.weighting import Naive
from unskew.model import Recommender
from unskew.propensity.base import Propensity
from unskew.training.options import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAIVE_RIVAL = "a naive model with the same settings"


@dataclass(frozen=True)
class Diagnosis:
    """Verdicts in words, and the figures behind them; `print` shows both, verdicts first."""

    subject: str
    log: str
    verdicts: tuple[Verdict, ...]
    selection: SelectionTest
    rates: Rates
    dependences: tuple[Dependence, ...]
    overlap: OverlapFigures
    calibration: tuple[Calibration, ...]
    errors: ErrorFigures
    sensitivity: SensitivityFigures

    def __getitem__(self, question: str) -> Verdict:
        """The verdict on a question: needed, works, believed, wrong or overturned."""
        return dict(zip(("needed", "works", "believed", "wrong", "overturned"), self.verdicts, strict=True))[question]

    def __str__(self) -> str:
        from unskew.diagnosis.show import as_text

        return as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; what is infinite is None."""
        found: dict[str, Any] = _plain(self)
        return found

    def plot(self) -> Figure:
        """Reliability diagrams of propensity and imputation, before and after calibration."""
        return reliability_diagrams(self.calibration)


def diagnose(
    source: RatingLog | Recommender,
    *,
    propensity: Propensity | None = None,
    random_ratings: RatingLog | None = None,
    unbiased: RatingLog | None = None,
    rival: Any = None,
    n_folds: int = 5,
    seed: int = 0,
    training: Training | None = None,
) -> Diagnosis:
    """Is debiasing needed, can it work, can the nuisances be believed, how wrong can the answer be, what overturns it?

    `source` is a log, or a fitted model, whose own propensity, imputation and prediction are then diagnosed on the
    ratings it held out. For a log, `propensity` (by default `Factors()`) is fitted and calibrated, and cross-fitted
    `Naive` predictions are what is imputed and judged. `random_ratings` are ratings of random pairs, in the log's
    ids: only they can tell whether the rating itself decides what is seen; they were called `unbiased`. `rival` are
    scores to compare with, as in `compare`; without any, a model is compared with `Naive` fitted beside it, and
    predictions of a log with a constant.

    Ratings are weighted by calibrated propensities *without the model's clip*: a clip serves training, where it buys
    less variance for some bias, but a judge that clips leaves what it clips to the imputation, and his interval does
    not know of it. Fits `n_folds` nets of `Naive` on the log, whatever the source.
    """
    random_ratings = called_otherwise(random_ratings, unbiased=unbiased)
    source = source.for_judging() if isinstance(source, Recommender) else as_log(source)
    random_ratings = None if random_ratings is None else as_log(random_ratings, source)
    subject = subject_of(
        source, propensity=propensity, random_ratings=random_ratings, n_folds=n_folds, seed=seed, training=training
    )
    if rival is None and isinstance(source, Recommender) and not isinstance(source.method, Naive):
        progress = None if training is None else training.progress
        return diagnosis_of(subject, rival=naive_beside(source, progress), name=NAIVE_RIVAL)
    return diagnosis_of(subject, rival=rival)


def diagnosis_of(subject: Subject, *, rival: Any = None, name: str = "the rival") -> Diagnosis:
    """The same of a subject that is at hand, against a rival of that name, or a constant if there is none."""
    test = selection_test(subject.naive, subject.log, seed=subject.seed)
    rates, dependences = rates_of(subject), dependences_of(subject)
    overlap, calibration = overlap_of(subject), calibrations_of(subject)
    errors, sensitivity = errors_of(subject), sensitivity_of(subject, rival, name)
    verdicts = (
        say.needed(test, rates, dependences, overlap),
        say.works(overlap),
        say.believed(calibration),
        say.wrong(errors, overlap),
        say.overturned(sensitivity),
    )
    return Diagnosis(
        subject.name, _described(subject), verdicts, test, rates, dependences, overlap, calibration, errors, sensitivity
    )


def _described(subject: Subject) -> str:
    """The log, and on how many of its ratings figures rest if not on all."""
    words, n = repr(subject.log), len(some_rows(subject.log, subject.seed))
    return words if n == len(subject.log) else f"{words}; figures rest on {n:,} of the ratings, drawn at random"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
