"""What a training run is made of, as digests: two runs with the same ones end with the same bits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from unskew._version import __version__
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.training.options import OF_THE_RUN, Training

_DIGESTS: WeakKeyDictionary[RatingLog, str] = WeakKeyDictionary()
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)


def identity(
    plan: Any, split: Split, seed: int, training: Training, unbiased: RatingLog | None, members: Any
) -> dict[str, str]:
    """Version, log, method, seed and options of a run, each in a word that differs if it does."""
    options = {of.name: repr(getattr(training, of.name)) for of in fields(training) if of.name not in OF_THE_RUN}
    rows = {"hold-out": digest((split.train_rows, split.holdout_rows))}
    logs = [_of_log(log) for log in (split.log, unbiased) if log is not None]
    made_of = {"log": digest(logs), "method": digest((plan, members))}
    return {"version": __version__, "seed": str(seed)} | options | made_of | rows


def digest(value: Any) -> str:
    """The SHA-256 of all that a value holds: settings, arrays, and of functions their code and what they enclose."""
    sha = hashlib.sha256()
    for part in _parts(value, set()):
        sha.update(len(part).to_bytes(8, "little"))
        sha.update(part)
    return sha.hexdigest()


def _of_log(log: RatingLog) -> str:
    """Found once: runs inside a run are of the same log."""
    if log not in _DIGESTS:
        _DIGESTS[log] = digest(log)
    return _DIGESTS[log]


def _parts(value: Any, met: set[int]) -> Iterator[Any]:
    """Bytes, and arrays of bytes."""
    if isinstance(value, PLAIN):
        yield repr(value).encode()
        return
    if id(value) in met:
        yield b"again"
        return
    met.add(id(value))
    yield type(value).__qualname__.encode()
    if hasattr(value, "__array__") and not is_dataclass(value):
        array = np.ascontiguousarray(value)
        yield f"{array.dtype} {array.shape}".encode()
        # A column that is mapped from a file is read in place, as it may not fit into memory.
        yield array.reshape(-1).view(np.uint8) if array.dtype != object else repr(array.tolist()).encode()
        return
    for held in _held(value):
        yield from _parts(held, met)


def _held(value: Any) -> list[Any]:
    if isinstance(value, RatingLog):
        features = (None if side is None else (side.values, side.encoding) for side in value.features)
        return [value.users, value.items, value.ratings, value.n_users, value.n_items, *features]
    if isinstance(value, FunctionType):
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__qualname__, value.__code__.co_code, *(value.__defaults__ or ()), *enclosed]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, type):
        return [value.__qualname__]
    if is_dataclass(value):
        return [part for of in fields(value) for part in (of.name, getattr(value, of.name))]
    return [part for item in sorted(getattr(value, "__dict__", {}).items()) for part in item]
