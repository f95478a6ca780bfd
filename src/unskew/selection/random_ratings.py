"""Correct a model by ratings of random pairs: a shift or a line of the logit, accepted out of fold only.

If a liked pair is rho times as likely to be seen as a disliked one, then exactly

    logit P(r = 1) = logit P(r = 1 | seen) - log rho,

so a model that is right of seen pairs is wrong of all pairs by one constant, which a few random ratings know. Shift and
line are fitted to nine tenths of the random ratings and judged by the log-likelihood of the tenth left out, ten times;
the better one is kept if it gains anything over leaving the model as it is. Graded ratings r in [0, 1] count as r of a
liked and 1 - r of a disliked one, which makes the mean of the corrected answers right.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.data.scale import Scale
from unskew.errors import DataError
from unskew.losses.columns import logit, sigmoid

Values = NDArray[np.float64]

ROLES = ("prediction", "imputation")  # those that answer with ratings
FEWEST = 10  # ratings, below which nothing is learned
N_FOLDS = 10
PRIOR = np.array([0.3, 0.7])  # standard deviations of log slope and shift around 0
NEAREST = 1e-7  # to 0 and 1 that an answer may be before its logit is taken


@dataclass(frozen=True)
class Line:
    """logit' = slope logit + shift with slope > 0: no order of items changes."""

    slope: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.slope < math.inf and math.isfinite(self.shift)):
            raise DataError(f"A line needs a slope above 0 and a finite shift, not {self.slope} and {self.shift}.")

    def __call__(self, answers: ArrayLike) -> Values:
        given = np.asarray(answers, np.float64)
        return given if self == Line() else sigmoid(self.slope * logit(given, NEAREST) + self.shift)

    def __str__(self) -> str:
        return f"{self.shift:+.2f}" if self.slope == 1 else f"{self.slope:.2f} x {self.shift:+.2f}"


@dataclass(frozen=True)
class Correction:
    """What random ratings say of one role: `gain` in log-likelihood left out, its standard error, and what was kept."""

    role: str
    kind: str  # shift or line
    line: Line
    gain: float
    error: float
    kept: bool

    def __str__(self) -> str:
        verdict = "kept" if self.kept else "not kept"
        return f"{self.role}: {self.kind} {self.line}, gain {self.gain:+.1f} ± {self.error:.1f}, {verdict}"


@dataclass(frozen=True)
class RandomRatings:
    """The random ratings that a model was corrected by.

    `n_unknown` more were left out, because the log does not know their user or item; `n_in_log` are of pairs that the
    log has a rating of too.
    """

    n_ratings: int
    n_unknown: int
    n_in_log: int
    mean: float
    corrections: tuple[Correction, ...]

    def __str__(self) -> str:
        lines = [f"{self.n_ratings:,} random ratings with a mean of {self.mean:.3f} in [0, 1]"]
        if self.n_unknown:
            lines.append(f"{self.n_unknown:,} more are of users or items that the log does not know, and were left out")
        if self.n_in_log:
            lines.append(f"{self.n_in_log:,} are of pairs that the log holds too")
        if self.n_ratings < FEWEST:
            lines.append(f"nothing was learned from them: {FEWEST} are needed")
        return "\n".join([*lines, *map(str, self.corrections)])


def learn(role: str, answers: ArrayLike, ratings: ArrayLike, seed: int) -> tuple[Line, tuple[Correction, ...]]:
    """Choose a line for what a role answers about random pairs, and say what each candidate was worth."""
    logits, known = logit(answers, NEAREST), np.asarray(ratings, np.float64)
    if len(known) < FEWEST:
        return Line(), ()
    fold = np.random.default_rng([seed, 0x666F6C64]).permutation(np.arange(len(known)) % N_FOLDS)
    gains = {}
    for kind in ("shift", "line"):
        gains[kind] = -_log_likelihood(Line(), logits, known)
        for inside in (fold == number for number in range(N_FOLDS)):
            line = fit_line(logits[~inside], known[~inside], slope=kind == "line")
            gains[kind][inside] += _log_likelihood(line, logits[inside], known[inside])
    totals = {kind: float(gain.sum()) for kind, gain in gains.items()}
    best = max(totals, key=totals.__getitem__)
    lines = {kind: fit_line(logits, known, slope=kind == "line") for kind in gains}
    found = tuple(
        Correction(
            role, kind, lines[kind], total, math.sqrt(len(known)) * float(gains[kind].std()), kind == best and total > 0
        )
        for kind, total in totals.items()
    )
    return lines[best] if totals[best] > 0 else Line(), found


def fit_line(logits: Values, ratings: Values, *, slope: bool) -> Line:
    """Find the line of highest posterior density; without `slope`, a shift alone."""
    from scipy.optimize import minimize  # slow to import, and few fits need it

    def loss(at: Values) -> tuple[float, Values]:
        line = Line(math.exp(at[0] * slope), at[1])
        residual = sigmoid(line.slope * logits + line.shift) - ratings
        gradient = np.array([slope * line.slope * (residual @ logits), residual.sum()])
        value = ((at / PRIOR) ** 2).sum() / 2 - _log_likelihood(line, logits, ratings).sum()
        return float(value), gradient + at / PRIOR**2

    found = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-8 * max(len(ratings), 1)})
    return Line(math.exp(found.x[0]) if slope else 1.0, float(found.x[1]))


def in_codes(log: RatingLog, random: RatingLog) -> tuple[RatingLog, int, int]:
    """Give the random ratings the codes of a log; also how many it does not know, and how many pairs it holds too."""
    mine, theirs = log.scale, random.scale
    if mine.binary != theirs.binary or (not mine.binary and mine != theirs):
        raise DataError(
            f"The random ratings are {_in_words(theirs)}, and those of the log are {_in_words(mine)}: read both with "
            "the same positive= or rating_scale=."
        )
    users = log.user_ids.codes(random.user_ids.arrow)[random.users]
    items = log.item_ids.codes(random.item_ids.arrow)[random.items]
    known = (users >= 0) & (items >= 0)
    if not known.any():
        raise DataError(
            f"None of the {len(random):,} random ratings is of a user and an item that the log knows: check that "
            "both use the same ids."
        )
    columns: dict[str, Any] = {"users": users[known], "items": items[known], "ratings": random.ratings[known]}
    columns |= {} if random.stars is None else {"stars": random.stars[known]}
    for column in columns.values():
        column.flags.writeable = False
    rest = dict.fromkeys(("stars", "times", "cells", "chances", "listed", "random", "context"))
    rest |= {"duplicates_merged": random.duplicates_merged}
    coded = RatingLog.proved(**log.__dict__ | rest | columns)
    held = int(SeenPairs(log)(coded.users, coded.items).sum())
    if held == len(coded) and log.target is None and log.density < 1:  # what is shown may be shown again
        raise DataError(f"The log holds the pairs of all {held:,} random ratings: give some of other pairs.")
    return coded, int((~known).sum()), held


def _log_likelihood(line: Line, logits: Values, ratings: Values) -> Values:
    eta = line.slope * logits + line.shift
    return np.asarray(ratings * eta - np.logaddexp(0, eta))


def _in_words(scale: Scale) -> str:
    return "binary" if scale.binary else f"graded from {scale.low:g} to {scale.high:g}"
