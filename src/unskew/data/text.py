"""Text files of rows, streamed: CSV, TSV and RecBole's atomic files, packed or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from unskew.data.tablefile import AGAIN, TYPED, TableFile, plain_errors, present_columns
from unskew.data.vocabulary import as_arrow, as_ids, as_text
from unskew.errors import DataError

_KIND = b"kind"  # what RecBole says of a column, kept with the field
_MISSHAPEN = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # in pyarrow's message
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|$)")
_LONGEST_HEADER, _HEAD = 1 << 20, 1 << 16
_BLOCK = 1 << 20  # bytes of text parsed at once, and the longest row; Arrow reads 32 of them ahead
_NO_NUMBER = pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"], pa.large_string())


def text_batches(source: TableFile, wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The wanted columns (None: all) batch by batch, in that order, as bytes."""
    with plain_errors(source.name, "read", AGAIN), closing(_TextFile(source.path)) as file:
        header = _header(file.first_line(keep=not source.header), source)
        names = [field.name for field in header]
        # Columns go by place, as others may share a name; the last one tells if a quote was left open.
        place_of = {name: place for place, name in enumerate(names)}
        places = [place_of[name] for name in present_columns(wanted, names, source)]
        schema = pa.schema([header[place] for place in places])
        n_rows, last = 0, b""
        for batch in _parsed(file, len(names), sorted({*places, len(names) - 1}), source):
            n_rows += len(batch)
            if len(batch):
                last = batch.column(batch.num_columns - 1)[-1].as_py()
            yield pa.RecordBatch.from_arrays([batch.column(str(place)) for place in places], schema=schema)
        if (b"\n" in last or b"\r" in last) and not file.tail.rstrip().endswith(b'"'):
            raise _open_quote(source, n_rows)


def header_names(source: TableFile) -> list[str]:
    """The names of the columns, each as often as it is there."""
    with plain_errors(source.name, "read", AGAIN), closing(_TextFile(source.path)) as file:
        return [field.name for field in _header(file.first_line(keep=True), source)]


def first_lines(path: Path, most: int = 20) -> list[str]:
    """The first lines of a text file, packed or not, that are in its first 64 KB and not blank."""
    with plain_errors(path.name, "read", AGAIN), closing(_TextFile(path)) as file:
        data = file.read(_HEAD)
    if len(data) == _HEAD and b"\n" in data:  # the last line may go on
        data = data[: data.rindex(b"\n")]
    return [line for line in data.decode("utf-8-sig", "replace").splitlines() if line.strip()][:most]


def typed_column(table: pa.Table, name: str, source: TableFile, is_id: bool) -> pa.Array:
    """A column of a text file as ids, numbers, booleans or text, whichever it spells throughout."""
    where = f"column {name!r} of {source.name}"
    text = as_text(as_arrow(table[name], where), where)
    if is_id:
        return as_ids(text, where)
    if b"token" not in (table.schema.field(name).metadata or {}).get(_KIND, b""):
        numbers = pc.if_else(pc.is_in(text, value_set=_NO_NUMBER), None, text)
        for kind in (pa.int64(), pa.float64(), pa.bool_()):
            try:
                return numbers.cast(kind)
            except pa.ArrowInvalid:
                continue
    return pc.if_else(pc.equal(text, ""), None, text)


def _parsed(file: _TextFile, n_columns: int, places: list[int], source: TableFile) -> Iterator[pa.RecordBatch]:
    """The columns at some places of the rows after the header, with pyarrow's complaints in our words."""
    wanted = [str(place) for place in places]
    # One thread: as fast here, less memory, and only then does pyarrow count rows.
    reading = pcsv.ReadOptions(
        use_threads=False, block_size=_BLOCK, column_names=[str(place) for place in range(n_columns)]
    )
    parsing = pcsv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True)
    converting = pcsv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary()))
    n_rows = 0
    try:
        with pcsv.open_csv(file, reading, parsing, converting) as reader:
            for batch in reader:
                n_rows += len(batch)
                yield batch
    except pa.ArrowInvalid as error:
        misshapen = _MISSHAPEN.search(str(error))
        if misshapen:
            first = "the header" if source.header else "the first row"
            raise DataError(
                f"row {misshapen[1]} of {source.name} has {misshapen[3]} fields where {first} has "
                f"{misshapen[2]}: correct the row or quote fields that hold {source.delimiter!r}."
            ) from None
        if "straddling" in str(error):
            raise DataError(
                f"a quotation mark is left open near row {n_rows + 1} of {source.name}, or the row is longer than "
                f"{_BLOCK:,} bytes: close or double the mark, or shorten the row."
            ) from None
        if "Empty CSV" not in str(error):
            raise


class _TextFile:
    """A text file, packed or not, read once from front to back; remembers its last bytes."""

    def __init__(self, path: Path) -> None:
        packed = path.suffix.lower() == ".gz"
        self._file: Any = gzip.open(path) if packed else open(path, "rb")  # noqa: SIM115 (closed by close)
        self._ahead = b""
        self.tail = b""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data = (self._ahead if size < 0 else self._ahead[:size]) or self._file.read(size)
        self._ahead = self._ahead[len(data) :]
        self.tail = (self.tail + data[-64:])[-64:]
        return bytes(data)

    def first_line(self, keep: bool) -> bytes | None:
        """The line without its end, kept to be read again as a row or not; None if it is too long for a header."""
        self._ahead = self._file.read(_LONGEST_HEADER)
        line = _LINE.match(self._ahead)
        assert line is not None  # the pattern matches anything
        if line.end() == _LONGEST_HEADER:
            return None
        if not keep:
            self._ahead = self._ahead[line.end() :]
        elif self._ahead.startswith(codecs.BOM_UTF8):
            self._ahead = self._ahead[len(codecs.BOM_UTF8) :]
        return bytes(line[1])

    def close(self) -> None:
        self.closed = True
        self._file.close()


def _header(line: bytes | None, source: TableFile) -> list[pa.Field]:
    if line is None:
        raise DataError(
            f"the first line of {source.name} has {_LONGEST_HEADER:,} bytes or more: it must name the columns."
        )
    try:
        text = line.decode("utf-8-sig")
        names = next(csv.reader([text], delimiter=source.delimiter), [])
    except UnicodeDecodeError as error:
        raise DataError(
            f"the header of {source.name} is not UTF-8 at byte {error.start + 1}: save the file as UTF-8."
        ) from None
    except csv.Error as error:
        raise DataError(f"the header of {source.name} cannot be split into columns: {error}.") from None
    if not text.strip():
        raise DataError(f"the first line of {source.name} is blank: it must name the columns.")
    if not source.header:
        names = [str(place) for place in range(1, len(names) + 1)]
    if len(names) == 1:
        found = max(",;\t|", key=text.count)
        if found in text and found != source.delimiter:
            raise DataError(
                f"{source.name} has one column when split at {source.delimiter!r} but looks separated by "
                f"{found!r}: pass delimiter={found!r}."
            )
    if source.ending not in TYPED:
        return [pa.field(name, pa.binary()) for name in names]
    parts = [name.rpartition(":") for name in names]
    return [
        pa.field(name, pa.binary(), metadata={_KIND: kind}) if colon else pa.field(kind, pa.binary())
        for name, colon, kind in parts
    ]


def _open_quote(source: TableFile, row: int) -> DataError:
    return DataError(f"a quotation mark is left open near row {row} of {source.name}: close or double it.")
