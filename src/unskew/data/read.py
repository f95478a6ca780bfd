"""Logs and small frames from files, frames, matrices and arrays: the one door through which data comes in."""

import io
import logging
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from unskew.data import guess
from unskew.data.guess import ROLES
from unskew.data.ids import as_text, is_text, narrowed
from unskew.data.impressions import NAMED, refuse_clicks
from unskew.data.log import RatingLog
from unskew.data.rows import LogSettings, check_settings, find_rows
from unskew.errors import DataError, ParameterError, UnskewError, nearest

TABS = (".tsv", ".data", ".inter", ".user", ".item")
TYPED = re.compile(r"(.+):(token|float)(_seq)?")  # RecBole names a column "name:type"
PACKED = {"gzip": rb"\x1f\x8b", "bz2": rb"BZh\d1AY", "zstd": rb"\x28\xb5\x2f\xfd", "zip": rb"PK\x03\x04"}  # first bytes
PACKED_AS = (".gz", ".bz2", ".zst", ".zip")
SETTING = re.compile(rf"\b({'|'.join((*ROLES, *LogSettings.__annotations__))})=")  # that a sentence asks for
NO_DATA = re.compile(r"readme|licen[cs]e|changelog|description|.*\.(md|html|pdf|sh|pl|py)$", re.IGNORECASE)
OF_RATINGS = re.compile(r"ratings\.|u\.data$|.*\.inter$", re.IGNORECASE)
HEAD = 1 << 16
BLOCK = 1 << 22  # bytes of text parsed at once, and the longest row
MANY = 100_000  # rows of Parquet that threads read: those started for few rows can abort a process that ends meanwhile
TEXT = pa.string()
OF_TEXT = ("user", "item", "request", "policy")  # roles whose columns stay as they are spelled
STANDARD_INPUT = "-"
SOURCES = "a log is read from a path, a pandas, polars or pyarrow frame, a sparse matrix or three arrays"
LOGGER = logging.getLogger(__name__)


def read_log(
    source: Any,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    *,
    seen: str | None = None,
    **settings: Unpack[LogSettings],
) -> RatingLog:
    """Read the log in a file with one row per rating, a folder of such files, a frame, a sparse matrix or three arrays.

    Files are CSV, TSV, text separated otherwise (MovieLens' u.data and ratings.dat), RecBole's .inter, JSON lines and
    Parquet, also packed as .gz, .bz2, .zst or as a .zip of one file; "-" is standard input. Delimiter and header are
    found by looking, columns and the threshold of what is liked too where they are not given, and `notes` of the log
    say how. Columns without a header are called "1", "2" and so on. Ids in text are text, unless all of them spell
    integers. Features and item names may be frames or paths of files. The files of a folder are read in the order of
    their names. Of a SciPy sparse matrix rows are users and stored values ratings. Other settings: see
    `unskew.data.rows.LogSettings`.

    Examples:
        >>> import pyarrow as pa
        >>> log = unskew.read_log(pa.table({"customer": ["ann", "ann", "bob"], "film": [1, 2, 1], "stars": [5, 1, 4]}))
        >>> log.names.user, log.ratings.tolist()
        ('customer', [1.0, 0.0, 1.0])
    """
    given = {"user": user, "item": item, "rating": rating, "time": time, "seen": seen}
    named = [name for name in given.values() if name is not None]
    if odd := [type(name).__name__ for name in named if not isinstance(name, str)]:
        raise ParameterError(
            f"user=, item= and rating= are names of columns, not of type {odd[0]}: give three arrays as one tuple."
        )
    if twice := [name for name in named if named.count(name) > 1]:
        raise ParameterError(f"column {twice[0]!r} is named twice: users, items, ratings and times need one each.")
    for name in ("user_features", "item_features", "item_names"):
        held: Any = settings.get(name)
        if is_path(held) and (name != "item_names" or Path(held).exists()):
            settings[name] = read_frame(held, sides=(name[:4],))
    if isinstance(source, RatingLog):
        if any(given.values()) or settings.keys() - {"like"}:
            raise ParameterError("a RatingLog is read already: leave the settings for reading out.")
        return source
    if is_path(source):
        return _from_files(os.fspath(source), given, settings)
    if type(source).__module__.startswith("scipy.sparse") and getattr(source, "ndim", 0) == 2:
        matrix = source.tocoo()
        settings = {"user_ids": range(matrix.shape[0]), "item_ids": range(matrix.shape[1]), **settings}
        return RatingLog.from_arrays(matrix.row, matrix.col, matrix.data, **settings)
    if isinstance(source, (tuple, list)) and len(source) == 3:
        return RatingLog.from_arrays(*source, **settings)
    check_settings(settings)
    columns = guess.columns_of(source, wanted=SOURCES)
    rows, held = find_rows(guess.samples_of(columns), given, "the frame", settings)
    rows = rows._replace(columns={role: columns[name] for role, name in held.items()})
    return rows._replace(library=guess.library_of(source)).log(settings)


