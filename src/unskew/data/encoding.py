"""How features become the numbers that nets read: declared once and kept with the log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CATEGORIES = 1_000  # distinct texts of a column
FEW = 10  # ids: what so many have in common counts for half of what it would if many had it
FARTHEST = 5.0  # standard deviations from the mean beyond which a number counts as no farther

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Column:
    """One feature and how it is encoded.

    A number becomes (x - center) / scale, at most 5 either way; one that is only ever 0 or 1 stays as it is. Of
    `categories`, each has a number of its own that is 1 where it applies. What is missing contributes nothing.

    `counts` says how many ids have each category, or a 1: what n have in common is weighed by sqrt(n / (n + 10)), which
    is as if its row took 1 + 10/n times the L2. Otherwise what hardly anybody shares would only loosen the hold on ids.
    """

    name: str
    center: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.center) and math.isfinite(self.scale) and self.scale > 0):
            raise DataError(f"feature {self.name!r} cannot have the center {self.center} and the scale {self.scale}.")
        if self.counts and (len(self.counts) != self.width or min(self.counts) < 0):
            raise DataError(f"feature {self.name!r} has {self.width} numbers and cannot have these counts of them.")

    @property
    def is_number(self) -> bool:
        return not self.categories

    @property
    def width(self) -> int:
        """How many numbers a net reads for this feature."""
        return len(self.categories) or 1

    @property
    def names(self) -> list[str]:
        """What each of them stands for."""
        return [f"{self.name}={category}" for category in self.categories] or [self.name]

    def counted(self, values: NDArray[Any]) -> Column:
        """The same with the counts of its categories among these places."""
        if self.is_number:
            return self
        found = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=self.width)
        return replace(self, counts=tuple(found.tolist()))

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each of the numbers is multiplied by."""
        counts = np.array(self.counts or [math.inf] * self.width)
        return np.sqrt(1 - FEW / (counts + FEW))

    def places(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Where texts stand among the categories; -1 for one that is not known."""
        known = {category: place for place, category in enumerate(self.categories)}
        return np.array([known.get(text, -1) for text in texts], np.int64)


def number_column(name: str, values: NDArray[Any]) -> Column:
    """How the numbers of a column are encoded, by what is known of them."""
    present = values[~np.isnan(values)].astype(np.float64)
    if bool(((present == 0) | (present == 1)).all()):
        return Column(name, counts=(int(present.sum()),))
    spread = float(present.std())
    return Column(name, float(present.mean()), spread if spread > 0 else 1.0)


def text_column(name: str, categories: Sequence[str]) -> Column:
    """How texts are encoded, by all distinct ones in order."""
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"feature {name!r} has {len(categories):,} distinct texts, and at most {MOST_CATEGORIES:,} can be told "
            "apart: leave the column out, or group its texts."
        )
    return Column(name, categories=tuple(categories))


@dataclass(frozen=True)
class Encoding:
    """The columns, and the root mean square `length` of what they become: rows are divided by it.

    So how strongly features count beside ids depends neither on how many there are nor on their units, and a feature
    means the same for everybody, whatever else is missing.
    """

    columns: tuple[Column, ...]
    length: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.length) and self.length > 0):
            raise DataError(f"the length of encoded features must be a finite number above 0, not {self.length}.")

    @classmethod
    def learned(cls, columns: tuple[Column, ...], values: Values) -> Encoding:
        """For features that look like these, of which a row is an id and a column a feature."""
        columns = tuple(column.counted(held) for column, held in zip(columns, values.T, strict=True))
        encoded = cls(columns).matrix(values)
        described = int((np.diff(encoded.indptr) > 0).sum())
        squares = float(np.square(encoded.data.astype(np.float64)).sum())
        return cls(columns, math.sqrt(squares / described) if squares else 1.0)

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.names)

    def matrix(self, values: Values) -> csr_array:
        """One sparse row an id: numbers standardised, the place of a category 1, nothing for what is missing."""
        from scipy.sparse import csr_array  # slow to import, and needed where there are features

        if not self.columns:
            return csr_array((len(values), 0), dtype=np.float32)
        rows, places, amounts = (np.concatenate(parts) for parts in zip(*self._entries(values), strict=True))
        amounts = (amounts / self.length).astype(np.float32)
        return csr_array((amounts, (rows, places)), shape=(len(values), self.width))

    def _entries(self, values: Values) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        first = 0
        for number, column in enumerate(self.columns):
            of_column = values[:, number].astype(np.float64)
            if column.is_number:
                place = np.zeros(len(values), np.int64)
                amount = np.clip((of_column - column.center) / column.scale, -FARTHEST, FARTHEST)
            else:
                place, amount = np.nan_to_num(of_column).astype(np.int64), np.ones(len(values))
            amount = amount * column.weights[place]
            present = np.flatnonzero(~np.isnan(of_column) & (amount != 0))
            yield present, first + place[present], amount[present]
            first += column.width
