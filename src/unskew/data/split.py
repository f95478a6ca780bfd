"""Divisions of a log into training rows and a hold-out, random by seed unless the order of the log decides."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError, checked_seed, chosen

Rows = NDArray[np.int64]
HoldoutBy = Literal["global", "user", "last", "time", "request"]

# One constant per use, so that equal seeds given to different functions do not draw the same numbers.
GLOBAL_STREAM, USER_STREAM = 0x686F6C64, 0x75736572


@dataclass(frozen=True, eq=False)
class Split:
    """A log and the numbers of its training rows and hold-out rows, each in the order of the log."""

    log: RatingLog
    train_rows: Rows
    holdout_rows: Rows
    held_out: NDArray[np.bool_] | None = None
    """Of a log of listed rows: which of them, seen or not, are held out."""

    @property
    def train(self) -> RatingLog:
        return self._part(self.train_rows, False)

    @property
    def holdout(self) -> RatingLog:
        return self._part(self.holdout_rows, True)

    def _part(self, rows: Rows, held_out: bool) -> RatingLog:
        return self.log.take(rows, None if self.held_out is None else self.held_out == held_out)

    @property
    def density(self) -> float:
        return self.log.density

    @cached_property
    def train_mean(self) -> float:
        """The mean rating of the training rows."""
        held_out = self.log.ratings[self.holdout_rows].sum(dtype=np.float64)
        return float((self.log.ratings.sum(dtype=np.float64) - held_out) / len(self.train_rows))

    def __str__(self) -> str:
        train, holdout, total = len(self.train_rows), len(self.holdout_rows), len(self.log)
        return f"Split of {total:,} ratings: {train:,} to train on, {holdout:,} held out ({holdout / total:.1%})"


def scarcity(log: RatingLog) -> float:
    """Return the mean over ratings of 1/sqrt(n_u) + 1/sqrt(n_i), n the ratings of its user and of its item."""
    counts = (np.bincount(side) for side in (log.users, log.items))
    return float(sum(np.sqrt(count).sum() for count in counts) / len(log))


def usual(log: RatingLog) -> HoldoutBy:
    """Return how a log is divided where nothing is asked for: impressions by time or by request, if these are known."""
    if not log.impressions:
        return "global"
    times = log.times if log.listed is None else log.listed.times
    return "time" if _timed(times) else "global" if log.known_of_rows("request") is None else "request"


def holdout_split(log: RatingLog, fraction: float = 0.1, *, by: HoldoutBy | None = None, seed: int = 0) -> Split:
    """Hold out a `fraction` of the ratings, drawn uniformly from the whole log or from every user, or everybody's last.

    `by="global"`, the default unless rows are impressions, holds out exactly round(fraction * n) of the n ratings.
    `by="user"` holds out exactly min(round(fraction * n_u), n_u - 1) of the n_u ratings of user u: everybody keeps a
    rating to train on, and users with few ratings may have none held out. `by="last"` holds out the last
    min(ceil(fraction * n_u), n_u - 1) ratings of user u in the order of the log, as public code does to files that are
    in the order of items. `by="time"`, the default of impressions with times, holds out the round(fraction * n) latest
    ratings by the log's own times. Of a log of listed rows the rows are divided, seen or not. `by="request"`, the
    default of impressions with requests alone, holds out whole requests; so does "time" where there are any, by their
    first rows.

    Examples:
        >>> split = unskew.holdout_split(unskew.simulate(50, 40, density=0.1, seed=0).log, 0.2)
        >>> len(split.holdout) == round(0.2 * (len(split.train) + len(split.holdout)))
        True
    """
    log = as_log(log)
    if not isinstance(fraction, Real) or not 0 < fraction < 1:
        raise ParameterError(f"fraction must lie between 0 and 1, both excluded, not {fraction!r}.")
    rows = log if log.listed is None else log.listed  # what is divided: ratings, or listed rows seen or not
    n, by = len(rows), usual(log) if by is None else chosen(by, "by", get_args(HoldoutBy))
    if by == "user":
        order = _generator(seed, USER_STREAM).permutation(n)
        held_out = _taken_by_user(rows.users, fraction, order, np.rint)
    elif by == "last":
        held_out = _taken_by_user(rows.users, fraction, np.arange(n)[::-1], np.ceil)
    else:
        requests = None if by == "global" else log.known_of_rows("request")
        if by == "request" and requests is None:
            raise DataError("The log has no requests: name their column by request=, or divide it in another way.")
        unit = np.arange(n) if requests is None else np.unique(requests, return_inverse=True)[1]
        sizes = np.bincount(unit)
        if by == "time":
            if rows.times is None or not _timed(rows.times):
                raise DataError("The log has no times, or not of every rating: name their column by time=.")
            times = np.full(len(sizes), np.inf)
            np.minimum.at(times, unit, rows.times)
            late = np.argsort(times, kind="stable")[::-1]
            held = late[np.cumsum(sizes[late]) <= round(fraction * n)]
        else:
            held = _generator(seed, GLOBAL_STREAM).permutation(len(sizes))[: round(fraction * len(sizes))]
        of_test = np.zeros(len(sizes), np.bool_)
        of_test[held] = True
        held_out = of_test[unit]
    of_seen = held_out if log.listed is None else held_out[log.listed.seen]
    rest = None if log.listed is None else held_out
    split = Split(log, np.flatnonzero(~of_seen), np.flatnonzero(of_seen), rest)
    if not len(split.train_rows) or not len(split.holdout_rows):
        empty, remedy = ("training part", "smaller") if len(split.holdout_rows) else ("hold-out", "larger")
        raise DataError(
            f"Holding out a fraction of {fraction} by={by!r} of {len(log)} ratings leaves the {empty} empty: "
            f"give a {remedy} fraction or more ratings."
        )
    return split


def _timed(times: NDArray[np.float64] | None) -> bool:
    return times is not None and not np.isnan(times).any()


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([checked_seed(seed), stream])


def _taken_by_user(
    users: NDArray[Any], fraction: float, order: Rows, rounded: Callable[[Any], NDArray[np.float64]]
) -> NDArray[np.bool_]:
    """Return a few rows of each user, one after the other in this order: gathered by user with a stable sort."""
    gathered = order[np.argsort(users[order], kind="stable")]
    count = np.bincount(users)
    quota = np.minimum(rounded(fraction * count), count - 1)
    user = users[gathered]
    place = np.arange(len(users)) - (np.cumsum(count) - count)[user]
    held_out = np.empty(len(users), dtype=np.bool_)
    held_out[gathered] = place < quota[user]
    return held_out
