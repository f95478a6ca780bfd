"""External ids outside, integer codes inside: the one place that knows how the two are matched."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.errors import DataError

LARGEST_CODE = 2**31 - 1
LARGEST_EXACT_FLOAT = 2**53
FEWEST_COUNTED = 100_000  # rows
SLICE = 1 << 16  # rows handled at once: what stays in a processor's cache is as good as free


class Vocabulary:
    """Distinct external ids (strings or integers) in order; an id's place is its code."""

    def __init__(self, ids: Any, where: str = "ids") -> None:
        self.arrow: pa.Array = as_ids(ids, where)
        if len(self.arrow) > LARGEST_CODE:
            raise DataError(f"{where} holds {len(self.arrow):,} ids, but 32-bit codes count only to {LARGEST_CODE:,}.")
        if len(self.arrow.unique()) < len(self.arrow):
            counts = self.arrow.value_counts()
            twice = counts.field(0)[pc.index(pc.greater(counts.field(1), 1), True).as_py()].as_py()
            raise DataError(f"{where} holds the id {twice!r} more than once: ids must be distinct.")

    def __len__(self) -> int:
        return len(self.arrow)

    def __getitem__(self, code: int) -> str | int:
        if not 0 <= code < len(self):  # -1 stands for an unknown id, so it must not find the last one
            raise IndexError(f"code {code} stands for no id: codes run from 0 to {len(self) - 1}.")
        value: str | int = self.arrow[int(code)].as_py()
        return value

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.arrow.to_pylist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        values: NDArray[Any] = self.arrow.to_numpy(zero_copy_only=False)
        return values.astype(values.dtype if dtype is None else dtype, copy=bool(copy))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.arrow[:3].to_pylist()))
        return f"Vocabulary({len(self):,} ids: {shown}{', ...' if len(self) > 3 else ''})"

    def take(self, codes: Any) -> pa.Array:
        """Return the external ids of some codes."""
        return self.arrow.take(pa.array(np.asarray(codes, np.int64)))

    def codes(self, ids: Any, where: str = "ids") -> NDArray[np.int32]:
        """Return the codes of some ids, -1 for an unknown id; 12 and "12" are the same id, "012" is another."""
        wanted, known = as_ids(ids, where), self.arrow
        if wanted.type != known.type:  # comparing as text is exact: an integer has one usual spelling
            wanted, known = wanted.cast(pa.large_string()), known.cast(pa.large_string())
        codes: NDArray[np.int32] = pc.index_in(wanted, value_set=known).fill_null(-1).to_numpy()
        return codes

    def extended(self, ids: Any) -> "Vocabulary":
        """Return these ids and, behind them, those of others that are not among them."""
        more = as_ids(ids)
        more = more.filter(pa.array(self.codes(more) < 0))
        kinds = (self.arrow.type, more.type)
        if kinds[0] != kinds[1] and pa.types.is_integer(kinds[0]):
            more = narrowed(more)  # text that spells integers joins integers
        parts = [self.arrow, more]
        if parts[0].type != parts[1].type:
            parts = [part.cast(pa.large_string()) for part in parts]
        return Vocabulary(pa.concat_arrays(parts))


