"""A file of records: one line of JSON for every finished job, written when the job ends and never changed."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import unskew
from unskew.errors import DataError, ParameterError
from unskew.store.atomic import reason

Values = dict[str, Any]  # what was found: numbers, texts and further such mappings

RECORD_START = '{"key": '
COMPUTING = ("numpy", "scipy", "numba")  # what a figure may depend on beside ourselves


@dataclass(frozen=True)
class Record:
    """A line of the file: the name of the job, all that its outcome depends on, and the outcome."""

    key: str
    recipe: Any
    versions: dict[str, str]
    values: Values

    @property
    def identity(self) -> str:
        return json.dumps([self.key, self.recipe, self.versions], sort_keys=True)


class Records:
    """What is known from a file, and to be added to it; without a file it is known for this run only.

    A record is reused for the same job, recipe and versions only. Code that changed under one version is not noticed,
    so delete the file then.
    """

    def __init__(self, file: Path | None) -> None:
        self.file, self.notes = file, list[str]()
        self.known = [] if file is None else self._read(file)
        self._values = {record.identity: record.values for record in self.known}
        self._keys = {record.key for record in self.known}

    def __len__(self) -> int:
        return len(self.known)

    def values(self, key: str, recipe: Any) -> Values | None:
        """What this job has found before; None if it has not been run."""
        return self._values.get(Record(key, recipe, versions(), {}).identity)

    def stale(self, key: str) -> bool:
        """Whether a job of this name was recorded when the file was opened."""
        return key in self._keys

    def add(self, key: str, recipe: Any, values: Values) -> None:
        """Keep what a job has found, on the disk before this returns."""
        record = Record(key, recipe, versions(), values)
        self._values[record.identity] = values
        self.known.append(record)
        if self.file is None:
            return
        line = (json.dumps(asdict(record), allow_nan=False) + "\n").encode()
        try:
            _append(self.file, line)
        except OSError as error:
            raise ParameterError(
                f"The records file {self.file} cannot be added to: {reason(error)}; all it held is still there: make "
                "room and run the same command again."
            ) from error

    def _read(self, file: Path) -> list[Record]:
        """All records of the file; the rest of a line that a crash cut short is removed and noted."""
        try:
            file.open("ab").close()  # so that a place that cannot be written is found before the work
        except OSError as error:
            raise _unusable(file, error) from error
        records, rest = read_records(file)
        if rest:
            os.truncate(file, file.stat().st_size - rest)
            self.notes.append(f"The last line of {file} was cut short; its job is run anew.")
        return records


def read_records(file: Path) -> tuple[list[Record], int]:
    """All records of a file, which is left as it is, and how many bytes a crash left of a line that it cut short."""
    try:
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise _unusable(file, error) from error
    records = [_parsed(file, number, line) for number, line in enumerate(lines, 1)]
    start = RECORD_START.encode()
    if rest and not (rest.startswith(start) or start.startswith(rest)):
        raise _not_a_record(file, len(lines) + 1)
    return records, len(rest)


def refuse_another_log(records: Records, log: Any, mark: str) -> None:
    """Refuse to go on from records of a log that has changed since; `mark` is its fingerprint now."""
    for record in records.known:
        of = record.recipe.get("log", mark) if isinstance(record.recipe, dict) else mark
        if of != mark:
            raise another_log(records.file, of, log, mark)


def another_log(file: Path | None, of: str, log: Any, mark: str) -> DataError:
    """Return the sentence about records of a log that has changed since."""
    return DataError(
        f"{file} holds records of another log, of fingerprint {of}, while this one ({log!r}) has {mark}: the ratings "
        "or how they are read have changed. Choose another place, or delete that file."
    )


def _append(file: Path, line: bytes) -> None:
    """Add a line that has reached the disk, or leave the file as it was."""
    size = file.stat().st_size
    try:
        with file.open("ab") as out:
            out.write(line)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        os.truncate(file, size)
        raise


def versions() -> dict[str, str]:
    """Of all that a figure may depend on."""
    return {"unskew": unskew.__version__, **_others()}


@cache
def _others() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in COMPUTING}}


def _parsed(file: Path, number: int, line: bytes) -> Record:
    try:
        record = Record(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise _not_a_record(file, number) from None
    if not isinstance(record.key, str) or not isinstance(record.values, dict):
        raise _not_a_record(file, number)
    return record


def _unusable(file: Path, error: OSError) -> ParameterError:
    return ParameterError(f"The records file {file} cannot be used: {reason(error)}; choose another.")


def _not_a_record(file: Path, line: int) -> DataError:
    return DataError(f"Line {line} of {file} is not a record; remove the line or choose another file.")
