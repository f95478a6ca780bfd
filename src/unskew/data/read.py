"""Logs and small frames from files, frames, matrices and arrays: the one door through which data comes in."""

from __future__ import annotations

import logging
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from unskew.data.features import missing_column
from unskew.data.guess import Layout, columns_by_name, columns_by_place, is_number, layout_of
from unskew.data.ids import is_text
from unskew.data.log import LogSettings, RatingLog, Rows, check_settings, named_as
from unskew.errors import DataError, ParameterError

TYPED = (".inter", ".user", ".item")  # RecBole names a column "name:type"
TABS = (".tsv", ".data", *TYPED)
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}
PARQUET, RECORDS = (".parquet", ".pq"), (".json", ".jsonl", ".ndjson")
BESIDE = re.compile(r"readme|licen[cs]e|changelog|description|.*\.(md|html|pdf|sh|pl|py)$", re.IGNORECASE)
OF_RATINGS = re.compile(r"ratings\.|u\.data$|.*\.inter$", re.IGNORECASE)
HEAD = 1 << 16
BLOCK = 1 << 22  # bytes of text parsed at once, and the longest row
TEXT = pa.large_string()
STANDARD_INPUT = "-"
LOGGER = logging.getLogger(__name__)


def read_log(
    source: Any,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    **settings: Unpack[LogSettings],
) -> RatingLog:
    """The log in a file with one row per rating, a folder of such files, a frame, a sparse matrix or three arrays.

    Files are CSV, TSV, text separated otherwise (MovieLens' u.data and ratings.dat), RecBole's .inter, JSON lines and
    Parquet, also packed as .gz, .bz2, .zst or as a .zip of one file; "-" is standard input. Columns, delimiter, header
    and the threshold of what is liked are guessed where they are not given, and `notes` of the log say how. Columns
    without a header are called "1", "2" and so on. Ids in text are text, unless all of them spell integers. Features
    and item names may be frames or paths of files. The files of a folder are read in the order of their names. Of a
    SciPy sparse matrix rows are users and stored values ratings. Other settings: see `unskew.data.log.LogSettings`.
    """
    given = {"user": user, "item": item, "rating": rating, "time": time}
    check_settings(settings)
    named = [name for name in given.values() if name is not None]
    if not all(isinstance(name, str) for name in named) or len(set(named)) < len(named):
        raise ParameterError(f"user, item, rating and time must name different columns, not {given}.")
    for name in ("user_features", "item_features", "item_names"):
        held: Any = settings.get(name)
        if is_path(held) and (name != "item_names" or Path(held).exists()):
            settings[name] = read_frame(held, sides=(name[:4],))
    if isinstance(source, RatingLog):
        if any(given.values()) or settings.keys() - {"like"}:
            raise ParameterError("a RatingLog is read already: leave the settings for reading out.")
        return source
    if is_path(source):
        return _from_files(os.fspath(source), given, delimiter, header, settings)
    if delimiter is not None or header is not None:
        raise ParameterError("delimiter and header are for files of text: leave them out.")
    if type(source).__module__.startswith("scipy.sparse") and getattr(source, "ndim", 0) == 2:
        matrix = source.tocoo()
        settings = {"user_ids": range(matrix.shape[0]), "item_ids": range(matrix.shape[1]), **settings}
        return RatingLog.from_arrays(matrix.row, matrix.col, matrix.data, **settings)
    if isinstance(source, (tuple, list)) and len(source) == 3:
        return RatingLog.from_arrays(*source, **settings)
    return RatingLog.from_frame(source, **given, **settings)


def as_log(source: Any, model: Any = None) -> RatingLog:
    """The log that anything stands for, on the scale and with the names of columns of a model's own, if it has one."""
    like = getattr(model, "log", None)
    if isinstance(source, RatingLog):
        return source
    return read_log(source, like=like if isinstance(like, RatingLog) else None)


def read_frame(
    path: str | os.PathLike[str],
    ids: Sequence[str] = (),
    *,
    sides: Sequence[str] = ("user", "item"),
    delimiter: str | None = None,
    header: bool | None = None,
) -> pa.Table:
    """A small frame (features, pairs to predict) as a pyarrow Table, from a file of the same formats as `read_log`.

    In text the columns of ids, named or guessed for these sides, stay text and every other column becomes numbers if
    all it holds are numbers, so that the id "012" is not mistaken for 12.
    """
    files = files_of(os.fspath(path))
    table = _joined([file.read(None, delimiter, header, ids) for file in files], str(path)).combine_chunks()
    samples = {name: table.column(name)[:100].to_pylist() for name in table.column_names}
    found, _ = columns_by_name(samples, dict.fromkeys(sides), str(path), optional=sides)
    tokens = [field.name for field in table.schema if b"token" in (field.metadata or {})]
    texts = {*ids, *found.values(), *tokens}
    columns = {name: table[name] if name in texts else _typed(table[name]) for name in table.column_names}
    return pa.table(columns)


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)


