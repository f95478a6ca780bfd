"""The one judge: what a log alone can tell of models over the pairs that nobody chose.

Five folds stratified by user. Models, imputation q and chance of being seen p never see the fold they are judged on, so
what is judged are models of 80% of the log. The target are unseen pairs: a left-out rating stands for (1 - p) / p of
them, p the chance that it is left out among all pairs outside the training rows. `gain` has the estimates and the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.population import draw_unseen
from unskew.errors import DataError, checked_seed
from unskew.evaluation.fits import Answers, Values, exposure_of, imputation_of, slope_of
from unskew.evaluation.kept import Arrays, kept
from unskew.findings import Interval
from unskew.metrics.intervals import effective_sample_size, interval_in, normal_interval, two_way_error
from unskew.posterior.exposure import Pairs
from unskew.selection.slope import Slope
from unskew.store.model import log_digest

N_FOLDS = 5
MOST_UNSEEN = 400_000  # unseen pairs a fold; all of them if there are fewer
LEAST_UNSEEN = 20  # a user
RAISED = 1.64  # errors by which the slope is raised at the ends of the band
UNKNOWN = 1.0  # the slope at the ends of the band of a log that cannot tell it; .5 is strong
FLOOR, CAP = 0.1, 0.9  # of p: a tenth of the user's mean, and at most this
FEWEST, FEWEST_EQUAL = 100, 30  # ratings, and equal ones that their weights must leave
INSIDE = 1e-4, 1 - 1e-4  # of imputed ratings


class Corner(NamedTuple):
    """One reading of the log: imputed ratings q, what unseen rows count and what left-out ones stand for."""

    q: Values
    base: Values
    weight: Values


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows that models are judged on, sorted by fold and user: left-out ratings (`held`) and unseen pairs."""

    log: RatingLog
    fold_of_ratings: NDArray[np.int64]  # of the log's rows
    fold: NDArray[np.int64]
    users: NDArray[np.int64]
    items: NDArray[np.int64]
    held: NDArray[np.bool_]
    y: Values  # ratings of held rows
    corners: dict[str, Corner]
    whole: bool  # whether every unseen pair is here
    slope: Slope
    level: Interval  # mean rating over unseen pairs: from the low end of the band to what the imputation says
    stars: tuple[Values, Values] | None = None  # ratings of held rows and imputed ones as they stand, on the unit scale
    drawn: bool = False  # whether rows are random draws from the pairs that are meant, and not what users chose

    @classmethod
    def rated(cls, log: RatingLog, given: RatingLog, y: Values, drawn: bool = False) -> Evidence:
        """Return the pairs of other ratings in a log's codes as evidence: each stands for itself."""
        n, fold = len(y), np.zeros(len(y), np.int64)
        error = float(y.std() / np.sqrt(n))
        level = normal_interval(float(y.mean()), error, form=".1%" if log.binary else ".3f")
        corners = dict.fromkeys(("order", "activity", "alike"), Corner(y, np.ones(n), np.zeros(n)))
        users, items = given.users.astype(np.int64), given.items.astype(np.int64)
        unknown, held = Slope(0.0, np.inf, 0.0), np.zeros(n, bool)
        return cls(log, fold[:0], fold, users, items, held, y, corners, False, unknown, level, drawn=drawn)

    def error(self, by_user: Values, by_item: Values | None = None) -> float:
        """Return the standard error of a sum of terms by row; of pairs within users if `by_item` is given too."""
        if not self.drawn:
            return two_way_error(self.users, self.items, by_user, by_item)
        terms = by_user if by_item is None else np.bincount(self.users, by_user)
        return float(np.sqrt(np.square(terms).sum()))

    @cached_property
    def n_held(self) -> int:
        return int(self.held.sum())

    @property
    def effective(self) -> float:
        """How many equal ratings the weights leave."""
        return effective_sample_size(self.corners["alike"].weight[self.held])

    def scores(self, answers: Sequence[Answers]) -> Values:
        """Return what models by fold answer of the rows of theirs; one model answers for all."""
        found = np.empty(len(self.fold))
        for k in range(int(self.fold.max()) + 1):
            rows = np.flatnonzero(self.fold == k)
            found[rows] = answers[k % len(answers)](self.users[rows], self.items[rows])
        return found