def encoded(values: Any, where: str, narrow: bool = False, known: Any = None) -> tuple[NDArray[np.int32], Vocabulary]:
    """Return a column as codes, and the ids that they stand for, in the order of first appearance or of a catalogue.

    `narrow` makes integers of text that spells them throughout; a catalogue, `known`, must list every id.
    """
    column = values if isinstance(values, pa.ChunkedArray) else as_arrow(values, where)
    given = pa.types.is_dictionary(column.type)
    if not given:
        column = narrowed(column) if narrow else column
        if (numbered := _numbered(column)) is not None and known is None:
            return numbered[0], Vocabulary(numbered[1], where)
        try:  # before chunks are joined: codes are shorter than ids
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise _no_kind_of_id(where, column.type) from None
    column = as_arrow(column, where)
    codes, ids = column.indices, column.dictionary
    if given:
        used = pc.unique(codes.drop_null())  # a dictionary may also hold what stands nowhere in the column
        codes, ids = pc.index_in(codes, value_set=used), ids.take(used)
    if codes.null_count:
        raise _no_id(where, pc.index(codes.is_null(), True).as_py())
    numbers = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    try:
        found = Vocabulary(narrowed(ids) if narrow else ids, where)
    except DataError:
        as_ids(column, where)  # the sentence names the row, not the place among different ids
        raise
    if known is None:
        return numbers, found
    catalogue = known if isinstance(known, Vocabulary) else Vocabulary(known, f"the catalogue of {where}")
    places = catalogue.codes(found)
    if (places < 0).any():
        lost = int((places < 0).argmax())
        raise DataError(
            f"row {1 + int((numbers == lost).argmax())} of {where} holds {found[lost]!r}, which the catalogue of "
            f"{len(catalogue):,} ids does not list: add it there or remove the row."
        )
    return places[numbers], catalogue


def _numbered(column: Any) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
    """Return codes and ids of a long column of integers that lie close together, by counting instead of hashing."""
    if not pa.types.is_int64(column.type) or column.null_count or len(column) < FEWEST_COUNTED:
        return None
    low, high = (end.as_py() for end in pc.min_max(column).values())
    if high - low >= len(column):
        return None
    found, first = np.empty(len(column), np.int32), np.full(high - low + 1, len(column), np.int32)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [part for chunk in chunks for part in np.split(np.asarray(chunk), range(SLICE, len(chunk), SLICE))]
    ends = np.cumsum([len(part) for part in parts])
    for part, end in zip(parts[::-1], ends[::-1], strict=True):  # of several rows the first is written last
        first[part[::-1] - low] = np.arange(end - 1, end - len(part) - 1, -1, dtype=np.int32)
    ids = np.flatnonzero(first < len(column))
    ids = ids[np.argsort(first[ids])]
    first[ids] = np.arange(len(ids), dtype=np.int32)
    for part, end in zip(parts, ends, strict=True):
        np.take(first, part - low, out=found[end - len(part) : end])
    found.flags.writeable = False  # or a log would copy it
    return found, ids + low


def as_ids(values: Any, where: str = "ids") -> pa.Array:
    """Return the ids as int64 or large_string, or a DataError that names the first row that holds no usable id."""
    ids = plain(as_arrow(values, where))
    if ids.null_count:
        raise _no_id(where, pc.index(ids.is_null(), True).as_py())
    if pa.types.is_null(ids.type):
        return ids.cast(pa.int64())
    if pa.types.is_floating(ids.type):
        return _whole(ids, where)
    if pa.types.is_integer(ids.type):
        try:
            return ids.cast(pa.int64())
        except pa.ArrowInvalid:
            raise DataError(f"{where} holds integers beyond 64 bits: give such ids as strings.") from None
    if is_text(ids.type):
        text = as_text(ids, where)
        if (place := pc.index(text, "").as_py()) >= 0:
            raise _no_id(where, place)
        if (place := pc.index(pc.match_substring(text, "\0"), True).as_py()) >= 0:
            raise DataError(f"row {place + 1} of {where} holds a NUL in its id: correct it or remove the row.")
        return text
    raise _no_kind_of_id(where, ids.type)


