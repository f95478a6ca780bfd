"""What is known about users or items besides their ratings, and how it becomes the numbers that methods read."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.guess import Names, frame_columns, looks_like_titles
from unskew.data.ids import Vocabulary, as_arrow, as_text, is_number, is_text, plain
from unskew.errors import DataError

MOST_CATEGORIES = 1_000  # distinct texts of a column
MOST_NUMBERS = 100_000_000  # of all ids and columns together
FEW = 10  # ids: what this number have in common counts for half of what it would if many had it
FARTHEST = 5.0  # standard deviations from the mean beyond which a number counts as no farther
IDENTIFYING = 50  # rows from which on a column that tells most of them apart is taken for an identifier
LARGEST = float(np.finfo(np.float32).max)
SEPARATOR = "|"  # between the entries of a list

Values = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Features:
    """Columns of numbers aligned with a vocabulary: row c describes the id of code c, NaN is missing.

    A text is a column of 0 and 1 for each value that it has.
    """

    names: tuple[str, ...]
    values: Values  # (ids in the vocabulary, columns)
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was left out, and who is not described

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"Features({len(self.names)} columns for {len(self.values):,} ids)"

    @cached_property
    def encoded(self) -> Values:
        """What methods read, of the shape of `values`.

        A number becomes (x - mean) / standard deviation, at most 5 either way. One that is only ever 0 or 1 is
        multiplied by sqrt(n / (n + 10)), n the ids that have a 1, which is as if its row took 1 + 10/n times the L2:
        otherwise what hardly anybody shares would only loosen the hold on ids. What is missing becomes 0.

        All is divided by the root mean square length of rows that are not 0, so that how strongly features count
        against ids depends neither on how many there are nor on their units.
        """
        values = self.values.astype(np.float64)
        known = ~np.isnan(values)
        flags = (~known | (values == 0) | (values == 1)).all(0)
        count, total = known.sum(0), np.where(known, values, 0).sum(0)
        mean = total / np.maximum(count, 1)
        spread = np.sqrt(np.square(np.where(known, values - mean, 0)).sum(0) / np.maximum(count, 1))
        numbers = np.clip((values - mean) / np.where(spread > 0, spread, 1), -FARTHEST, FARTHEST)
        encoded = np.where(flags, values * np.sqrt(1 - FEW / (total * flags + FEW)), numbers)
        encoded = np.where(known, encoded, 0)
        squares = np.square(encoded).sum(1)
        length = np.sqrt(squares[squares > 0].mean()) if squares.any() else 1.0
        return np.asarray(encoded / length, np.float32)

    def with_unknown(self, count: int) -> Self:
        """Return the same, and rows for `count` more ids of which nothing is known."""
        nothing = np.full((count, len(self.names)), np.nan, np.float32)
        return replace(self, values=np.vstack([self.values, nothing]))


class FeatureFrame(NamedTuple):
    """A frame of features: its ids, its columns as numbers, and what was left out."""

    side: str  # user or item
    ids: Vocabulary
    columns: dict[str, Values]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, frame: Any, side: str, key: str) -> Self:
        """Read a pandas, polars or pyarrow frame keyed by its column `key` or, without one, by that of such ids.

        Numbers and booleans are numbers; text, categoricals and lists such as Action|Comedy become a column for each
        value. Identifiers, titles and URLs tell ids apart and nothing else: they are left out.
        """
        where = f"the frame of {side} features"
        given, found = frame_columns(frame, (side,), where, (side,), Names(**{side: key}))
        if side not in found and list(given)[:1] == ["1"]:  # of a file without a header
            found[side] = "1"
        if side not in found:
            raise DataError(f"{where} has no column of {side}s, only {', '.join(map(repr, given))}: call it {key!r}.")
        ids = Vocabulary(given.pop(found[side]), f"column {found[side]!r} of {where}")
        columns, notes = dict[str, Values](), []
        for name, values in given.items():
            column = plain(as_arrow(values, f"feature {name!r}"))
            if is_text(column.type):
                column = as_text(column, f"feature {name!r}")
            if what := _identifies(name, column):
                notes.append(f"{where}: {name!r} is left out, as it holds {what}")
            else:
                columns |= _numbers(name, column, MOST_NUMBERS // max(len(ids), 1) - len(columns))
        if not columns:
            raise DataError(f"{where} has no column that describes anything besides {found[side]!r}: leave it out.")
        return cls(side, ids, columns, tuple(notes))

    def aligned(self, ids: Vocabulary) -> Features:
        """Return the features in the order of a vocabulary."""
        rows = self.ids.codes(ids)  # -1 for an id that is not described, hence the row of nothing at the end
        values = np.stack([np.append(held, np.float32(np.nan))[rows] for held in self.columns.values()], axis=1)
        missing, notes = int((rows < 0).sum()), list(self.notes)
        if missing:
            notes.append(f"{missing:,} of {len(ids):,} {self.side}s have no features")
        if gaps := int(np.isnan(values[rows >= 0]).any(axis=1).sum()):
            notes.append(f"{gaps:,} of {len(ids):,} {self.side}s lack some features: what is missing tells nothing")
        if unused := len(self.ids) - (len(ids) - missing):
            notes.append(f"{unused:,} {self.side}s that the log does not know have features, which are not used")
        return Features(tuple(self.columns), values, tuple(notes))


def _identifies(name: str, column: pa.Array) -> str:
    """Return what a column holds that only tells rows apart; nothing if it may describe them."""
    if not (is_text(column.type) or is_number(column.type)):
        return ""
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


def _numbers(name: str, column: pa.Array, most: int) -> dict[str, Values]:
    """Make a column of numbers, or one of 0 and 1 for each text in a column of texts or lists; NaN is missing."""
    if is_number(column.type):
        held = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if (np.abs(held) > LARGEST).any():
            raise DataError(f"feature {name!r} holds a value too large for 32-bit floats: rescale it.")
        return {name: held.astype(np.float32)}
    missing, rows = column.is_null().to_numpy(zero_copy_only=False), np.arange(len(column))
    if is_text(column.type) and pc.any(pc.match_substring(column, SEPARATOR)).as_py():
        column = pc.split_pattern(column, SEPARATOR)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        rows, column = pc.list_parent_indices(column).to_numpy(), pc.list_flatten(column)
    if not is_text(column.type):
        raise DataError(f"feature {name!r} holds {column.type}: give numbers, text or lists of text, or leave it out.")
    known = sorted({*column.unique().to_pylist()} - {None, ""})
    if len(known) > min(most, MOST_CATEGORIES):
        raise DataError(f"feature {name!r} has {len(known):,} different texts, which are too many: leave it out.")
    place = pc.index_in(column, value_set=pa.array(known, column.type)).fill_null(-1).to_numpy()
    flags = np.zeros((len(known) + 1, len(missing)), np.float32)  # the last row takes what is no entry
    flags[place, rows] = 1
    flags[:, missing] = np.nan
    return {f"{name}={entry}": held for entry, held in zip(known, flags, strict=False)}