class Rows(NamedTuple):
    """What is judged, before anything is fitted; `place` is the row of the log, -1 of an unseen pair."""

    fold: NDArray[np.int64]
    users: NDArray[np.int64]
    items: NDArray[np.int64]
    place: NDArray[np.int64]
    cells: Values  # how many pairs a row stands for


def gather(log: RatingLog, *, seed: int = 0, propensity: Values | None = None, folder: Path | None = None) -> Evidence:
    """Fit what the judge needs and lay out the rows; what was fitted for the same log and seed serves again.

    `propensity` are known chances of being seen, one a rating, instead of fitted ones; `folder` is that of a model.
    """
    if log.target == "implicit":
        raise DataError("A log of positive rows alone has nothing to judge by: read all that was shown, with target=.")
    if log.impressions:
        raise DataError(
            "Rows are what was shown: `unskew.diagnose` judges by a part of them, nothing by folds of pairs."
        )
    if log.cells is not None:
        raise DataError(
            "Rows of this log share pairs or stand for several, and cannot be left out one by one: read it with "
            "duplicates='last', or judge by random ratings."
        )
    counts = np.bincount(log.users, minlength=log.n_users)
    if not ((counts > 0) & (counts < log.n_items)).any():
        raise DataError(
            "Every user has rated every item, or none: there is no pair that anybody left out, and nothing to judge."
        )
    if len(log) < FEWEST:
        raise DataError(f"{len(log)} ratings cannot judge anything: at least {FEWEST} are needed.")
    seed = checked_seed(seed) % 2**31  # as seeds of all that is fitted are made of it
    fold = Pairs.of(log).folds(N_FOLDS, np.random.default_rng([seed, 41]))
    rows = _rows(log, fold, np.random.default_rng([seed, 42]))
    facts = ("evidence", N_FOLDS, MOST_UNSEEN, log_digest(log), seed, propensity is None)
    found = kept(facts, lambda: _fitted(log, fold, rows, seed, propensity is None), folder)
    evidence = _read(log, fold, rows, found, propensity)
    if not evidence.effective >= FEWEST_EQUAL:
        raise DataError(
            f"the log's {len(log):,} ratings, weighted by how rarely their like is seen, are worth "
            f"{evidence.effective:.0f} equal ones, and {FEWEST_EQUAL} are needed to judge by: collect random ratings."
        )
    return evidence


