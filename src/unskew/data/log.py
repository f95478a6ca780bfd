"""The log of (user, item, rating) that everything else starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.features import Features
from unskew.data.guess import NAMES, Names
from unskew.data.ids import Vocabulary
from unskew.data.impressions import OVER_ALL, Wording, shares, wording
from unskew.data.pairs import pair_fold, pair_keys
from unskew.data.population import AllPairs, ListedRows, Population
from unskew.data.scale import Scale
from unskew.errors import DataError

if TYPE_CHECKING:
    from unskew.data.rows import LogSettings


@dataclass(frozen=True, eq=False, repr=False)
class RatingLog:
    """Ratings as read-only columns of integer codes.

    Build one with `unskew.read_log`, `from_frame` or `from_arrays`, which check what they are given.

    Examples:
        >>> log = unskew.RatingLog.from_arrays(["ann", "ann", "bob"], ["tea", "rye", "tea"], [5, 2, 4], positive=4)
        >>> len(log), log.n_users, log.n_items, round(log.positive_rate, 2)
        (3, 2, 2, 0.67)
    """

    users: NDArray[np.int32]  # codes, one per rating, in the order given
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]  # in [0, 1]: 0 or 1 when binary, else scaled
    user_ids: Vocabulary  # external ids; may hold users and items without any rating
    item_ids: Vocabulary
    scale: Scale
    user_features: Features | None = None
    item_features: Features | None = None
    duplicates_merged: int = 0  # rows merged away by duplicates="last" or "mean"
    stars: NDArray[np.float32] | None = None  # ratings as they stood before `scale`, None where that is not known
    times: NDArray[np.float64] | None = None  # seconds since 1970, or what the column held; None without
    titles: pa.Array | None = None  # of items, in the order of their codes; null where there is none
    names: Names = NAMES
    library: str = "pyarrow"  # the frame library that the data came in, and answers go out in
    notes: tuple[str, ...] = ()  # what was guessed, left out or stands out, a sentence each
    cells: NDArray[np.float32] | None = None  # how many pairs of the population a rating stands for; None for one each
    chances: NDArray[np.float32] | None = None  # that a rating's pair was shown at all, by logged propensities
    target: str | None = None  # what impressions are read for
    listed: ListedRows | None = None  # the population, if it is not all pairs: the ratings are those of its seen rows
    random: RatingLog | None = None  # impressions of random traffic, none of which is among the ratings
    context: Mapping[str, NDArray[Any]] | None = None  # what else is known of impressions over all pairs, by rating

    def __post_init__(self) -> None:
        kinds = {"users": np.int32, "items": np.int32, "ratings": np.float32, "stars": np.float32, "times": np.float64}
        kinds |= {"cells": np.float32, "chances": np.float32}
        for name, kind in kinds.items():
            given = getattr(self, name)
            if given is None or (isinstance(given, np.ndarray) and given.dtype == kind and not given.flags.writeable):
                continue
            column = np.array(given, kind)
            if kind is np.int32 and not np.array_equal(column, given):
                raise DataError(f"{name} must be codes of 32 bits inside a log: build it with from_arrays.")
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        shapes = {np.shape(getattr(self, name)) for name in kinds if getattr(self, name) is not None}
        if len(shapes) > 1 or self.ratings.ndim != 1 or not len(self):
            raise DataError(f"users, items and ratings must be equally long and not empty, but have shapes {shapes}.")
        sides = (("user", self.users, self.user_ids), ("item", self.items, self.item_ids))
        for (name, codes, ids), features in zip(sides, self.features, strict=True):
            if len(ids) < 2:
                raise DataError(f"the log knows only {len(ids)} {name}: at least two users and two items are needed.")
            if codes.min() < 0 or codes.max() >= len(ids):
                span = f"{codes.min()} to {codes.max()}"
                raise DataError(f"{name}s hold codes from {span}, but there are {len(ids)} ids.")
            if features is not None and len(features.values) != len(ids):
                raise DataError(f"{name}_features has {len(features.values):,} rows for {len(ids):,} {name}s.")
        if not (self.ratings.min() >= 0 and self.ratings.max() <= 1):
            raise DataError("ratings must lie in [0, 1] inside a log: build it with from_arrays.")
        if self.binary and ((self.ratings != 0) & (self.ratings != 1)).any():
            raise DataError("the ratings of a binary log must be 0 or 1: use a graded scale for anything between.")

    @classmethod
    def from_frame(cls, frame: Any, *columns: str | None, **settings: Any) -> RatingLog:
        """Return a log from a pandas, polars or pyarrow frame with a row per rating or impression: see `read_log`."""
        from unskew.data.read import read_log  # which imports this module

        return read_log(frame, *columns, **settings)

    @classmethod
    def from_arrays(
        cls,
        users: Any,
        items: Any,
        ratings: Any,
        seen: Any = None,
        sample_rate: Any = None,
        **settings: Unpack[LogSettings],
    ) -> RatingLog:
        """Return a log from array-likes of equal length; see `LogSettings`.

        With `seen` (0 or 1 a row) answers are wanted over the rows given, and the ratings of unseen ones are not read:
        seen = clicked and ratings = bought, for all that was shown. Without it, answers are wanted over all pairs.
        `sample_rate` is the share of such rows that the log holds: each stands for 1 / sample_rate.
        """
        from unskew.data.rows import Rows, check_settings  # which imports this module

        check_settings(settings)
        columns = {"user": users, "item": items, "rating": ratings}
        given = {"seen": seen, "sample_rate": sample_rate}
        columns |= {role: values for role, values in given.items() if values is not None}
        return Rows(columns, target=settings.get("target")).log(settings)

    @classmethod
    def proved(cls, **fields: Any) -> RatingLog:
        """Return a log of fields that have been checked before; nothing is checked again."""
        log = object.__new__(cls)
        log.__dict__.update(fields)
        return log

    def __len__(self) -> int:
        return len(self.ratings)

    def __repr__(self) -> str:
        level = f"positive rate {self.positive_rate:.1%}"
        if self.impressions:
            seen, won, *_ = self.wording
            part = "" if self.listed is None else f"{len(self):,} {seen}, of these "
            sizes = f"{self.n_rows:,} rows shown to {self.n_users:,} users, {self.n_items:,} items"
            return f"RatingLog({sizes}, {part}{self.positive_rate:.1%} {won})"
        if not self.binary:
            mean = float(self.scale.from_unit(self.positive_rate))
            level = f"mean rating {mean:.2f} of {self.scale.low:g} to {self.scale.high:g}"
        share = self.density
        density = f"{share:.2%}" if share >= 1e-4 else f"{100 * share:.2g}%"
        return (
            f"RatingLog({len(self):,} ratings by {self.n_users:,} users on {self.n_items:,} items, "
            f"density {density}, {level})"
        )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def population(self) -> Population:
        """The rows over which answers are wanted."""
        return AllPairs(self.n_users, self.n_items) if self.listed is None else self.listed

    @property
    def impressions(self) -> bool:
        """Whether rows are what was shown, and not what users chose to rate."""
        return self.listed is not None or self.target in OVER_ALL

    @property
    def n_rows(self) -> int:
        """How many rows there are, seen or not."""
        return len(self) if self.listed is None else len(self.listed)

    @property
    def rows_each(self) -> NDArray[np.float64]:
        """How many rows each row of a whole log stands for, whatever share of its pair it is."""
        if self.cells is None:
            return np.ones(len(self))
        part = None if self.listed is not None else shares(pair_keys(self.users, self.items, self.n_items))
        return np.asarray(self.cells if part is None else self.cells / part, np.float64)

    @property
    def wording(self) -> Wording:
        """How sentences call what is known of pairs, and what came of it."""
        return wording(self.target, self.listed is not None)

    def known_of_rows(self, name: str) -> NDArray[Any] | None:
        """Return what is known of the rows that were shown, seen or not: "request", "position", "pscore"; or None."""
        return ((self.context if self.listed is None else self.listed.columns) or {}).get(name)

    @property
    def n_pairs(self) -> float:
        """How many rows the population has; of all pairs a whole number."""
        return self.population.n_pairs

    @property
    def density(self) -> float:
        """The share of the population that was seen."""
        seen = len(self) if self.cells is None else float(self.cells.sum(dtype=np.float64))
        return seen / self.n_pairs

    @property
    def features(self) -> tuple[Features | None, Features | None]:
        """What is known of users, and of items."""
        return self.user_features, self.item_features

    @property
    def binary(self) -> bool:
        return self.scale.binary

    @property
    def positive_rate(self) -> float:
        """The mean of the ratings in [0, 1]; NaN for an empty part of a log."""
        return float(self.ratings.mean(dtype=np.float64)) if len(self) else float("nan")

    @property
    def random_ratings(self) -> RatingLog | None:
        """The half of the random traffic that fits are corrected by; the other judges and is never trained on."""
        return self._random(0)

    @property
    def random_test(self) -> RatingLog | None:
        """The half of the random traffic that judges."""
        return self._random(1)

    def _random(self, half: int) -> RatingLog | None:
        if self.random is None:
            return None
        own = pair_fold(0, self.random.users, self.random.items, 2) == half
        return self.random.take(own) if own.any() else None

    def with_random(self, random: NDArray[np.bool_]) -> RatingLog:
        """Take rows of random traffic out of the ratings."""
        chances = None if self.chances is None else self.chances[~random]
        apart = RatingLog.proved(**self.take(random).__dict__ | {"cells": None, "chances": None, "notes": ()})
        return RatingLog.proved(**self.take(~random).__dict__ | {"chances": chances, "random": apart})

    def take(self, rows: NDArray[Any], listed: NDArray[np.bool_] | None = None) -> RatingLog:
        """Return the log of some rows (positions or a mask), everything else the same and nothing checked again.

        Of a log of listed rows, `listed` is a mask of those that remain, whose seen ones are `rows`; without it all
        unseen ones remain and stand for as much less.
        """
        known = ("users", "items", "ratings", "stars", "times", "cells", "chances")
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in known if getattr(self, name) is not None}
        if self.chances is not None:  # shown, and among these rows
            columns["chances"] *= np.float32(len(columns["users"]) / len(self))
        for column in columns.values():
            column.flags.writeable = False
        if self.context is not None:
            columns["context"] = {name: column[rows] for name, column in self.context.items()}
        if self.listed is not None:
            kept = np.zeros(len(self), np.bool_)
            kept[rows] = True
            columns["listed"] = self.listed.with_seen(kept) if listed is None else self.listed.take(listed)
        return RatingLog.proved(**self.__dict__ | columns)

    def to_arrow(self, as_stood: bool = False) -> pa.Table:
        """Return a row a rating, columns called as they came; the rating of a binary log is 0 or 1, or as it stood."""
        names = self.names
        columns = {names.user: self.user_ids.take(self.users), names.item: self.item_ids.take(self.items)}
        known = as_stood and self.stars is not None
        columns[names.rating] = self.stars if known else self.scale.from_unit(self.ratings)
        return pa.table(columns if self.times is None else columns | {names.time: self.times})
