"""What published datasets share: description, loaded form, reading of files, comparison with the original."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.errors import DataError

Folder = str | PathLike[str]
Propensities = Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.float64]]

# A catalogue runs through every id up to the highest, so one stray id must not be able to fill the memory.
LARGEST_ID = 10_000_000


@dataclass(frozen=True)
class Source:
    """A published dataset that its users download themselves."""

    name: str
    title: str
    where: str  # how to get it
    terms: str
    files: tuple[str, ...]
    citation: str
    positive: float  # the usual threshold: ratings from here on count as liked

    def folder(self, folder: Folder) -> Path:
        path = Path(folder).expanduser()
        if not path.is_dir():
            problem = "is not a folder" if path.exists() else "does not exist"
            raise DataError(f"{path} {problem}: get {self.title} ({self.where}) and name the folder of its files.")
        return path

    def file(self, folder: Path, name: str) -> Path:
        path = folder / name
        if not path.is_file():
            raise DataError(f"{folder} has no file {name}, which {self.title} needs: get it ({self.where}).")
        return path


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings people chose to give, to learn from, and ratings of pairs drawn at random, to be judged by.

    `notes` say what was checked on loading and what differed from the original.
    """

    name: str
    train: RatingLog
    test: RatingLog  # same vocabularies as train
    propensities: Propensities | None = None  # published ones, by user and item codes
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(
            [self.name, f"  train {self.train!r}", f"  test  {self.test!r}"] + [f"  - {note}" for note in self.notes]
        )