def as_arrow(values: Any, where: str) -> pa.Array:
    """Any one-dimensional array-like as one pyarrow array; missing values become null."""
    if isinstance(values, Vocabulary):
        return values.arrow
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            values = pa.chunked_array(values.chunks, values.type).unify_dictionaries().combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # some versions answer with a chunked array again
            values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise DataError(f"{where} must be a list or an array, but is {values!r}: wrap it in a list.")
    try:
        if not isinstance(values, list | tuple | range | np.ndarray):
            import narwhals as nw  # slow to import, and files need none

            series = nw.from_native(values, series_only=True, pass_through=True)
            if isinstance(series, nw.Series):
                return as_arrow(series.to_arrow(), where)
            values = np.asarray(values)
        return pa.array(values, from_pandas=True)
    except OverflowError:
        raise DataError(f"{where} holds integers beyond 64 bits: give them as strings.") from None
    except Exception as error:  # a door: whatever a foreign kind of array complains of
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        with suppress(Exception):
            held = {type(value).__name__: value for value in np.ravel(np.asarray(values, object)).tolist()}
            if len(held) > 1 and held.keys() <= {"str", "int", "float", "bool", "NoneType"}:
                reason = "it holds " + " and ".join(f"{value!r:.80} ({kind})" for kind, value in held.items())
        raise DataError(f"{where} must be one-dimensional with values of one kind: {reason}.") from error


def plain(values: pa.Array) -> pa.Array:
    """Return the values themselves, if they stand in a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def as_text(values: pa.Array, where: str) -> pa.Array:
    """Return text or bytes as large_string, every value valid UTF-8 (which a Parquet file does not promise)."""
    raw = values.cast(pa.large_binary())
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        at = first_unread(raw, lambda part: part.cast(pa.large_string()))
        raise DataError(
            f"row {at + 1} of {where} holds {raw[at].as_py()!r}, which is not UTF-8: save the data as UTF-8."
        ) from None


def first_unread(values: pa.Array, reads: Callable[[pa.Array], Any]) -> int:
    """Return the place of the first value that keeps a column from being read, by bisection.

    What begins like the column is read as a whole: `reads` answers with anything but None, and raises nothing.
    """
    read, unread = 0, len(values)
    while unread - read > 1:  # the first `read` values can be read, the first `unread` cannot
        middle = (read + unread) // 2
        try:
            good = reads(values[:middle]) is not None
        except pa.ArrowInvalid:
            good = False
        read, unread = (middle, unread) if good else (read, middle)
    return read


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds strings or bytes of varying length."""
    return str(kind) in ("string", "large_string", "binary", "large_binary", "string_view", "binary_view")


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds numbers, booleans or nothing at all."""
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


def narrowed(ids: Any) -> Any:
    """Return strings as int64 if every one is an integer spelled the usual way ("12", not "012"), else unchanged."""
    if not is_text(ids.type) or ids.null_count:
        return ids
    try:
        numbers, spelled = ids.cast(pa.int64()), pc.sum(pc.binary_length(ids)).as_py()
    except pa.ArrowException:
        return ids
    if not len(ids):
        return numbers
    low, high = (end.as_py() for end in pc.min_max(numbers).values())
    above, below = range(1, len(str(max(high, 0)))), range(len(str(min(low, 0))) - 1)
    digits = len(ids) + sum(pc.sum(pc.greater_equal(numbers, 10**more)).as_py() for more in above)
    digits += sum(pc.sum(pc.less_equal(numbers, -(10**more))).as_py() for more in below)
    return numbers if digits == spelled else ids  # every other spelling is longer


def _whole(ids: pa.Array, where: str) -> pa.Array:
    """Float ids as integers: what pandas makes of an integer column with missing values."""
    values = ids.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if np.isnan(values).any():
        raise _no_id(where, int(np.isnan(values).argmax()))
    bad = ~(np.abs(values) <= LARGEST_EXACT_FLOAT) | (values != np.trunc(values))
    if bad.any():
        at = int(bad.argmax())
        raise DataError(
            f"row {at + 1} of {where} holds the float {values[at]}, which is no exact whole number: "
            "give ids as strings or integers."
        )
    return pa.array(values.astype(np.int64))


def _no_id(where: str, at: int) -> DataError:
    return DataError(f"row {at + 1} of {where} has no id: give it one or remove the row.")


def _no_kind_of_id(where: str, kind: pa.DataType) -> DataError:
    return DataError(f"{where} holds ids of type {str(kind)[:60]}: ids must be strings or integers.")
