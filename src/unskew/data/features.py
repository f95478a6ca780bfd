"""What is known about users or items besides their ratings, and how it becomes the numbers that methods read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.guess import columns_by_name, looks_like_titles
from unskew.data.ids import Vocabulary, as_arrow, as_text, is_number, is_text, plain
from unskew.errors import DataError, nearest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CATEGORIES = 1_000  # distinct texts of a column
FEW = 10  # ids: what this number have in common counts for half of what it would if many had it
FARTHEST = 5.0  # standard deviations from the mean beyond which a number counts as no farther
IDENTIFYING = 50  # rows from which on a column that tells most of them apart is taken for an identifier
LARGEST = float(np.finfo(np.float32).max)
SEPARATOR = "|"  # between the entries of a list

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

    @classmethod
    def learned(cls, name: str, values: NDArray[Any], categories: tuple[str, ...] = ()) -> Column:
        """How numbers, or places among categories, are encoded by what is known of them."""
        present = values[~np.isnan(values)].astype(np.float64)
        if categories:
            counts = np.bincount(present.astype(np.int64), minlength=len(categories))
            return cls(name, categories=categories, counts=tuple(counts.tolist()))
        if bool(((present == 0) | (present == 1)).all()):
            return cls(name, counts=(int(present.sum()),))
        spread = float(present.std())
        return cls(name, float(present.mean()), spread if spread > 0 else 1.0)

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

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each of the numbers is multiplied by."""
        counts = np.array(self.counts or [math.inf] * self.width)
        return np.sqrt(1 - FEW / (counts + FEW))


@dataclass(frozen=True)
class Encoding:
    """The columns, and the root mean square `length` of what they become: rows are divided by it.

    So how strongly features count against ids depends neither on how many there are nor on their units, and a feature
    means the same for everybody, whatever else is missing.
    """

    columns: tuple[Column, ...]
    length: float = 1.0

    @classmethod
    def learned(cls, columns: tuple[Column, ...], values: Values) -> Encoding:
        """For features that look like these, of which a row is an id and a column a feature."""
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


UNKNOWN = Encoding(())  # yet


@dataclass(frozen=True, eq=False)
class Features:
    """Feature columns aligned with a vocabulary: row c describes the id of code c, NaN is missing.

    A number stands as it is, a text as its place among the categories of its column. `encoding` says how both become
    what methods read; without one, all columns are numbers and it is learned from them.
    """

    names: tuple[str, ...]
    values: Values  # (ids in the vocabulary, columns)
    encoding: Encoding = UNKNOWN
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was left out, and who is not described

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise DataError(f"features of shape {values.shape} do not fit their {len(self.names)} names.")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"two feature columns are called {twice!r}: rename one of them.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if not self.encoding.columns:
            columns = tuple(Column.learned(name, held) for name, held in zip(self.names, values.T, strict=True))
            object.__setattr__(self, "encoding", Encoding.learned(columns, values))
        if tuple(column.name for column in self.encoding.columns) != self.names:
            raise DataError(f"features called {self.names} do not fit an encoding of other columns.")

    def __repr__(self) -> str:
        return f"Features({len(self.names)} columns for {len(self.values):,} ids)"

    @cached_property
    def encoded(self) -> csr_array:
        """What methods read: one sparse row an id."""
        return self.encoding.matrix(self.values)

    @property
    def expanded(self) -> Values:
        """One column a number and a category, as `encoding.names` calls them; NaN is missing."""
        parts = []
        for number, column in enumerate(self.encoding.columns):
            held = self.values[:, number : number + 1]
            if column.is_number:
                parts.append(held)
            else:
                parts.append(np.where(np.isnan(held), np.nan, held == np.arange(column.width)).astype(np.float32))
        return np.hstack(parts)

    def with_unknown(self, count: int) -> Features:
        """The same, and rows for `count` more ids of which nothing is known."""
        nothing = np.full((count, len(self.names)), np.nan, np.float32)
        return replace(self, values=np.vstack([self.values, nothing]))


