"""A file of rows: its format by its ending, its columns by name, and what is wrong with it in our words."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from unskew.data.features import missing_column
from unskew.errors import DataError, ParameterError, UnskewError

TYPED = (".inter", ".user", ".item")  # RecBole names a column "name:type"
_DELIMITERS = {".csv": ",", ".txt": ",", ".tsv": "\t"} | dict.fromkeys(TYPED, "\t")
_PARQUET = (".parquet", ".pq")
AGAIN = "it may be truncated or altered, so write or fetch it again"
_COMPLAINTS = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, MemoryError, zlib.error)


class TableFile(NamedTuple):
    """A file whose ending is known; `table_file` makes one."""

    path: Path
    ending: str
    delimiter: str  # of a text file
    header: bool = True  # whether its first line names the columns; else they are called "1", "2" and so on

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_text(self) -> bool:
        return self.ending not in _PARQUET


class Tables(NamedTuple):
    """A file of rows, or a folder of such files in the order of their names; `tables` makes one."""

    path: Path
    files: tuple[TableFile, ...]
    delimiter: str | None  # as it was asked for
    header: bool = True

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_text(self) -> bool:
        return self.files[0].is_text


def tables(path: str | os.PathLike[str], delimiter: str | None, header: bool = True) -> Tables:
    """The file, or the files of a folder; as Spark and others do, names that begin with . or _ are passed over."""
    place = Path(path)
    if not place.is_dir():
        return Tables(place, (table_file(path, delimiter, header),), delimiter, header)
    with plain_errors(str(place), "listed", "check the path"):
        entries = [entry for entry in place.resolve().iterdir() if entry.name[0] not in "._"]
    found = sorted(entries, key=lambda entry: entry.name)
    if not found:
        raise DataError(f"{place} is a folder without files: give the path of a file or of a folder of files.")
    for entry in found:
        if entry.is_dir():
            raise DataError(f"{place} holds the folder {entry.name!r}: put all files of a log into one folder.")
    files = tuple(table_file(entry, delimiter, header) for entry in found)
    for file in files:
        if file.is_text != files[0].is_text:
            raise DataError(
                f"{place} holds {files[0].name} and {file.name}, Parquet and text: keep one of the two in a folder."
            )
    return Tables(place.resolve(), files, delimiter, header)


def table_file(path: str | os.PathLike[str], delimiter: str | None, header: bool = True) -> TableFile:
    """The file with what its ending tells, or the reason why there is nothing to read."""
    file = Path(path)
    with plain_errors(file.name, "found", "check the path"):
        if file.is_dir():
            raise DataError(f"{file} is a folder: give the path of a file.")
        if not file.exists():
            raise DataError(f"{file} does not exist: check the path.")
    endings = [ending.lower() for ending in file.suffixes]
    packed = endings[-1:] == [".gz"]
    ending = "".join(endings[-2:-1] if packed else endings[-1:])
    if ending not in _DELIMITERS and (packed or ending not in _PARQUET):
        known = ", ".join([*_DELIMITERS, *_PARQUET])
        raise DataError(f"{file.name} ends in none of {known} (text also as .gz): rename or convert the file.")
    with plain_errors(file.name, "found", "check the path"):
        if not file.stat().st_size:
            raise DataError(f"{file.name} is empty: it has no bytes, not even a header.")
    if delimiter is not None and ending in _PARQUET:
        raise ParameterError(f"delimiter={delimiter!r} is for text files, but {file.name} is Parquet.")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise ParameterError(f"delimiter must be one ASCII character such as ';', but is {delimiter!r}.")
    if not header and ending in (*_PARQUET, *TYPED):
        raise ParameterError(f"header=False is for plain text files, but the columns of {file.name} have names.")
    return TableFile(file, ending, delimiter or _DELIMITERS.get(ending, ""), header)


def present_columns(wanted: Sequence[str] | None, names: list[str], source: TableFile) -> list[str]:
    """The wanted names (None: all), each of which must name one column of the file."""
    times = Counter(names)
    for name in names if wanted is None else wanted:
        if name not in times:
            raise missing_column(name, names, source.name)
        if times[name] > 1:
            raise DataError(f"{source.name} has {times[name]} columns called {name!r}: rename all but one.")
    return names if wanted is None else list(wanted)


@contextmanager
def plain_errors(name: str, done: str, advice: str) -> Iterator[None]:
    """Whatever the layers below complain of, as one DataError."""
    try:
        yield
    except UnskewError:
        raise
    except _COMPLAINTS as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{name} cannot be {done} ({reason}): {advice}.") from error
