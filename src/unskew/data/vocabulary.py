"""External ids outside, integer codes inside: the one place that knows how the two are matched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.distinct import Distinct, Rows, is_text, row_number
from unskew.errors import DataError

LARGEST_CODE = 2**31 - 1
_LARGEST_EXACT_FLOAT = 2**53
_FEW = 32  # below this, scanning for each id is cheaper than hashing the whole vocabulary


class Vocabulary:
    """Distinct external ids (strings or integers) in order; an id's place is its code."""

    __slots__ = ("arrow",)
    arrow: pa.Array

    def __init__(self, ids: Any, where: str = "ids") -> None:
        arrow = ids.arrow if isinstance(ids, Vocabulary) else as_ids(ids, where)
        _refuse_too_many(len(arrow), where)
        if len(arrow.unique()) < len(arrow):
            counts = arrow.value_counts()
            twice = counts.field(0)[pc.index(pc.greater(counts.field(1), 1), True).as_py()].as_py()
            raise DataError(f"{where} holds the id {twice!r} more than once: ids must be distinct.")
        object.__setattr__(self, "arrow", arrow)

    @classmethod
    def proved(cls, arrow: pa.Array) -> Vocabulary:
        """A vocabulary of ids that have been one before; nothing is checked again."""
        vocabulary = object.__new__(cls)
        object.__setattr__(vocabulary, "arrow", arrow)
        return vocabulary

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Vocabulary is immutable")

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[pa.Array]]:
        return Vocabulary, (self.arrow,)

    def __len__(self) -> int:
        return len(self.arrow)

    def __getitem__(self, code: int) -> str | int:
        if not 0 <= code < len(self):  # -1 stands for an unknown id, so it must not find the last one
            raise IndexError(f"code {code} stands for no id: codes run from 0 to {len(self) - 1}.")
        value: str | int = self.arrow[int(code)].as_py()
        return value

    def __iter__(self) -> Iterator[str | int]:
        return (value.as_py() for value in self.arrow)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        values: NDArray[Any] = self.arrow.to_numpy(zero_copy_only=False)
        return values.astype(values.dtype if dtype is None else dtype, copy=bool(copy))

    def __repr__(self) -> str:
        shown = ", ".join(repr(value.as_py()) for value in self.arrow[:3])
        return f"Vocabulary({len(self):,} ids: {shown}{', ...' if len(self) > 3 else ''})"

    def take(self, codes: Any) -> pa.Array:
        """The external ids of some codes."""
        places = np.asarray(codes)
        if places.size and not (places.min() >= 0 and places.max() < len(self)):
            raise IndexError(f"codes run from 0 to {len(self) - 1}, not {places.min()} to {places.max()}.")
        return self.arrow.take(pa.array(places.astype(np.int64, copy=False)))

    def codes(self, ids: Any) -> NDArray[np.int32]:
        """The codes of some ids, -1 for an unknown id; 12 and "12" are the same id, "012" is another."""
        wanted, known = as_ids(ids), self.arrow
        if wanted.type != known.type:  # comparing as text is exact: an integer has one usual spelling
            wanted, known = wanted.cast(pa.large_string()), known.cast(pa.large_string())
        if len(wanted) <= _FEW:
            return np.array([pc.index(known, value).as_py() for value in wanted], dtype=np.int32)
        codes: NDArray[np.int32] = pc.index_in(wanted, value_set=known).fill_null(-1).to_numpy()
        return codes


class Encoder:
    """Turns batches of ids into codes while it builds their vocabulary in order of first appearance."""

    def __init__(self, where: str, narrow: bool = False) -> None:
        self._where = where
        self._narrow = narrow  # text that spells integers throughout becomes integers at the end
        self._codes: dict[str | int, int] = {}
        self._kind: pa.DataType | None = None
        self._rows = 0

    def go_to(self, where: str) -> None:
        """What is added from now on stands at `where`, and its rows count from 1 again."""
        self._where, self._rows = where, 0

    def add(self, values: Any) -> NDArray[np.int32]:
        """The codes of one more batch."""
        first_row = self._rows + 1
        self._rows += len(values)
        if not isinstance(values, pa.DictionaryArray):
            return self._added(values, first_row)
        distinct = Distinct.of(values)
        if (distinct.places < 0).any():
            raise _no_id(self._where, first_row + int((distinct.places < 0).argmax()))
        return self._added(distinct.values, first_row + distinct.first)[distinct.places]

    def _added(self, values: Any, rows: Rows) -> NDArray[np.int32]:
        values = as_arrow(values, self._where)
        if pa.types.is_uint64(values.type):  # a later batch may not fit int64, so that is decided at the end
            values, self._narrow = values.cast(pa.large_string()), True
        ids = as_ids(values, self._where, rows)
        if self._kind not in (None, ids.type):
            raise DataError(
                f"{self._where} holds ids of type {ids.type}, but those before are of type {self._kind}: "
                "give all of them one type."
            )
        self._kind, encoded, known = ids.type, ids.dictionary_encode(), self._codes
        codes = [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()]
        _refuse_too_many(len(known), self._where)
        batch: NDArray[np.int32] = np.array(codes, dtype=np.int32)[encoded.indices.to_numpy()]
        return batch

    def vocabulary(self) -> Vocabulary:
        """All ids so far."""
        ids = list(self._codes)
        if not ids or isinstance(ids[0], int):
            return Vocabulary(pa.array(ids, pa.int64()), self._where)
        text = pa.array(ids, pa.large_string())
        return Vocabulary(narrowed(text) if self._narrow else text, self._where)


