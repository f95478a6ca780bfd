"""What the ratings themselves show: their mean as it is and weighted, and what it goes with."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unskew.data.log import RatingLog
from unskew.diagnosis.evidence import whole_evidence
from unskew.diagnosis.selection import clustered
from unskew.diagnosis.subject import Subject
from unskew.estimation.calibrated import some_rows
from unskew.estimation.estimators import dr, snips
from unskew.estimation.scores import Values
from unskew.estimation.terms import Imputed, Terms
from unskew.metrics.intervals import Interval, normal_interval

FIFTHS = 5


@dataclass(frozen=True)
class Dependence:
    """How ratings go with one property of their pair: the change of the mean rating for one standard deviation of the
    property's logarithm, and the mean rating in each fifth of the log, lowest first.
    """

    property: str
    slope: Interval
    by_fifth: tuple[float, ...]


@dataclass(frozen=True)
class Rates:
    """The mean rating in [0, 1]: of the log, weighted by 1/p (snips), doubly robust, and of random ratings.

    `shift` is how far the log is from the random ratings and `left` what remains of it doubly robust. `odds` is how
    many times as likely a liked pair is to be seen as a disliked one, P(seen | 1) / P(seen | 0), for a binary log.
    """

    log: Interval
    weighted: Interval
    doubly_robust: Interval
    random: Interval | None = None
    shift: Interval | None = None
    left: Interval | None = None
    odds: Interval | None = None


def rates_of(subject: Subject) -> Rates:
    evidence = whole_evidence(subject)
    log, r = evidence.log, evidence.ratings
    imputed = Imputed(evidence.imputed_seen, None, evidence.imputed_pairs, None)
    terms = Terms(np.arange(len(log)), log.n_pairs, r, np.ones(len(log)), False, imputed)
    error = math.sqrt(clustered((r - r.mean()) / len(r), log.users, log.items))
    weighted, robust = snips(terms, evidence), dr(terms, evidence)
    found = Rates(normal_interval(float(r.mean()), error), weighted.interval(0.95), robust.interval(0.95))
    slice_ = subject.random_ratings
    if slice_ is None:
        return found
    s = slice_.ratings.astype(np.float64)
    random, of_random = float(s.mean()), float(s.std(ddof=1) / math.sqrt(len(s)))
    return Rates(
        found.log,
        found.weighted,
        found.doubly_robust,
        random=normal_interval(random, of_random),
        shift=normal_interval(float(r.mean()) - random, math.hypot(error, of_random)),
        left=normal_interval(robust.value - random, math.hypot(robust.standard_error, of_random)),
        odds=_odds(float(r.mean()), error, random, of_random) if log.binary else None,
    )


def _odds(log: float, error: float, random: float, of_random: float) -> Interval | None:
    """The odds ratio of the two rates, its interval taken on the logarithm."""
    if not (0 < log < 1 and 0 < random < 1):
        return None
    value = math.log(log / (1 - log)) - math.log(random / (1 - random))
    spread = math.hypot(error / (log * (1 - log)), of_random / (random * (1 - random)))
    return Interval(*(math.exp(end) for end in normal_interval(value, spread)))


def dependences_of(subject: Subject) -> tuple[Dependence, ...]:
    log, counts = subject.log, np.bincount(subject.log.items, minlength=subject.log.n_items)
    some = log.take(some_rows(log, subject.seed))
    properties = {
        "propensity": subject.propensity.as_used(some.users, some.items),
        "popularity": counts[some.items].astype(np.float64),
    }
    return tuple(_dependence(name, np.log(np.maximum(values, 1e-12)), some) for name, values in properties.items())


def _dependence(name: str, x: Values, log: RatingLog) -> Dependence:
    r = log.ratings.astype(np.float64)
    fifth = np.minimum((np.argsort(np.argsort(x, kind="stable")) * FIFTHS) // len(x), FIFTHS - 1)
    rates = tuple(float(r[fifth == number].mean()) for number in range(FIFTHS) if (fifth == number).any())
    centred = x - x.mean()
    square, spread = float(centred @ centred), float(x.std())
    if spread < 1e-9:
        return Dependence(name, Interval(0.0, 0.0, 0.0), rates)
    slope = float(centred @ r) / square
    influence = centred * (r - r.mean() - slope * centred) / square
    error = math.sqrt(clustered(influence, log.users, log.items))
    return Dependence(name, normal_interval(spread * slope, spread * error), rates)