def _rows(log: RatingLog, fold: NDArray[np.int64], rng: np.random.Generator) -> Rows:
    """Lay out left-out ratings and unseen pairs: all or, of many, random ones of every user or of random users."""
    seen, parts, few = Pairs.of(log).seen(), [], _few(log)
    for k in range(N_FOLDS):
        chosen = np.arange(log.n_users)
        if not few and log.n_users * LEAST_UNSEEN > MOST_UNSEEN:
            chosen = np.sort(rng.permutation(log.n_users)[: MOST_UNSEEN // LEAST_UNSEEN])
        draws = log.n_items if few else MOST_UNSEEN // len(chosen)
        users, items, cells = draw_unseen(seen, chosen, draws, rng)
        own = np.flatnonzero((fold == k) & np.isin(log.users, users))
        u = np.r_[log.users[own], users].astype(np.int64)
        i, place = np.r_[log.items[own], items].astype(np.int64), np.r_[own, np.full(len(users), -1)]
        columns = np.full(len(u), k), u, i, place, np.r_[np.ones(len(own)), cells]
        parts.append([column[np.argsort(u, kind="stable")] for column in columns])
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _few(log: RatingLog) -> bool:
    """Return whether all unseen pairs of a log are judged on."""
    return log.n_pairs - len(log) <= MOST_UNSEEN


def _fitted(log: RatingLog, fold: NDArray[np.int64], rows: Rows, seed: int, with_exposure: bool) -> Arrays:
    """Fit by folds: imputed ratings as the log stands and at the low end of the band, log-odds of being seen, slope."""
    raw, low, odds, stars = (np.zeros(len(rows.fold), np.float32) for _ in range(4))
    imputations, own = [], [rows.fold == k for k in range(N_FOLDS)]
    pairs = [(rows.users[each], rows.items[each]) for each in own]
    for k in range(N_FOLDS):
        training = log.take(fold != k)
        if len(np.unique(training.users)) < 2 or len(np.unique(training.items)) < 2:
            raise DataError("one user or one item has all ratings: there is nothing to judge models by.")
        imputations.append(imputation_of(training, seed + 1000 * k))
        raw[own[k]] = imputations[k].expected(*pairs[k])
        if _has_levels(log):
            stars[own[k]] = imputations[k].posterior.expected(*pairs[k])
        if with_exposure:
            odds[own[k]] = exposure_of(training, seed + k).logits(*pairs[k])
    slope = slope_of(log, fold, imputations, seed)
    raised = max(slope.value + RAISED * slope.error, 0.0) if np.isfinite(slope.error) else UNKNOWN
    for k, imputation in enumerate(imputations):
        low[own[k]] = imputation.expected(*pairs[k], raised)
    found = np.array([slope.value, slope.error, slope.calibration])
    return {"raw": raw, "low": low, "odds": odds, "stars": stars, "slope": found}


def _has_levels(log: RatingLog) -> bool:
    """Return whether more is known of a rating than that it is liked or not."""
    return log.binary and log.stars is not None and len(np.unique(log.stars)) > 2


def _read(log: RatingLog, fold: NDArray[np.int64], rows: Rows, found: Arrays, propensity: Values | None) -> Evidence:
    """Read the log at corners: users alike or by activity, as it stands or if liking drives rating.

    Estimates have weights (1 - p) / p. Those that decide, which ask for a sign, have their square roots: residuals of
    an imputation that has learned from the log are small everywhere, so that less noise is worth more than less bias.
    For the same reason order counts the pairs of a user by the root of his activity.
    """
    held = rows.place >= 0
    y = log.ratings[rows.place].astype(np.float64)  # that of an unseen pair weighs nothing
    group, size = rows.fold * log.n_users + rows.users, N_FOLDS * log.n_users
    left = np.bincount(fold * log.n_users + log.users, minlength=size).reshape(N_FOLDS, -1)
    expected = (np.maximum(left.sum(0) - left, 0.5) / (N_FOLDS - 1)).ravel()  # that a user leaves out, by the others
    activity = expected[group] / np.bincount(group, rows.cells, size)[group]
    if propensity is None:
        # A user's chances add up to what he leaves out.
        odds, top = found["odds"].astype(np.float64), np.full(size, -np.inf)
        np.maximum.at(top, group, odds)
        e = np.exp(odds - top[group])
        share = e / np.bincount(group, rows.cells * e, size)[group]
        p = np.clip(share * expected[group], FLOOR * activity, CAP)
    else:
        p = propensity[rows.place]
    raw, low = (np.clip(found[name].astype(np.float64), *INSIDE) for name in ("raw", "low"))
    base, weight = np.where(held, 0.0, rows.cells), np.where(held, (1 - p) / p, 0.0)
    in_pairs = activity**0.25  # of which pairs of rows have two
    tilt = y * low / raw + (1 - y) * (1 - low) / (1 - raw)
    corners = {
        "alike": Corner(raw, base, weight),
        "low, alike": Corner(low, base, weight * tilt),
        "activity": Corner(raw, base * activity, np.sqrt(weight) * activity),
        "order": Corner(raw, base * in_pairs, np.sqrt(weight) * in_pairs),
        "low, activity": Corner(low, base * activity, np.sqrt(weight) * tilt * activity),
        "low, tempered": Corner(low, base, np.sqrt(weight) * tilt),
    }
    stars = None
    if _has_levels(log):
        assert log.stars is not None
        least, most = float(log.stars.min()), float(log.stars.max())
        both = (each.astype(np.float64) for each in (log.stars[rows.place], found["stars"]))
        own, imputed = ((each - least) / (most - least) for each in both)
        stars = own, imputed
    levels, form = [float((base * q).sum() / base.sum()) for q in (raw, low)], ".1%" if log.binary else ".3f"
    off = held * (y - raw - (y - raw)[held].mean()) / held.sum()
    ends = [interval_in((0, 1), level, two_way_error(rows.users, rows.items, off)) for level in sorted(levels)]
    level = Interval(levels[0], ends[0].low, ends[1].high, form)
    slope = Slope(*map(float, found["slope"]))
    return Evidence(log, fold, *rows[:3], held, y, corners, _few(log), slope, level, stars)


def random_evidence(log: RatingLog, random: RatingLog) -> Evidence:
    """Return random ratings in the codes of a log as evidence."""
    y = random.ratings.astype(np.float64)
    if len(np.unique(y)) < 2:
        raise DataError(f"the {len(y):,} random ratings are of one class: nothing tells which of two models is better.")
    return Evidence.rated(log, random, y, drawn=True)
