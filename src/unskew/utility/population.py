"""The pairs among which the seen ones are found: all of them, or a sample that is as good as all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.seen import SeenPairs
from unskew.utility.crossfit import Codes
from unskew.utility.exposure import Reading
from unskew.utility.ordered import OrderedLogit

Values = NDArray[np.float64]

LARGEST_SCORE = 15.0
ALTERNATIVES = 10  # sampled beside each seen pair


@dataclass(frozen=True, eq=False)
class Elements:
    """Pairs of one fold in groups, `start[g]` to `start[g + 1]`, with what is said of them and which were seen.

    All pairs of a catalogue: a group is a user, and `log_weight` is 0. A sample: a group is a seen pair and the
    alternatives drawn beside it, and `log_weight` is -log of the chance to be drawn.
    """

    start: NDArray[np.int64]
    item: NDArray[np.int32]
    score: Values
    log_weight: NDArray[np.float32]
    case: NDArray[np.bool_]
    control: NDArray[np.float32]  # what features explain of the interaction; empty if that is not known
    user: NDArray[np.int64]  # of each group
    n_items: int

    @property
    def cases_of_group(self) -> Values:
        return np.add.reduceat(np.append(self.case, False).astype(np.float64), self.start[:-1]) * (
            np.diff(self.start) > 0
        )

    @property
    def cases_of_item(self) -> Values:
        return np.bincount(self.item[self.case], minlength=self.n_items).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Population:
    """The elements of every fold; `n_cases` of the log's `n_seen` pairs are among them, `sampled` or all.

    The folds of all dealings of the pairs are listed, so every pair is there `n_repeats` times.
    """

    folds: list[Elements]
    n_repeats: int
    sampled: bool
    n_cases: int
    n_seen: int
    clamped: int

    @property
    def share_of_information(self) -> float:
        """How much of what all pairs would tell about the slope the sample tells: fewer cases, few alternatives."""
        return self.n_cases / self.n_seen * (ALTERNATIVES / (ALTERNATIVES + 1) if self.sampled else 1.0)


def population(
    reading: Reading, calibration: OrderedLogit, log: RatingLog, *, largest: int, generator: np.random.Generator
) -> Population:
    """All pairs if there are at most `largest`, else `largest` sampled ones; nothing larger is ever held."""
    if log.n_pairs <= largest:
        return _all_pairs(reading, calibration, log)
    return _sampled(reading, calibration, log, largest, generator)


def _all_pairs(reading: Reading, calibration: OrderedLogit, log: RatingLog) -> Population:
    fitted = reading.fitted
    users, items = (part.astype(np.int32) for part in np.divmod(np.arange(log.n_pairs), log.n_items))
    seen, folds, clamped = SeenPairs(log)(users, items), [], 0
    everybody = np.arange(log.n_users)
    for repeat in range(fitted.n_repeats):
        score, control, beyond = _scores(reading, calibration, users, items, repeat)
        fold = fitted.fold(users, items, repeat)
        clamped += beyond
        for number in range(fitted.n_folds):
            inside = np.flatnonzero(fold == number)
            start = np.searchsorted(users[inside], np.arange(log.n_users + 1))
            weight, own = np.zeros(len(inside), np.float32), control[inside] if len(control) else control
            told = score[inside], weight, seen[inside], own
            folds.append(Elements(start, items[inside], *told, everybody, log.n_items))
    return Population(folds, fitted.n_repeats, sampled=False, n_cases=len(log), n_seen=len(log), clamped=clamped)


def _sampled(
    reading: Reading, calibration: OrderedLogit, log: RatingLog, largest: int, generator: np.random.Generator
) -> Population:
    """Seen pairs, each beside alternatives of its own user and fold, in the first dealing.

    Alternatives are the items of random ratings, drawn with probability q_i = n_i / n: items nobody rated have no
    exposure and need not be drawn. Every element, the seen pair too, weighs 1 / q_i; that the seen pair is among the
    alternatives makes the conditional likelihood consistent for any number of them (McFadden 1978).
    """
    fitted, n_cases = reading.fitted, min(len(log), largest // (ALTERNATIVES + 1))
    rows = np.sort(generator.choice(len(log), n_cases, replace=False))
    users, items = log.users[rows].astype(np.int64), log.items[rows].astype(np.int64)
    fold = fitted.fold(users, items)
    drawn = np.empty((n_cases, ALTERNATIVES + 1), np.int64)
    drawn[:, 0] = items
    open_row, open_column = (part.ravel() for part in np.indices((n_cases, ALTERNATIVES)))
    while len(open_row):
        candidate = log.items[generator.integers(len(log), size=len(open_row))].astype(np.int64)
        drawn[open_row, open_column + 1] = candidate
        outside = fitted.fold(users[open_row], candidate) != fold[open_row]
        open_row, open_column = open_row[outside], open_column[outside]
    chance = np.bincount(log.items, minlength=log.n_items) / len(log)
    folds, clamped = [], 0
    for number in range(fitted.n_folds):
        inside = fold == number
        i = drawn[inside].ravel()
        score, control, beyond = _scores(reading, calibration, np.repeat(users[inside], ALTERNATIVES + 1), i, 0)
        clamped += beyond
        start = np.arange(0, len(i) + 1, ALTERNATIVES + 1)
        case = np.zeros(len(i), np.bool_)
        case[start[:-1]] = True
        weight = -np.log(chance[i]).astype(np.float32)
        folds.append(Elements(start, i.astype(np.int32), score, weight, case, control, users[inside], log.n_items))
    return Population(folds, 1, sampled=True, n_cases=n_cases, n_seen=len(log), clamped=clamped)


def _scores(
    reading: Reading, calibration: OrderedLogit, users: Codes, items: Codes, repeat: int
) -> tuple[Values, NDArray[np.float32], int]:
    """Calibrated scores, held within +-15, what features explain of them, and how many had to be held."""
    parts = reading.parts(users, items, repeat)
    score = calibration.score(parts)
    held = int((np.abs(score) > LARGEST_SCORE).sum())
    return np.clip(score, -LARGEST_SCORE, LARGEST_SCORE), reading.control(parts), held
