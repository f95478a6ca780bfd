"""What is known about users or items beside their ratings: one row per code, one column per feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.distinct import is_text
from unskew.data.encoding import Column, Encoding, number_column, text_column
from unskew.data.vocabulary import Vocabulary, as_arrow, as_text, is_number
from unskew.errors import DataError, nearest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNKNOWN = Encoding(())  # yet


@dataclass(frozen=True, eq=False)
class Features:
    """Feature columns aligned with a vocabulary: row c describes the id of code c, NaN is missing.

    A number stands as it is, a text as its place among the categories or buckets of its column. `encoding` says how
    both become what nets read; without one, all columns are numbers and it is learned from them.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]  # (ids in the vocabulary, columns)
    n_missing: int = 0  # ids of the vocabulary that the frame does not describe: rows of NaN
    n_unused: int = 0  # ids of the frame that the vocabulary does not know
    encoding: Encoding = UNKNOWN
    n_unknown: int = 0  # texts that the encoding does not know, and that count as missing

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise DataError(f"features of shape {values.shape} do not fit their {len(self.names)} names.")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"two feature columns are called {twice!r}: rename one of them.")
        _refuse_infinite(self.names, values)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if not self.encoding.columns:
            columns = tuple(number_column(name, values[:, number]) for number, name in enumerate(self.names))
            object.__setattr__(self, "encoding", Encoding.learned(columns, values))
        self._check_encoding()

    def _check_encoding(self) -> None:
        columns = self.encoding.columns
        if tuple(column.name for column in columns) != self.names:
            raise DataError(f"features called {self.names} do not fit an encoding of {[c.name for c in columns]}.")
        for number, column in enumerate(columns):
            held = self.values[:, number]
            places = held[~np.isnan(held)]
            if not column.is_number and bool(((places < 0) | (places >= column.width) | (places % 1 != 0)).any()):
                raise DataError(f"feature {column.name!r} holds places outside its {column.width} categories.")

    def __repr__(self) -> str:
        return (
            f"Features({len(self.names)} columns for {len(self.values):,} ids, "
            f"{self.n_missing:,} ids missing, {self.n_unused:,} rows unused)"
        )

    @cached_property
    def encoded(self) -> csr_array:
        """What nets read: one sparse row an id."""
        return self.encoding.matrix(self.values)

    @property
    def expanded(self) -> NDArray[np.float32]:
        """One column a number and a category, as `encoding.names` calls them; NaN is missing."""
        parts = []
        for number, column in enumerate(self.encoding.columns):
            held = self.values[:, number : number + 1]
            if column.is_number:
                parts.append(held)
                continue
            places = np.arange(column.width)
            parts.append(np.where(np.isnan(held), np.nan, held == places).astype(np.float32))
        return np.hstack(parts)

    def under(self, encoding: Encoding) -> Features:
        """The same features in another encoding of the same columns; texts that it does not know are missing."""
        values, n_unknown = self.values.copy(), self.n_unknown
        for number, (own, other) in enumerate(zip(self.encoding.columns, encoding.columns, strict=True)):
            if own.is_number != other.is_number:
                raise DataError(f"feature {own.name!r} is a number in one log and text in the other: read both alike.")
            if not own.is_number:
                places = other.places(own.categories)
                held = np.isnan(values[:, number])
                new = np.append(places, -1)[np.where(held, -1, values[:, number]).astype(np.int64)]
                values[:, number] = np.where(new < 0, np.nan, new)
                n_unknown += int((new < 0).sum() - held.sum())
        return replace(self, values=values, encoding=encoding, n_unknown=n_unknown)

    @classmethod
    def aligned(cls, frame: Any, ids: Vocabulary, key: str, encoding: Encoding | None = None) -> Features:
        """A frame (pandas, polars or pyarrow) keyed by its column `key`, put in the order of a vocabulary.

        Numbers and booleans are numbers, text and categoricals are categories. With an `encoding`, that of a log
        learned from before, the frame must have its columns, and categories it does not know count as missing.
        """
        columns = columns_of(frame)
        if key not in columns:
            raise missing_column(key, list(columns), "the feature frame")
        described = Vocabulary(columns.pop(key), f"column {key!r} of the feature frame")
        if not columns:
            raise DataError(f"the feature frame has no column beside {key!r}: add features or leave it out.")
        known: dict[str, Column | None] = dict.fromkeys(columns)
        if encoding is not None:
            known = {column.name: column for column in encoding.columns}
        for name in known:
            if name not in columns:
                raise missing_column(name, list(columns), "the feature frame")
        read = [_read(name, as_arrow(columns[name], f"feature {name!r}"), known[name]) for name in known]
        values = np.vstack([np.stack([held for _, held, _ in read], axis=1), np.full((1, len(read)), np.nan)])
        rows = described.codes(ids.arrow)  # -1 for an id the frame lacks, hence the row of nothing at the end
        n_missing = int((rows < 0).sum())
        aligned = values[rows].astype(np.float32)
        _refuse_infinite(tuple(known), aligned)
        described_by = zip(known, read, aligned.T, strict=True)
        encoded = tuple(column or number_column(name, held) for name, (column, _, _), held in described_by)
        return cls(
            tuple(known),
            aligned,
            n_missing,
            len(described) - (len(ids) - n_missing),
            encoding or Encoding.learned(encoded, aligned),
            sum(unknown for _, _, unknown in read),
        )