@dataclass(frozen=True, eq=False)
class FeatureFrame:
    """A frame of features as it was given: ids, columns that can be used, and what was left out."""

    side: str  # user or item
    ids: Vocabulary
    columns: dict[str, pa.Array]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, frame: Any, side: str, key: str) -> FeatureFrame:
        """Read a pandas, polars or pyarrow frame keyed by its column `key` or, without one, by that of such ids.

        Numbers and booleans are numbers, text and categoricals are categories, and lists such as Action|Comedy become
        a column for each entry. Identifiers, titles and URLs tell ids apart and nothing else: they are left out.
        """
        where = f"the frame of {side} features"
        given = columns_of(frame, where)
        if key not in given:
            samples = {name: sample_of(values) for name, values in given.items()}
            key = columns_by_name(samples, {side: None}, where)[0][side]
        ids = Vocabulary(given.pop(key), f"column {key!r} of {where}")
        columns, notes = dict[str, pa.Array](), []
        for name, values in given.items():
            column = plain(as_arrow(values, f"feature {name!r}"))
            if is_text(column.type):
                column = as_text(column, f"feature {name!r}")
            elif not is_number(column.type):
                raise DataError(f"feature {name!r} is of type {column.type}: features must be numbers or text.")
            if what := _identifies(name, column):
                notes.append(f"{where}: {name!r} is left out, as it holds {what}")
            elif is_text(column.type) and pc.any(pc.match_substring(column, SEPARATOR)).as_py():
                columns |= _entries(name, column)
            else:
                columns[name] = column
        if not columns:
            raise DataError(f"{where} has no column that describes anything besides {key!r}: leave it out.")
        return cls(side, ids, columns, tuple(notes))

    def aligned(self, ids: Vocabulary) -> Features:
        """The features in the order of a vocabulary."""
        rows = self.ids.codes(ids)  # -1 for an id that is not described, hence the row of nothing at the end
        columns, values = [], []
        for name, column in self.columns.items():
            categories: tuple[str, ...] = ()
            if is_text(column.type):
                distinct = pc.unique(column.drop_null()).sort()
                categories, column = tuple(distinct.to_pylist()), pc.index_in(column, value_set=distinct)
            held = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            if (np.abs(held) > LARGEST).any():
                raise DataError(f"feature {name!r} holds a value too large for 32-bit floats: rescale it.")
            aligned = np.append(held, np.nan)[rows].astype(np.float32)
            columns.append(Column.learned(name, aligned, categories))
            values.append(aligned)
        together, notes = np.stack(values, axis=1), list(self.notes)
        missing = int((rows < 0).sum())
        unused = len(self.ids) - (len(ids) - missing)
        if missing:
            notes.append(f"{missing:,} of {len(ids):,} {self.side}s have no features")
        if unused:
            notes.append(f"{unused:,} {self.side}s that the log does not know have features, which are not used")
        return Features(tuple(self.columns), together, Encoding.learned(tuple(columns), together), tuple(notes))


def columns_of(frame: Any, where: str = "the frame") -> dict[str, Any]:
    """The columns of a pandas, polars (eager or lazy) or pyarrow frame by name."""
    import narwhals as nw  # slow to import, and files need none

    try:
        table = nw.from_native(frame)
        if isinstance(table, nw.LazyFrame):
            table = table.collect()
        return {str(name): table.get_column(name) for name in table.columns}
    except nw.exceptions.DuplicateError as error:
        found = " ".join(str(error).split())
        raise DataError(f"{where} has columns of the same name ({found}): rename all but one.") from None
    except Exception as error:  # a door: whatever a foreign kind of frame complains of
        kind = type(frame).__name__
        raise DataError(f"{where} must be a pandas, polars or pyarrow one, but is a {kind}.") from error


def sample_of(values: Any, most: int = 100) -> list[Any]:
    """Some values of a column, to look at."""
    return list(plain(as_arrow(values[:most], "a column")).to_pylist())


def missing_column(name: str, present: list[str], where: str) -> DataError:
    """The sentence for a column that is not there, with the nearest one that is."""
    hint = nearest(name, present, ": ", ": name the right one.")
    if all(other.strip().replace(".", "", 1).isdigit() for other in present):
        hint = ": is the header missing?"
    listed = ", ".join(repr(other) for other in present[:20]) + (", ..." if len(present) > 20 else "")
    return DataError(f"{where} has no column {name!r}, only {listed}{hint}")


def _identifies(name: str, column: pa.Array) -> str:
    """What a column holds that only tells rows apart; nothing if it may describe them."""
    held = column.drop_null()
    distinct, n_rows = len(held.unique()), len(held)
    if is_text(column.type):
        sample = held[:100].to_pylist()
        if sample and sum(text.startswith(("http://", "https://")) for text in sample) * 2 > len(sample):
            return "URLs"
        if any(SEPARATOR in text for text in sample):
            return ""
        most = n_rows >= IDENTIFYING and 2 * distinct > n_rows
        if distinct > MOST_CATEGORIES or most or (distinct == n_rows > 2 and looks_like_titles(sample)):
            return f"{distinct:,} different texts in {n_rows:,} rows, as an identifier or a title does"
    elif name.casefold().endswith("id") and n_rows >= IDENTIFYING and distinct == n_rows:
        return f"{distinct:,} different numbers, as an identifier does"
    return ""


def _entries(name: str, column: pa.Array) -> dict[str, pa.Array]:
    """A column of 0 and 1 for each entry of the lists in a column of text."""
    lists = [[] if text is None else text.split(SEPARATOR) for text in column.to_pylist()]
    known = sorted({entry for entries in lists for entry in entries if entry})
    if len(known) > MOST_CATEGORIES:
        raise DataError(f"feature {name!r} has {len(known):,} different entries in its lists: leave the column out.")
    place, flags = {entry: at for at, entry in enumerate(known)}, np.zeros((len(known), len(lists)), np.float32)
    for row, entries in enumerate(lists):
        flags[[place[entry] for entry in entries if entry], row] = 1
    return {f"{name}={entry}": pa.array(held) for entry, held in zip(known, flags, strict=True)}