def as_log(source: Any, model: Any = None) -> RatingLog:
    """Read the log that anything stands for, on the scale and with the columns' names of a model's own log, if any."""
    like = getattr(model, "log", None)
    if isinstance(source, RatingLog):
        return source
    with in_read_log():
        return read_log(source, like=like if isinstance(like, RatingLog) else None)


@contextmanager
def in_read_log() -> Iterator[None]:
    """Say where the settings are given that a sentence asks for."""
    try:
        yield
    except DataError as error:
        if not SETTING.search(sentence := str(error)):
            raise
        raise DataError(f"{sentence.removesuffix('.')}, in unskew.read_log.") from None


def read_frame(path: str | os.PathLike[str], *, sides: Sequence[str] = ("user", "item")) -> pa.Table:
    """Read a small frame (features, pairs to predict) as a pyarrow Table, from a file in any format of `read_log`.

    In text the columns that are guessed to hold ids of these sides become integers only if all are spelled as such, so
    that "012" is not mistaken for 12; every other column becomes numbers if all it holds are numbers.
    """
    return named_frame(path, dict.fromkeys(sides), sides)[0]


def named_frame(
    path: str | os.PathLike[str],
    given: dict[str, str | None],
    optional: Sequence[str] = (),
    like: guess.Names = guess.NAMES,
) -> tuple[pa.Table, dict[str, str], list[str]]:
    """Read a small frame with columns of these roles, called as in `like` if there are such; say what was guessed."""
    files = [File(each, [name for name in given.values() if name]) for each in files_of(os.fspath(path))]
    table = _joined([file.read() for file in files], str(path)).combine_chunks()
    columns = {name: table[name] for name in table.column_names}
    if "rating" in given and given["rating"] is None:
        refuse_clicks(columns, like.rating)
    samples = {name: held[:100].to_pylist() for name, held in columns.items()}
    named = guess.named_as(given, columns, like)
    found, guessed = guess.find_columns(samples, named, Path(path).name, optional)
    ids, texts = (
        {name for role, name in found.items() if role != "rating"},
        set[str]().union(*(f.tokens for f in files)),
    )
    for name, held in columns.items():
        columns[name] = narrowed(held) if name in ids else held if name in texts else _typed(held, name)
    return pa.table(columns), found, guessed


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)


def _from_files(path: str, given: dict[str, str | None], settings: Any) -> RatingLog:
    check_settings(settings)
    paths, notes = files_of(path), list[str]()
    if len(paths) == 1 and paths[0] != path and len(list(Path(path).iterdir())) > 1:
        notes.append(f"{Path(paths[0]).name} is taken for the ratings")
    if keys := {part.partition("=")[0] for each in paths for part in Path(each[len(path) :]).parts if "=" in part}:
        notes.append(f"folders are named by {', '.join(sorted(keys))}, which is not read")
    first = File(paths[0], [name for name in given.values() if name])
    rows, held = find_rows(first.samples, given, first.name, settings)
    layout = first.layout
    notes += layout.notes if layout is not None else ()
    kinds = dict.fromkeys(held.values(), TEXT)
    for role, name in rows.called.items():
        words = {str(value).strip().casefold() for value in first.samples[name]}
        if role in OF_TEXT or role.startswith(NAMED):
            continue
        if words <= {"true", "false"}:
            kinds[name] = pa.bool_()
        elif role != "time" or all(map(guess.is_number, words)):
            kinds[name] = pa.float64()
    files = [first, *(File(other, list(kinds)) for other in paths[1:])]
    table = _joined([file.read(kinds) for file in files], path)
    LOGGER.debug("read %s rows of %s", f"{len(table):,}", path)
    where = "standard input" if path == STANDARD_INPUT else Path(path).name
    rows = rows._replace(columns={role: table[name] for role, name in held.items()}, notes=(*notes, *rows.notes))
    del table, files, first  # or nothing of them is let go while the log is made
    log = rows._replace(where=where, narrow=layout is not None).log(settings)
    return log if layout is None or layout.header else replace(log, names=guess.NAMES)


