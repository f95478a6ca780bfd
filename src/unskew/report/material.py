"""What a page about a model needs beside the model: what is missing is fitted here, and said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.diagnosis.diagnosis import NAIVE_RIVAL, Diagnosis, diagnosis_of
from unskew.diagnosis.evidence import scores_from
from unskew.diagnosis.rival import naive_beside
from unskew.diagnosis.subject import Subject, subject_of
from unskew.errors import DataError, ParameterError
from unskew.estimation.evidence import Evidence
from unskew.estimation.holdout import judging_log
from unskew.estimation.risk import evidence_for
from unskew.methods.calibrated import DoublyCalibrated
from unskew.methods.robust import DRJL
from unskew.methods.weighting import Naive
from unskew.model import Recommender
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.training.options import Training

Announce = Callable[[str], None]
FOLDS, FEWER_FOLDS = 5, 2  # of a log, and of one with so many ratings that two teach as much as five
MANY, FEWER_FACTORS = 1_000_000, 16
MAX_PAIRS = 200_000  # of the catalogue that estimates look at; lists have fifty times as many scores


@dataclass(frozen=True)
class Fitted:
    """Something that was fitted for the page, and how long that took."""

    what: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Material:
    """A model, its counterpart that ignores the bias, and what their log says of both.

    `debiased` is the model or, if that ignores the bias, one that does not. `again` is the naive model of another
    seed: how it differs from `naive` is chance. `evidence` judges both by ratings that neither was trained on, under
    propensities that are nobody's own; where these cannot speak for all pairs, it has no weights, and `refusal` says
    why.
    """

    model: Recommender
    naive: Recommender
    debiased: Recommender
    again: Recommender
    subject: Subject
    diagnosis: Diagnosis
    evidence: Evidence
    refusal: str
    random: RatingLog | None  # random ratings that no model was trained on
    n_random_left_out: int
    fitted: tuple[Fitted, ...]

    @property
    def log(self) -> RatingLog:
        return self.model.log

    @property
    def is_naive(self) -> bool:
        return self.naive is self.model


class Workshop:
    """Fits one thing after the other, says what it is about, and remembers how long it took."""

    def __init__(self, announce: Announce) -> None:
        self.announce, self.done = announce, list[Fitted]()

    @contextmanager
    def work(self, what: str) -> Iterator[None]:
        self.announce(what)
        began = time.perf_counter()
        yield
        self.done.append(Fitted(what, time.perf_counter() - began))


def material_of(
    model: Recommender, *, random_ratings: RatingLog | None, propensity: Propensity | None, announce: Announce
) -> Material:
    """Everything else is fitted on the model's own log, split, seed and options of training."""
    if model.n_fitted_users is not None:
        raise ParameterError("Users were folded into this model: report on the model as it was fitted.")
    model = model.for_judging()
    shop, log, seed = Workshop(announce), model.log, model.seed
    training = replace(model.training or Training(), progress=None)
    naive = debiased = model
    if type(model.method) is Naive:
        with shop.work("a debiased model, doubly calibrated, with the settings of this one"):
            debiased = _debiased_like(model.method).fit(log, seed=seed, training=training)
    else:
        with shop.work("a naive model, which ignores the bias, with the settings of this one"):
            naive = naive_beside(model)
    n_folds = FOLDS if len(log) < MANY else FEWER_FOLDS
    with shop.work(f"{n_folds} naive models, each without a part of the log, to diagnose it"):
        own = None if _speaks_of_unseen(model) else propensity or Factors()
        settings: dict[str, Any] = {"n_folds": n_folds, "seed": seed, "training": training, "naive": _small(len(log))}
        subject = subject_of(model, propensity=own, random_ratings=random_ratings, **settings)
        diagnosis = diagnosis_of(subject, rival=naive if naive is not model else None, name=NAIVE_RIVAL)
    with shop.work("propensities of the judge, which are no model's own"):
        evidence, refusal = _evidence(debiased, naive, subject, propensity, training)
    with shop.work("the naive model once more with another seed, to see what is chance"):  # last, as it is large
        again = naive.method.fit(log, seed=seed + 1, training=training)
    random, left_out = _unseen_ratings(random_ratings, log)
    facts = subject, diagnosis, evidence, refusal, random, left_out, tuple(shop.done)
    return Material(model, naive, debiased, again, *facts)


def _small(n_ratings: int) -> Naive:
    """What is cross-fitted: as several are kept at once, those of a long log have fewer factors."""
    usual = Naive()
    net: Any = usual.net
    return usual if n_ratings < MANY else replace(usual, net=replace(net, n_factors=FEWER_FACTORS))


def _debiased_like(naive: Naive) -> DoublyCalibrated:
    return DoublyCalibrated(DRJL(**{one.name: getattr(naive, one.name) for one in fields(Naive)}))


def _speaks_of_unseen(model: Recommender) -> bool:
    return "propensity" in model.parts and model.part("propensity").answers_unseen


def _evidence(
    debiased: Recommender, naive: Recommender, subject: Subject, propensity: Propensity | None, training: Training
) -> tuple[Evidence, str]:
    judging = judging_log([debiased, naive], None, 1.0)
    imputation = scores_from(subject.naive, judging.log)
    settings: dict[str, Any] = {"max_pairs": MAX_PAIRS, "seed": subject.seed, "training": training}
    try:
        return evidence_for(judging, ("snips", "dr"), propensity, imputation, **settings), ""
    except DataError as error:
        return Evidence(judging.log, None, imputation, subject.seed, MAX_PAIRS), str(error)


def _unseen_ratings(random_ratings: RatingLog | None, log: RatingLog) -> tuple[RatingLog | None, int]:
    """Random ratings without those of pairs in the log, and how many these were."""
    if random_ratings is None:
        return None, 0
    known = SeenPairs(log)(random_ratings.users, random_ratings.items)
    return random_ratings.take(np.flatnonzero(~known)), int(known.sum())
