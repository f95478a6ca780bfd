"""What commands answer and write: text or JSON, and files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
TABLES = (*DELIMITERS, *PARQUET)
FORMULAS = r"^[=+\-@\t\r]"  # how a cell begins that a spreadsheet computes


class Answer(NamedTuple):
    """What a command found: text for people, facts for --json (each may be a function that makes it), an exit code."""

    text: str | Callable[[], str]
    facts: Any
    code: int = 0


def check_place(path: Path | None, *endings: str) -> None:
    """Refuse a path that could not become a file with one of these endings or, without any, a folder."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise ParameterError(f"{path} ends in none of {', '.join(endings)}: choose a name that does.")
    if path.exists() and path.is_dir() == bool(endings):
        found, wanted = ("folder", "file") if endings else ("file", "folder")
        raise ParameterError(f"{path} is a {found}: give the path of a {wanted}.")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise ParameterError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not os.access(parent, os.W_OK):
        raise ParameterError(f"{path} cannot be written: the folder {path.parent} may not be written to.")


def write_table(path: Path, table: pa.Table, spreadsheet: bool = False) -> None:
    """Write a table in the format that the ending of the path names."""
    import pyarrow as pa

    from unskew.store.atomic import write_file

    stream, ending = pa.BufferOutputStream(), path.suffix.lower()
    if ending in PARQUET:
        import pyarrow.parquet as pq

        pq.write_table(table, stream)
    else:
        import pyarrow.csv as pcsv

        pcsv.write_csv(_for_people(table, path, spreadsheet), stream, pcsv.WriteOptions(delimiter=DELIMITERS[ending]))
    write_file(path, stream.getvalue().to_pybytes())


def _for_people(table: pa.Table, path: Path, spreadsheet: bool) -> pa.Table:
    """Return the table with an apostrophe before what a spreadsheet would compute, or note that there is such text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
            formulas = pc.match_substring_regex(table[name], FORMULAS)
            number = pc.sum(formulas).as_py() or 0
            if number and spreadsheet:
                quoted = pc.binary_join_element_wise("'", pc.cast(table[name], pa.string()), "")
                table = table.set_column(place, name, pc.if_else(formulas, quoted, table[name]))
            elif number:
                say(f"note: {number:,} cells of {name!r} in {path} begin like formulas; --spreadsheet quotes them")
    return table