class Column(NamedTuple):
    """What a column of a file may hold."""

    name: str
    low: float
    high: float = math.inf
    whole: bool = True

    def accepts(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        good = np.isfinite(values) & (values >= self.low) & (values <= self.high)
        return good & (values == np.rint(values)) if self.whole else good

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.high == math.inf:
            return f"{kind} of at least {self.low:g}"
        return f"{kind} from {self.low:g} to {self.high:,.10g}"


class Triples(NamedTuple):
    """The rows of a file: ids as the file has them (or moved by a constant) and raw ratings."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]

    def rate(self, threshold: float) -> float:
        return float((self.ratings >= threshold).mean())

    @property
    def per_user(self) -> NDArray[np.int64]:
        """How many ratings each user has, of those that have any."""
        return np.unique(self.users, return_counts=True)[1]

    @property
    def pairs(self) -> NDArray[np.int64]:
        """The distinct pairs, as one number each."""
        return np.unique(self.users * (2 * LARGEST_ID) + self.items)

    @property
    def repeats(self) -> int:
        return len(self.ratings) - len(self.pairs)


class Figure(NamedTuple):
    """A figure of the files beside that of the original; `digits` is None for exact counts."""

    what: str
    found: float
    original: float
    digits: int | None = None

    @property
    def differs(self) -> bool:
        slack = 0 if self.digits is None else 0.5 * 10**-self.digits + 1e-9
        return abs(self.found - self.original) > slack

    def __str__(self) -> str:
        form = ",.0f" if self.digits is None else f".{self.digits}f"
        return f"{self.what}: {self.found:{form}}, in the original {self.original:{form}}"


def confirm(source: Source, folder: Path, figures: Sequence[Figure], expect_original: bool) -> list[str]:
    """Notes on how the figures compare with the original; a DataError if they differ and must not."""
    differences = [str(figure) for figure in figures if figure.differs]
    if differences and expect_original:
        raise DataError(
            f"{folder} does not hold the original {source.title} ({'; '.join(differences)}): check the "
            "download, or pass expect_original=False to load it with these differences in its notes."
        )
    return differences or [f"all {len(figures)} figures checked are those of the original"]


def star_rates(
    train: Triples, test: Triples, at_least_3: tuple[float, float], above_3: tuple[float, float]
) -> Iterator[Figure]:
    """Shares of liked pairs by the two readings of "liked" in use, each for train and test."""
    for words, threshold, originals in (("at least 3", 3, at_least_3), ("above 3", 4, above_3)):
        for part, rows, original in zip(("train", "test"), (train, test), originals, strict=True):
            yield Figure(f"share of {part} ratings {words}", rows.rate(threshold), original, digits=3)


def overlap(train: Triples, test: Triples) -> int:
    return len(np.intersect1d(train.pairs, test.pairs, assume_unique=True))


def checksum_note(path: Path, original: str) -> str:
    with path.open("rb") as file:
        same = hashlib.file_digest(file, "sha256").hexdigest() == original
    return f"{path.name}: sha256 {'matches' if same else 'differs from'} the original"


def catalogue(first_id: int, *columns: NDArray[np.int64]) -> Vocabulary:
    """Every id from the first possible to the highest found, so that code = id - first_id."""
    return Vocabulary(np.arange(first_id, max(int(ids.max()) for ids in columns) + 1))


def rating_logs(files: Sequence[Path], parts: Sequence[Triples], **settings: Any) -> tuple[RatingLog, RatingLog]:
    """The logs of train and test; of a pair listed twice the last row counts (loaders report how many)."""
    train, test = (_rating_log(file, rows, settings) for file, rows in zip(files, parts, strict=True))
    return train, test


def _rating_log(file: Path, rows: Triples, settings: dict[str, Any]) -> RatingLog:
    try:
        return RatingLog.from_arrays(*rows, duplicates="last", **settings)
    except DataError as problem:
        raise DataError(f"{file} makes no rating log: {problem}") from None


def read_triples(path: Path, delimiter: str, rating: Column, *, first_id: int) -> Triples:
    ids = (Column("user", first_id, LARGEST_ID), Column("item", first_id, LARGEST_ID))
    users, items, ratings = read_columns(path, delimiter, (*ids, rating))
    return Triples(users.astype(np.int64), items.astype(np.int64), ratings)


def read_grid(path: Path, cell: Column) -> NDArray[np.float64]:
    """A matrix of numbers separated by single spaces, as wide as its first line."""
    _, first = next(_lines(path, " "), (0, [""]))
    return np.column_stack(read_columns(path, " ", [cell] * len(first)))


def read_columns(path: Path, delimiter: str, columns: Sequence[Column]) -> list[NDArray[np.float64]]:
    """The columns of a file of numbers without header; a DataError names the first cell of no use."""
    names = [str(place) for place in range(len(columns))]
    try:
        table = pacsv.read_csv(
            path,
            read_options=pacsv.ReadOptions(column_names=names),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[]),
        )
    except pa.ArrowInvalid as problem:
        _refuse_malformed(path, delimiter, columns, problem)
    if not len(table):
        raise DataError(f"{path} is empty: get the file again.")
    values = [column.to_numpy() for column in table.columns]
    strays = [
        (int(good.argmin()), place) for place, good in enumerate(map(Column.accepts, columns, values)) if not good.all()
    ]
    if strays:
        row, place = min(strays)
        line, cells = next(found for at, found in enumerate(_lines(path, delimiter)) if at == row)
        raise _bad_cell(path, line, place, cells[place], columns[place])
    return values


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not empty."""
    with path.open(encoding="utf-8-sig", errors="backslashreplace") as lines:
        for number, line in enumerate(lines, start=1):
            if text := line.rstrip("\n"):
                yield number, text.split(delimiter)


def _refuse_malformed(path: Path, delimiter: str, columns: Sequence[Column], problem: pa.ArrowInvalid) -> NoReturn:
    """Say where a file that could not be parsed goes wrong, by walking it: the fast parser does not tell."""
    line = 0
    for line, cells in _lines(path, delimiter):
        if len(cells) != len(columns):
            raise DataError(
                f"{path} line {line} has {len(cells)} columns separated by {delimiter!r} instead of "
                f"{len(columns)}: correct that line or get the file again."
            )
        for place, (text, column) in enumerate(zip(cells, columns, strict=True)):
            if not _is_number(text):
                raise _bad_cell(path, line, place, text, column)
    if not line:
        raise DataError(f"{path} is empty: get the file again.")
    raise DataError(f"{path} cannot be read as numbers separated by {delimiter!r}: {problem}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _bad_cell(path: Path, line: int, place: int, text: str, column: Column) -> DataError:
    return DataError(
        f"{path} line {line} column {place + 1} holds the {column.name} {short(text)}, which is not "
        f"{column}: correct that line or get the file again."
    )