def columns_of(frame: Any) -> dict[str, Any]:
    """The columns of a pandas, polars or pyarrow frame by name."""
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        kind = type(frame).__name__
        raise DataError(f"a frame must be a pandas, polars or pyarrow one, but is a {kind}.") from None
    except nw.exceptions.DuplicateError as error:
        found = " ".join(str(error).split())
        raise DataError(f"the frame has columns of the same name ({found}): rename all but one.") from None
    return {str(name): table.get_column(name) for name in table.columns}


def missing_column(name: str, present: list[str], where: str) -> DataError:
    """The sentence for a column that is not there, with the nearest one that is."""
    hint = nearest(name, present, ": ", ": name the right one.")
    if all(other.strip().replace(".", "", 1).isdigit() for other in present):
        hint = ": is the header missing?"
    listed = ", ".join(repr(other) for other in present[:20]) + (", ..." if len(present) > 20 else "")
    return DataError(f"{where} has no column {name!r}, only {listed}{hint}")


def _refuse_infinite(names: tuple[str, ...], values: NDArray[np.float32]) -> None:
    infinite = np.isinf(values).any(axis=0)
    if infinite.any():
        name = names[int(infinite.argmax())]
        raise DataError(f"feature {name!r} holds a value too large for 32-bit floats: rescale it.")


def _read(name: str, column: pa.Array, known: Column | None) -> tuple[Column | None, NDArray[np.float32], int]:
    """How a column is encoded if it is text, what it holds, and how many texts are not known."""
    kind = column.type
    if is_text(kind):
        if known is not None and known.is_number:
            raise DataError(f"feature {name!r} holds texts, but the model knows it as a number.")
        return _places(as_text(column, f"feature {name!r}"), name, known)
    if not is_number(kind):
        raise DataError(f"feature {name!r} is of type {kind}: features must be numbers, booleans or text.")
    if known is not None and not known.is_number:
        return _places(column.cast(pa.large_string()), name, known)  # texts that all look like numbers
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and Features refuses that by name
        return known, values.astype(np.float32), 0


def _places(column: pa.Array, name: str, known: Column | None) -> tuple[Column, NDArray[np.float32], int]:
    distinct = pc.unique(column.drop_null()).sort()
    encoded = known or text_column(name, distinct.to_pylist())
    place_of = np.append(encoded.places(distinct.to_pylist()), -1)
    places = place_of[pc.index_in(column, value_set=distinct).fill_null(-1).to_numpy()]
    values = np.where(places < 0, np.nan, places).astype(np.float32)
    return encoded, values, int((places < 0).sum()) - column.null_count
