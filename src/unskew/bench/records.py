"""A file of records: one line of JSON for every finished job, written when the job ends and never changed."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import unskew
from unskew.errors import DataError, ParameterError
from unskew.store.atomic import reason

Values = dict[str, Any]  # what was found: numbers, texts and further such mappings

RECORD_START = b'{"key": '
PARTS = {"key": str, "recipe": object, "versions": dict, "values": dict}  # of a record
COMPUTING = ("numpy", "scipy", "numba")  # what a figure may depend on besides ourselves


class Records:
    """What is known from a file, and to be added to it; without a file it is known for this run only.

    A record is reused for the same job, recipe and versions only. Code that changed under one version is not noticed,
    so delete the file then.
    """

    def __init__(self, file: Path | None) -> None:
        self.file, self.notes = file, list[str]()
        known = [] if file is None else self._read(file)
        self._values = {_identity(**record): record["values"] for record in known}
        self.keys = {record["key"] for record in known}  # when the file was opened
        self._logs = {record["recipe"].get("log") for record in known if isinstance(record["recipe"], dict)}

    def values(self, key: str, recipe: Any) -> Values | None:
        """Return what this job has found before; None if it has not been run."""
        return self._values.get(_identity(key, recipe, versions()))

    def add(self, key: str, recipe: Any, values: Values) -> None:
        """Keep what a job has found, on the disk before this returns."""
        self._values[_identity(key, recipe, versions())] = values
        if self.file is None:
            return
        record = {"key": key, "recipe": recipe, "versions": versions(), "values": values}
        size = self.file.stat().st_size
        try:
            with self.file.open("ab") as out:
                out.write((json.dumps(record, allow_nan=False) + "\n").encode())
                out.flush()
                os.fsync(out.fileno())
        except BaseException as error:
            os.truncate(self.file, size)
            if not isinstance(error, OSError):
                raise
            raise ParameterError(
                f"The records file {self.file} cannot be added to: {reason(error)}; all it held is still there: make "
                "room and run the same command again."
            ) from error

    def refuse_another(self, log: Any, mark: str) -> None:
        """Refuse to go on from records of a log that has changed since; `mark` is its fingerprint now."""
        for of in self._logs - {mark, None}:
            raise another_log(self.file, str(of), log, mark)

    def _read(self, file: Path) -> list[dict[str, Any]]:
        """Read all records; the rest of a line that a crash cut short is removed and noted."""
        try:
            file.open("ab").close()  # so that a place that cannot be written is found before the work
            *lines, rest = file.read_bytes().split(b"\n")
        except OSError as error:
            raise ParameterError(f"The records file {file} cannot be used: {reason(error)}; choose another.") from error
        found = [_parsed(file, number, line) for number, line in enumerate(lines, 1)]
        if rest and not (rest.startswith(RECORD_START) or RECORD_START.startswith(rest)):
            _parsed(file, len(lines) + 1, b"")
        if rest:
            os.truncate(file, file.stat().st_size - len(rest))
            self.notes.append(f"The last line of {file} was cut short; its job is run anew.")
        return found


def _parsed(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    whole = isinstance(record, dict) and record.keys() == PARTS.keys()
    if whole and all(isinstance(record[name], kind) for name, kind in PARTS.items()):
        return dict(record)
    raise DataError(f"Line {number} of {file} is not a record; remove the line or choose another file.")


def _identity(key: str, recipe: Any, versions: dict[str, str], values: Any = None) -> str:
    return json.dumps([key, recipe, versions], sort_keys=True)


def another_log(file: Path | None, of: str, log: Any, mark: str) -> DataError:
    """Return the sentence about records of a log that has changed since."""
    return DataError(
        f"{file} holds records of another log, of fingerprint {of}, while this one ({log!r}) has {mark}: the ratings "
        "or how they are read have changed. Choose another place, or delete that file."
    )


def versions() -> dict[str, str]:
    """Return those of all that a figure may depend on."""
    return {"unskew": unskew.__version__, "python": platform.python_version(), **{n: version(n) for n in COMPUTING}}