def _from_files(
    path: str, given: dict[str, str | None], delimiter: str | None, header: bool | None, settings: Any
) -> RatingLog:
    files, notes = files_of(path), []
    if len(files) == 1 and files[0].path != path and Path(path).is_dir() and len(list(Path(path).iterdir())) > 1:
        notes.append(f"{files[0].name} is taken for the ratings")
    table = files[0].opened(delimiter, header, [name for name in given.values() if name])
    given, names = named_as(given, table.names, settings.get("like")), table.names
    if table.layout is not None and not table.layout.header:
        found, guessed = columns_by_place(table.sample, given, files[0].name), list[str]()
    else:
        found, guessed = columns_by_name(table.samples, given, files[0].name, optional=("time",))
    title = settings.get("item_names")
    extra = [title] if isinstance(title, str) and title in names else []
    if isinstance(title, str) and not extra:
        raise DataError(f"item_names={title!r} is neither a column of {files[0].name} nor a file: check the name.")
    wanted = {found["user"]: TEXT, found["item"]: TEXT, found["rating"]: table.rating_type(found["rating"])}
    wanted |= dict.fromkeys(extra, TEXT)
    if "time" in found:
        wanted[found["time"]] = table.time_type(found["time"])
    if table.layout is not None:
        notes += table.layout.notes
        header = table.layout.header  # which the names of columns by their places must not decide anew
    rows = _joined([file.read(wanted, delimiter, header) for file in files], path)
    columns = {role: rows[name] for role, name in found.items()}
    called = found if table.layout is None or table.layout.header else {}
    LOGGER.debug("read %s rows of %s", f"{len(rows):,}", path)
    where = "standard input" if path == STANDARD_INPUT else Path(path).name
    read = Rows(columns, found, where, "pyarrow", (*notes, *guessed), narrow=table.layout is not None)
    log = read.log({name: rows[name] for name in extra}, **settings)
    return log if called else RatingLog.proved(**log.__dict__ | {"names": type(log.names)()})


def _joined(tables: list[pa.Table], path: str) -> pa.Table:
    try:
        whole = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException as error:
        raise DataError(f"the files of {path} do not go together: {_words(error)}.") from None
    if not len(whole):
        raise DataError(f"{Path(path).name} names its columns but has no rows: there is nothing to read.")
    return whole


