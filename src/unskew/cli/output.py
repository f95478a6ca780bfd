"""What commands write: tables on the terminal, and files that appear whole or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unskew.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_WIDTH_OF_FILES = 120


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """A table as wide as the terminal; the columns named in `numbers` are set flush right and never broken."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    cells = [tuple(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        words = [word for row in cells for word in row[place].split()]
        longest = max(map(len, words), default=0) if place == 0 else None  # what a row is about is never cut
        alignment: dict[str, Any] = {"justify": "right" if name in numbers else "left", "no_wrap": name in numbers}
        table.add_column(name, overflow="fold", min_width=longest, **alignment)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False)
    least = Measurement.get(console, console.options.update(max_width=10_000), table).minimum
    spaces = len(columns)  # which rich does not count
    console.width = max(console.width, least + spaces)  # a terminal may break lines, but nothing is lost
    console.print(table)


def check_table_path(path: Path | None) -> None:
    """Refuse a path that `write_table` could not write to, before any work is done for it."""
    check_file_path(path, (*_DELIMITERS, *_PARQUET))


def check_file_path(path: Path | None, endings: Sequence[str]) -> None:
    """Refuse a path that has none of these endings, or that could not be written to."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ParameterError(f"{path} ends in none of {', '.join(endings)}: choose a name that does.")
    if path.is_dir():
        raise ParameterError(f"{path} is a folder: give the path of a file.")
    if not path.absolute().parent.is_dir():
        raise ParameterError(f"{path} cannot be written: the folder {path.parent} does not exist.")


def write_table(path: Path, table: pa.Table) -> None:
    """The table in the format that the ending of the path tells."""
    import pyarrow as pa
    import pyarrow.csv as pcsv
    import pyarrow.parquet as pq

    check_table_path(path)
    stream = pa.BufferOutputStream()
    if path.suffix.lower() in _PARQUET:
        pq.write_table(table, stream)
    else:
        pcsv.write_csv(table, stream, pcsv.WriteOptions(delimiter=_DELIMITERS[path.suffix.lower()]))
    write_file(path, stream.getvalue().to_pybytes())


def write_file(path: Path, data: bytes) -> None:
    from unskew.store import atomic

    atomic.write_file(path, data)