def _joined(tables: list[pa.Table], path: str) -> pa.Table:
    try:
        whole = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException as error:
        raise DataError(f"the files of {path} do not go together: {_words(error)}.") from None
    if not len(whole):
        raise DataError(f"{Path(path).name} names its columns but has no rows: there is nothing to read.")
    return whole


class File:
    """A file of rows whose first bytes have been looked at: its form, the names of its columns, some values of each.

    `asked` are names of columns that are wanted: a first line of text that holds one of them is a header.
    """

    def __init__(self, path: str, asked: Sequence[str] = ()) -> None:
        self.name = "standard input" if path == STANDARD_INPUT else Path(path).name
        self.layout: guess.Layout | None = None  # of text
        self.tokens: set[str] = set()  # columns that RecBole declares to be text
        self.skipped = 0  # lines before the first row of text
        self._rows: pa.Table | None = None  # of records
        with self._in_words():
            self._content = _unpacked(path)
            head = self._content[:HEAD]
            if not head:
                raise DataError(f"{self.name} is empty: it has no bytes, not even a header.")
            if head.startswith(b"PAR1") or head.lstrip()[:1] == b"{":
                self._look_at_table(records=not head.startswith(b"PAR1"))
            else:
                place = Path(path.lower())
                ending = Path(place.stem).suffix if place.suffix in PACKED_AS else place.suffix
                self._look_at_text(head, "\t" if ending in TABS else ",", asked)

    def _look_at_table(self, records: bool) -> None:
        import pyarrow.json as pjson  # slow to import, as pyarrow.parquet is
        import pyarrow.parquet as pq

        if records:
            # in one block, as Arrow counts rows from the beginning of each
            options = pjson.ReadOptions(use_threads=False, block_size=min(len(self._content) + 1, 2**31 - 1))
            self._rows = first = pjson.read_json(self._source(), options)
        else:
            file = pq.ParquetFile(self._source(), pre_buffer=False)
            first = next(file.iter_batches(100, use_threads=False), file.schema_arrow.empty_table())
        self.names = first.schema.names
        self.samples = {name: first.column(at)[:100].to_pylist() for at, name in enumerate(self.names)}

    def _look_at_text(self, head: bytes, usual: str, asked: Sequence[str]) -> None:
        """Find out how text is separated and what its columns are called."""
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(f"{self.name} is text in UTF-16: save the file as UTF-8.")
        if b"\0" in head:
            raise DataError(f"{self.name} holds NUL bytes, as no text does: give text, JSON lines or Parquet.")
        if head.lstrip()[:5].lower() in (b"<!doc", b"<html"):
            raise DataError(f"{self.name} is a web page: get the file itself.")
        if head.lstrip()[:1] == b"[":
            raise DataError(
                f"{self.name} is a JSON array: write an object a line (JSON lines), or give text or Parquet."
            )
        if len(head) == HEAD and b"\n" in head:  # the last line may go on
            head = head[: head.rindex(b"\n")]
        every = head.decode("utf-8-sig", "replace").splitlines()
        lines = [line for line in every if line.strip()][:100]
        if not lines:
            raise DataError(f"{self.name} holds nothing but blank lines: it must name its columns and have rows.")
        self.layout = layout = guess.layout_of(lines, usual, asked)
        first, *rest = layout.fields(lines)
        if layout.header and not rest:
            raise DataError(f"{self.name} names its columns but has no rows: there is nothing to read.")
        self.names = [name.strip() for name in first] if layout.header else [str(at + 1) for at in range(len(first))]
        typed = [TYPED.fullmatch(name) for name in self.names]
        if all(typed):
            self.names = [name[1] for name in typed if name]
            self.tokens = {name[1] for name in typed if name and name[2] == "token"}
        rows = rest if layout.header else [first, *rest]
        self.samples = {name: [row[at] for row in rows if len(row) > at] for at, name in enumerate(self.names)}
        self.skipped = next(at for at, line in enumerate(every) if line.strip()) + layout.header

    def read(self, wanted: dict[str, pa.DataType] | None = None) -> pa.Table:
        """Return the wanted columns, of text with these types; all, of text as text, for None."""
        times = Counter(self.names)
        names = self.names if wanted is None else list(wanted)
        for name in names:
            if name not in times:
                raise guess.missing_column(name, self.names, self.name)
            if times[name] > 1:
                raise DataError(f"{self.name} has {times[name]} columns called {name!r}: rename all but one.")
        with self._in_words():
            if self.layout is not None:
                return self._text(self.layout, names, wanted or dict.fromkeys(names, TEXT))
            found = self._parquet(names, wanted is not None) if self._rows is None else self._rows.select(names)
        for name in names:
            if pa.types.is_nested(kind := found.schema.field(name).type):
                raise DataError(
                    f"column {name!r} of {self.name} is of type {str(kind)[:60]}: keep one value in a cell."
                )
        return found

    def _parquet(self, names: list[str], encode: bool) -> pa.Table:
        import pyarrow.parquet as pq

        schema = pq.read_schema(self._source())
        texts = [name for name in names if encode and is_text(schema.field(name).type)]
        with pq.ParquetFile(self._source(), read_dictionary=texts, pre_buffer=False) as held:
            found = held.read(names, use_threads=held.metadata.num_rows > MANY)
        found.validate(full=True)  # Parquet promises neither valid text nor valid places
        return found

    def _text(self, layout: guess.Layout, names: list[str], wanted: dict[str, pa.DataType]) -> pa.Table:
        """Read columns by their places, as names may be shared; the last one shows whether a quote was left open."""
        places, last = [self.names.index(name) for name in names], len(self.names) - 1
        types = {str(at): wanted[name] for at, name in zip(places, names, strict=True)}
        types.setdefault(str(last), pa.binary())
        long = len(layout.delimiter) > 1
        source = bytes(self._content).replace(layout.delimiter.encode(), b"\x1f") if long else self._content
        rows = len(b"".join(self._content[:HEAD].splitlines(keepends=True)[: self.skipped]))
        quoted = not long and self._content.find(b'"', rows) >= 0  # rows without any are parsed faster
        columns = [str(at) for at in range(last + 1)]
        delimiter = "\x1f" if long else layout.delimiter

        def parse(threads: bool) -> pa.Table:
            return pcsv.read_csv(
                pa.BufferReader(pa.py_buffer(source)),
                pcsv.ReadOptions(use_threads=threads, block_size=BLOCK, column_names=columns, skip_rows=self.skipped),
                pcsv.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted),
                pcsv.ConvertOptions(include_columns=list(types), column_types=types, decimal_point=layout.decimal),
            )

        try:
            found = parse(threads=len(source) > BLOCK)
        except (pa.ArrowException, ValueError):
            found = parse(threads=False)  # only then does Arrow count rows
        ending = found[str(last)][-1].as_py() if quoted and len(found) else None
        broken = isinstance(ending, (str, bytes)) and len(ending.splitlines()) > 1
        if broken and not self._content[-64:].rstrip().endswith(b'"'):
            raise DataError(f"a quotation mark is left open near row {len(found)} of {self.name}: close or double it.")
        return found.select(list(map(str, places))).rename_columns(names)

    def _source(self) -> pa.BufferReader:
        return pa.BufferReader(pa.py_buffer(self._content))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turn what readers complain of into a sentence with row and column; the header is no row."""
        try:
            yield
        except UnskewError:
            raise
        except OSError as error:
            if error.errno:
                raise DataError(f"{self.name} cannot be read ({os.strerror(error.errno)}): check the path.") from None
            raise self._unreadable(_words(error)) from None
        except (EOFError, ValueError, zipfile.BadZipFile, pa.ArrowException) as error:
            raise self._unreadable(_words(error)) from None

    def _unreadable(self, words: str) -> DataError:
        at = ""
        if row := re.search(r"Row #(\d+)", words):
            at = f"row {int(row[1]) - self.skipped} of "
        elif row := re.search(r" in row (\d+)", words):  # of records, counted from 0
            at = f"row {int(row[1]) + 1} of "
        column = re.search(r"In CSV column #(\d+)", words)
        at += f"column {self.names[int(column[1])]!r} of {self.name}" if column else self.name
        if wrong := re.search(r"Expected (\d+) columns, got (\d+)", words):
            return DataError(
                f"{at} has {wrong[2]} fields where the first line has {wrong[1]}: correct the row, close its quotation "
                "marks, or quote fields that hold the delimiter."
            )
        if value := re.search(r"conversion error to \w+.*: invalid value '(.*)'?$", words):
            return DataError(
                f"{at} holds {value[1].rstrip(chr(39))[:80]!r}, which is not a number: correct or remove the row."
            )
        if "UTF8" in words or "utf-8" in words:
            return DataError(f"{at} is not UTF-8: save the file as UTF-8.")
        return DataError(f"{at} cannot be read ({words}): it may be truncated or altered, so write or fetch it again.")


def _unpacked(path: str) -> bytes | mmap:
    """Return the bytes of a file or of standard input; what they begin with says how they are packed."""
    raw = _standard_input() if path == STANDARD_INPUT else _mapped(path)
    packed = next((kind for kind, first in PACKED.items() if re.match(first, raw[:8])), None)
    if packed is None:
        return raw
    if packed != "zip":
        return bytes(pa.input_stream(pa.py_buffer(raw), compression=packed).read())
    with zipfile.ZipFile(io.BytesIO(raw)) as inside:
        held = [entry for entry in inside.namelist() if not entry.endswith("/") and "__MACOSX" not in entry]
        name = Path(path).name
        if "[Content_Types].xml" in held:
            raise DataError(f"{name} is a spreadsheet: save it as CSV.")
        if len(held) != 1:
            raise DataError(f"{name} holds {len(held)} files ({', '.join(held[:5])}): unpack it and name one.")
        return inside.read(held[0])


def _mapped(path: str) -> bytes | mmap:
    with open(path, "rb") as file:
        try:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
        except (OSError, ValueError):  # an empty file, or a pipe
            return file.read()


def files_of(path: str) -> list[str]:
    """List the file, or the files of a folder by their names; what is no part of the data is passed over.

    As Spark and others do, names that begin with . or _ are no data; nor are a README and its like. Folders "key=value"
    hold parts of the data. Of several files with different columns the one that is called after ratings is meant.
    """
    place = Path(path)
    if not path:
        raise DataError("a path is empty: give that of a file or of a folder of files.")
    try:
        if path == STANDARD_INPUT or place.is_file():
            return [path]
        entries, places = list[Path](), [place]
        for folder in places:
            found = [each for each in folder.iterdir() if each.name[0] not in "._" and not NO_DATA.match(each.name)]
            parts = [each for each in found if "=" in each.name and each.is_dir()]
            places += parts
            entries += [each for each in found if each not in parts]
    except FileNotFoundError:
        near = []
        with suppress(OSError):
            near = [entry.name for entry in place.parent.iterdir()]
        raise DataError(f"{path} does not exist{nearest(place.name, near, ': ', ': check the path.')}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path[:80]} cannot be read ({_words(error)}): check the path.") from None
    for entry in entries:
        if entry.is_dir():
            raise DataError(f"{place} holds the folder {entry.name!r}: put all files of a log into one folder.")
    if not entries:
        raise DataError(f"{place} is a folder without files: give the path of a file or of a folder of files.")
    if len(entries) > 1 and len(called := [entry for entry in entries if OF_RATINGS.match(entry.name)]) == 1:
        entries = called
    return [str(entry) for entry in sorted(entries)]


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _words(error: BaseException) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split()).rstrip(".") or type(error).__name__


def _typed(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of text as numbers or booleans if it spells them throughout; blank means missing."""
    if not is_text(column.type):
        return column
    column = as_text(column, f"column {name!r}")
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"], text.type))
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        try:
            return pc.if_else(missing, None, text).cast(kind)
        except pa.ArrowInvalid:
            continue
    return pc.if_else(pc.equal(column, ""), None, column)