class File(NamedTuple):
    """A file of rows, whatever its form; `files_of` finds them."""

    path: str

    @property
    def name(self) -> str:
        return "standard input" if self.path == STANDARD_INPUT else Path(self.path).name

    @property
    def ending(self) -> str:
        """The ending that tells the form, with that of packing taken off."""
        name = Path(self.path.lower())
        return Path(name.stem).suffix if name.suffix in PACKED else name.suffix

    def stream(self) -> Any:
        """The bytes, unpacked."""
        if self.path == STANDARD_INPUT:
            return pa.BufferReader(_standard_input())
        packed = PACKED.get(Path(self.path).suffix.lower())
        if packed != "zip":
            return pa.input_stream(self.path, compression=packed)
        inside = zipfile.ZipFile(self.path)
        held = [entry for entry in inside.namelist() if not entry.endswith("/") and "__MACOSX" not in entry]
        if len(held) != 1:
            raise DataError(f"{self.name} holds {len(held)} files ({', '.join(held[:5])}): unpack it and name one.")
        return inside.open(held[0])

    def opened(self, delimiter: str | None = None, header: bool | None = None, asked: Sequence[str] = ()) -> Opened:
        """The file with what its first bytes tell."""
        if delimiter is not None and (not delimiter or not delimiter.isascii() or set(delimiter) & set('"\r\n')):
            raise ParameterError(f"delimiter must be a character such as ';', but is {delimiter!r}.")
        try:
            with self.stream() as stream:
                head = stream.read(HEAD)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, pa.ArrowException) as error:
            raise self._unreadable(error) from None
        if not head:
            raise DataError(f"{self.name} is empty: it has no bytes, not even a header.")
        if self.ending in PARQUET or head.startswith(b"PAR1"):
            try:
                import pyarrow.parquet as pq  # slow to import, as pyarrow.json is

                return Opened(self, "parquet", pq.read_schema(self._seekable()).names)
            except (pa.ArrowException, OSError) as error:
                raise self._unreadable(error) from None
        if self.ending in RECORDS or head.lstrip()[:1] == b"{":
            found = self.records()
            return Opened(self, "records", found.column_names, rows=found)
        if b"\0" in head:
            raise DataError(f"{self.name} holds NUL bytes, as no text does: give text, JSON lines or Parquet.")
        if len(head) == HEAD and b"\n" in head:  # the last line may go on
            head = head[: head.rindex(b"\n")]
        every = head.decode("utf-8-sig", "replace").splitlines()
        lines = [line for line in every if line.strip()][:100]
        if not lines:
            raise DataError(f"{self.name} holds nothing but blank lines: it must name its columns and have rows.")
        typed = self.ending in TYPED
        layout = layout_of(lines, "\t" if self.ending in TABS else ",", delimiter, True if typed else header, asked)
        first, *rest = layout.fields(lines)
        names = [name.strip() for name in first] if layout.header else [str(place + 1) for place in range(len(first))]
        if layout.header and not rest:
            raise DataError(f"{self.name} names its columns but has no rows: there is nothing to read.")
        tokens = {at for at, name in enumerate(names) if typed and ":token" in name}
        if typed:
            names = [name.rpartition(":")[0] or name for name in names]
        skipped = next(at for at, line in enumerate(every) if line.strip()) + layout.header
        return Opened(self, "text", names, layout, rest if layout.header else [first, *rest], skipped, tokens)

    def records(self) -> pa.Table:
        try:
            with self.stream() as stream:
                import pyarrow.json as pjson

                return pjson.read_json(stream, pjson.ReadOptions(use_threads=False, block_size=1 << 24))
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise self._unreadable(error) from None

    def read(
        self, wanted: dict[str, pa.DataType] | None, delimiter: str | None, header: bool | None, asked: Any = ()
    ) -> pa.Table:
        """The wanted columns, of text with these types; all, of text as text, for None."""
        table = self.opened(delimiter, header, asked if wanted is None else list(wanted))
        times = Counter(table.names)
        for name in table.names if wanted is None else wanted:
            if name not in times:
                raise missing_column(name, table.names, self.name)
            if times[name] > 1:
                raise DataError(f"{self.name} has {times[name]} columns called {name!r}: rename all but one.")
        names = table.names if wanted is None else list(wanted)
        try:
            if table.kind == "records":
                found: pa.Table = table.rows.select(names)
            elif table.kind == "parquet":
                import pyarrow.parquet as pq

                schema = pq.read_schema(self._seekable())
                texts = [name for name in names if is_text(schema.field(name).type)] if wanted else []
                found = pq.read_table(self._seekable(), columns=names, read_dictionary=texts)
                found.validate(full=True)  # Parquet promises neither valid text nor valid places
            else:
                return self._text(table, names, wanted or dict.fromkeys(names, pa.string()))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from None
        for name in names:
            if pa.types.is_nested(kind := found.schema.field(name).type):
                raise DataError(f"column {name!r} of {self.name} is of type {kind}: keep one value in a cell.")
        return found

    def _text(self, table: Opened, names: list[str], wanted: dict[str, pa.DataType]) -> pa.Table:
        """Columns by their places, as others may share a name; the last one shows whether a quote was left open."""
        places, last = [table.names.index(name) for name in names], len(table.names) - 1
        layout, types = table.layout, {str(at): wanted[name] for at, name in zip(places, names, strict=True)}
        assert layout is not None  # of text
        types.setdefault(str(last), pa.binary())
        long = len(layout.delimiter) > 1
        quoted = not long and self._holds_quotes()

        def parse(threads: bool) -> pa.Table:
            with self.stream() as stream:
                source = pa.BufferReader(stream.read().replace(layout.delimiter.encode(), b"\x1f")) if long else stream
                return pcsv.read_csv(
                    source,
                    pcsv.ReadOptions(
                        use_threads=threads,
                        block_size=BLOCK,
                        column_names=[str(at) for at in range(last + 1)],
                        skip_rows=table.skipped,
                    ),
                    pcsv.ParseOptions(
                        delimiter="\x1f" if long else layout.delimiter,
                        quote_char='"' if quoted else False,
                        newlines_in_values=quoted,
                    ),
                    pcsv.ConvertOptions(include_columns=list(types), column_types=types, decimal_point=layout.decimal),
                )

        try:
            found = parse(threads=True)
        except (pa.ArrowException, OSError, EOFError, ValueError):
            try:
                found = parse(threads=False)  # only then does Arrow count rows
            except (pa.ArrowException, OSError, EOFError, ValueError) as error:
                raise self._unreadable(error, table) from None
        ending = found[str(last)][-1].as_py() if quoted and len(found) else None
        broken = isinstance(ending, (str, bytes)) and len(ending.splitlines()) > 1
        if broken and not self._ends_quoted():
            raise DataError(f"a quotation mark is left open near row {len(found)} of {self.name}: close or double it.")
        fields = [
            pa.field(name, types[str(at)], metadata={"token": ""} if at in table.tokens else None)
            for at, name in zip(places, names, strict=True)
        ]
        return pa.table([found[str(at)] for at in places], schema=pa.schema(fields))

    def _holds_quotes(self) -> bool:
        """Whether there may be a quotation mark; text without any is parsed faster."""
        if self.path == STANDARD_INPUT or Path(self.path).suffix.lower() in PACKED:
            return True
        with open(self.path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(b'"') >= 0

    def _ends_quoted(self) -> bool:
        with self.stream() as stream:
            tail = b""
            while piece := stream.read(1 << 20):
                tail = (tail + piece)[-64:]
        return tail.rstrip().endswith(b'"')

    def _seekable(self) -> Any:
        if self.path == STANDARD_INPUT or Path(self.path).suffix.lower() in PACKED:
            with self.stream() as stream:
                return pa.BufferReader(stream.read())
        return self.path

    def _unreadable(self, error: Exception, table: Opened | None = None) -> DataError:
        """What a reader complains of, in a sentence with row and column; the header is no row."""
        if isinstance(error, DataError):
            return error
        words, header = _words(error), 0 if table is None else table.skipped
        row = re.search(r"Row #(\d+)", words)
        at = f"row {int(row[1]) - header} of {self.name}" if row else self.name
        column = re.search(r"In CSV column #(\d+)", words)
        if column and table is not None:
            of = f"row {int(row[1]) - header} of " if row else ""
            at = f"{of}column {table.names[int(column[1])]!r} of {self.name}"
        if wrong := re.search(r"Expected (\d+) columns, got (\d+)", words):
            return DataError(
                f"{at} has {wrong[2]} fields where the first line has {wrong[1]}: correct the row, or quote fields "
                "that hold the delimiter."
            )
        if value := re.search(r"conversion error to \w+.*: invalid value '(.*)'?$", words):
            shown = value[1].rstrip("'")[:80]
            return DataError(f"{at} holds {shown!r}, which is not a number: correct or remove the row.")
        if "UTF8" in words or "utf-8" in words:
            return DataError(f"{at} is not UTF-8: save the file as UTF-8.")
        return DataError(f"{at} cannot be read ({words}): it may be truncated or altered, so write or fetch it again.")


class Opened(NamedTuple):
    """A file whose first bytes have been looked at: its form and the names of its columns, each as often as it is."""

    file: File
    kind: str
    names: list[str]
    layout: Layout | None = None
    sample: list[list[str]] = []  # noqa: RUF012
    skipped: int = 0  # lines before the first row of text
    tokens: Any = ()  # places of columns that RecBole declares to be text
    rows: Any = None  # of records

    @property
    def samples(self) -> dict[str, list[Any]]:
        """Some values of each column."""
        if self.layout is None:
            return {name: [] for name in self.names}
        return {name: [row[at] for row in self.sample if len(row) > at] for at, name in enumerate(self.names)}

    def rating_type(self, name: str) -> pa.DataType:
        words = {value.strip().casefold() for value in self.samples.get(name, ())}
        return pa.bool_() if words and words <= {"true", "false"} else pa.float64()

    def time_type(self, name: str) -> pa.DataType:
        values = self.samples.get(name, ())
        return pa.float64() if values and all(map(is_number, values)) else pa.string()


def files_of(path: str) -> list[File]:
    """The file, or the files of a folder in the order of their names; what is no part of the data is passed over.

    As Spark and others do, names that begin with . or _ are no data; nor are a README and its like. Of several files
    with different columns the one that is called after ratings is meant.
    """
    place = Path(path)
    try:
        if path == STANDARD_INPUT or place.is_file():
            return [File(path)]
        entries = [entry for entry in place.iterdir() if entry.name[0] not in "._" and not BESIDE.match(entry.name)]
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: check the path.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path[:80]} cannot be read ({_words(error)}): check the path.") from None
    for entry in entries:
        if entry.is_dir():
            raise DataError(f"{place} holds the folder {entry.name!r}: put all files of a log into one folder.")
    if not entries:
        raise DataError(f"{place} is a folder without files: give the path of a file or of a folder of files.")
    if len(entries) > 1 and len(called := [entry for entry in entries if OF_RATINGS.match(entry.name)]) == 1:
        entries = called
    return [File(str(entry)) for entry in sorted(entries)]


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _words(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()).rstrip(".") or type(error).__name__


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text as numbers or booleans if it spells them throughout; blank means missing."""
    if not is_text(column.type):
        return column
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"]))
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        try:
            return pc.if_else(missing, None, text).cast(kind)
        except pa.ArrowInvalid:
            continue
    return pc.if_else(pc.equal(column, ""), None, column)
