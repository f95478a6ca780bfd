"""What is known about users or items beside their ratings, as one row of numbers per code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.distinct import is_text
from unskew.data.vocabulary import Vocabulary, as_arrow, as_text, is_number
from unskew.errors import DataError
from unskew.words import nearest

MOST_CATEGORIES = 1_000  # one-hot columns are dense: a free-text column would fill the memory


@dataclass(frozen=True, eq=False)
class Features:
    """Feature columns aligned with a vocabulary: row c describes the id of code c, NaN is missing."""

    names: tuple[str, ...]
    values: NDArray[np.float32]  # (ids in the vocabulary, columns)
    n_missing: int = 0  # ids of the vocabulary that the frame does not describe: rows of NaN
    n_unused: int = 0  # ids of the frame that the vocabulary does not know

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise DataError(f"features of shape {values.shape} do not fit their {len(self.names)} names.")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"two feature columns are called {twice!r}: rename one of them.")
        if np.isinf(values).any():
            name = self.names[int(np.isinf(values).any(axis=0).argmax())]
            raise DataError(f"feature {name!r} holds a value too large for 32-bit floats: rescale it.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return (
            f"Features({len(self.names)} columns for {len(self.values):,} ids, "
            f"{self.n_missing:,} ids missing, {self.n_unused:,} rows unused)"
        )

    @classmethod
    def aligned(cls, frame: Any, ids: Vocabulary, key: str) -> Features:
        """A frame (pandas, polars or pyarrow) keyed by its column `key`, put in the order of a vocabulary.

        Numbers and booleans are taken as they are, text is one-hot encoded as "column=value".
        """
        columns = columns_of(frame)
        if key not in columns:
            raise missing_column(key, list(columns), "the feature frame")
        described = Vocabulary(columns.pop(key), f"column {key!r} of the feature frame")
        if not columns:
            raise DataError(f"the feature frame has no column beside {key!r}: add features or leave it out.")
        parts = [_numbers(name, as_arrow(column, f"feature {name!r}")) for name, column in columns.items()]
        names = tuple(name for part_names, _ in parts for name in part_names)
        nothing = np.full((1, len(names)), np.nan, dtype=np.float32)
        values = np.vstack([np.hstack([part for _, part in parts]), nothing])
        rows = described.codes(ids.arrow)  # -1 for an id the frame lacks, hence the row of nothing at the end
        n_missing = int((rows < 0).sum())
        return cls(names, values[rows], n_missing, len(described) - (len(ids) - n_missing))


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


def _numbers(name: str, column: pa.Array) -> tuple[list[str], NDArray[np.float32]]:
    kind = column.type
    if is_text(kind):
        return _one_hot(name, as_text(column, f"feature {name!r}"))
    if not is_number(kind):
        raise DataError(f"feature {name!r} is of type {kind}: features must be numbers, booleans or text.")
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and Features refuses that by name
        return [name], values.astype(np.float32)[:, None]


def _one_hot(name: str, column: pa.Array) -> tuple[list[str], NDArray[np.float32]]:
    categories = pc.unique(column.drop_null()).sort()
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"feature {name!r} holds {len(categories):,} distinct texts, more than {MOST_CATEGORIES:,}: "
            "group them or leave the column out."
        )
    places = pc.index_in(column, value_set=categories).fill_null(-1).to_numpy()
    block = (places[:, None] == np.arange(len(categories))).astype(np.float32)
    block[places < 0] = np.nan
    return [f"{name}={category}" for category in categories.to_pylist()], block
