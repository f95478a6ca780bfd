"""What took long to fit, kept by key: in this process and, for a model that was loaded, in its folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from unskew._version import __version__
from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.runtime import say
from unskew.store.atomic import write_file
from unskew.store.model import JUDGE

Arrays = dict[str, NDArray[Any]]
MOST, MOST_IN_FOLDER = 8, 5  # in a folder besides the newest
_KNOWN: dict[str, Arrays] = {}


def fingerprint(log: RatingLog) -> str:
    """Return a name of the log's ratings, whatever their ids are called and whatever else is known of these."""
    found = hashlib.blake2b(f"{log.n_users} {log.n_items} {log.scale!r}".encode(), digest_size=8)
    for column in (log.users, log.items, log.ratings, log.stars):
        found.update(b"" if column is None else np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def kept(facts: tuple[Any, ...], make: Callable[[], Arrays], folder: Path | None = None) -> Arrays:
    """Return what `make` makes, or what it made of equal facts before: here, or in the folder of a model."""
    key = hashlib.sha256(repr((__version__, *facts)).encode()).hexdigest()
    if key not in _KNOWN:
        known = {} if folder is None else _read(folder / JUDGE)
        found = known.pop(key, None)
        if found is None:
            found = make()
            if folder is not None:
                _write(folder / JUDGE, {key: found} | dict(list(known.items())[:MOST_IN_FOLDER]))
        while len(_KNOWN) >= MOST:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = found
    return _KNOWN[key]


def _read(file: Path) -> dict[str, Arrays]:
    """Return what a file holds by key: a digest, then safetensors; one that is damaged is as none."""
    if not file.is_file():
        return {}
    try:
        digest, held = (raw := file.read_bytes())[:32], raw[32:]
        arrays = load(held) if hashlib.sha256(held).digest() == digest else None
    except (OSError, SafetensorError):
        arrays = None
    if arrays is None:
        say(f"{file} is damaged: what the judge had fitted is fitted anew.")
        return {}
    found: dict[str, Arrays] = {}
    for name, array in arrays.items():
        key, _, of = name.partition("/")
        found.setdefault(key, {})[of] = array
    return found


def _write(file: Path, known: dict[str, Arrays]) -> None:
    held = save({f"{key}/{of}": np.ascontiguousarray(a) for key, arrays in known.items() for of, a in arrays.items()})
    try:
        write_file(file, hashlib.sha256(held).digest() + held)
    except ParameterError as error:
        say(f"What the judge has fitted cannot be kept: {error}")