def as_ids(values: Any, where: str = "ids", rows: Rows = 1) -> pa.Array:
    """The ids as int64 or large_string, or a DataError that names the first row that holds no usable id."""
    ids = as_arrow(values, where)
    if ids.null_count:
        raise _no_id(where, row_number(rows, pc.index(ids.is_null(), True).as_py()))
    if pa.types.is_null(ids.type):
        return ids.cast(pa.int64())
    if pa.types.is_floating(ids.type):
        return _whole(ids, where, rows)
    if pa.types.is_uint64(ids.type):
        return narrowed(ids.cast(pa.large_string()))
    if pa.types.is_integer(ids.type):
        return ids.cast(pa.int64())
    if is_text(ids.type):
        text = as_text(ids, where, rows)
        empty = pc.index(text, pa.scalar("", pa.large_string())).as_py()
        if empty >= 0:
            raise _no_id(where, row_number(rows, empty))
        return text
    raise DataError(f"{where} holds ids of type {ids.type}: ids must be strings or integers.")


def as_arrow(values: Any, where: str) -> pa.Array:
    """Any one-dimensional array-like as one plain pyarrow array; missing values become null."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.ChunkedArray):  # older versions answer with a chunked array of no chunks
        values = pa.array([], values.type)
    if isinstance(values, pa.Array):
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise DataError(f"{where} must be a list or an array, but is {values!r}: wrap it in a list.")
    series = nw.from_native(values, series_only=True, pass_through=True)
    try:
        if isinstance(series, nw.Series):
            return as_arrow(series.to_arrow(), where)
        plain = values if isinstance(values, (list, tuple, range, np.ndarray)) else np.asarray(values)
        return pa.array(plain, from_pandas=True)
    except OverflowError:
        return _digits(list(values), where)
    except (pa.ArrowException, UnicodeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{where} must be one-dimensional with values of one kind: {reason}.") from error


def as_text(values: pa.Array, where: str, rows: Rows = 1) -> pa.Array:
    """Text or bytes as large_string, every value valid UTF-8 (which a Parquet file does not promise)."""
    raw = values.cast(pa.large_binary())
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        at = first_uncastable(raw, pa.large_string())
        shown = raw[at].as_py()
        raise DataError(
            f"row {row_number(rows, at)} of {where} holds {shown!r}, which is not UTF-8: save the data as UTF-8."
        ) from None


def first_uncastable(values: pa.Array, target: pa.DataType) -> int:
    """The place of the first value that keeps `values` from being cast, by bisection."""
    good, bad = 0, len(values)  # values[:good] can be cast, values[:bad] cannot
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            values[good:middle].cast(target)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers, booleans or nothing at all."""
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


def narrowed(ids: pa.Array) -> pa.Array:
    """Strings as int64 if every one is an integer spelled the usual way ("12", not "012"), else unchanged."""
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return ids
    return numbers if numbers.cast(pa.large_string()).equals(ids) else ids


def _digits(values: list[Any], where: str) -> pa.Array:
    """Integers beyond 64 bits, as strings of digits."""
    if not all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values):
        raise DataError(f"{where} mixes integers beyond 64 bits with other kinds: make every value a string.")
    return pa.array([None if value is None else str(value) for value in values], pa.large_string())


def _whole(ids: pa.Array, where: str, rows: Rows) -> pa.Array:
    """Float ids as integers: what pandas makes of an integer column with missing values."""
    values = ids.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if np.isnan(values).any():
        raise _no_id(where, row_number(rows, int(np.isnan(values).argmax())))
    bad = ~(np.abs(values) <= _LARGEST_EXACT_FLOAT) | (values != np.trunc(values))
    if bad.any():
        at = int(bad.argmax())
        raise DataError(
            f"row {row_number(rows, at)} of {where} holds the float {values[at]}, which is no exact whole number: "
            "give ids as strings or integers."
        )
    return pa.array(values.astype(np.int64))


def _no_id(where: str, row: int) -> DataError:
    return DataError(f"row {row} of {where} has no id: give it one or remove the row.")


def _refuse_too_many(size: int, where: str) -> None:
    if size > LARGEST_CODE:
        raise DataError(f"{where} holds {size:,} ids, but 32-bit codes count only to {LARGEST_CODE:,}.")
