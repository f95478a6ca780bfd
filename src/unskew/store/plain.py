"""Dataclasses as plain data (dicts, lists, numbers, texts), and back with every value checked."""

import math
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from reprlib import repr as shortened
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ParameterError, nearest
from unskew.gone import without_gone

WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "'none'"}
MOST_NAMED = 12  # kinds that a sentence lists
NOT_FINITE = ("inf", "-inf", "nan")
NOT_DATA = "LostFunction"  # the kind that stands where a function stood
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class LostFunction:
    """Stands where a recipe held a function, which is not data and so is in no file."""

    name: str

    def __call__(self, *_: Any) -> Any:
        raise ParameterError(
            f"This recipe was read from a file, and its function {self.name!r} is not in there; "
            "make the recipe again with the function."
        )


class Plain:
    """Writes objects of a closed table of `kinds` as {"kind": name, setting: value} and reads them again.

    Nothing is imported or called by a name that stands in the data: a kind is looked up in the table, and
    `records` are dataclasses that only ever stand where an annotation names them, so they need no kind.
    `arrays` is where long arrays go, for a file that keeps them elsewhere: {"array": name} then stands for
    one, {"float": "inf"} for a number that JSON cannot write, and a `LostFunction` for a function. Without
    it arrays become lists, and functions are refused. `more` returns further kinds, for a name or a class that is none
    of these.
    """

    def __init__(
        self,
        kinds: Mapping[str, type],
        records: Collection[type] = (),
        arrays: Arrays | None = None,
        more: Callable[[], Mapping[str, type]] = dict,
    ) -> None:
        self.kinds = dict(kinds) if arrays is None else {**kinds, NOT_DATA: LostFunction}
        self.records, self.arrays, self._more = tuple(records), arrays, more

    def write(self, value: Any, where: str = "The recipe") -> Any:
        """Return the value as plain data; `where` is how an error calls it."""
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if self.arrays is None or math.isfinite(value) else {"float": str(value)}
        lost_again = isinstance(value, LostFunction) and self.arrays is None
        if is_dataclass(value) and not isinstance(value, type) and not lost_again:
            return self._settings(value)
        if isinstance(value, Mapping):
            return {str(key): self.write(held, f"{key!r} in {where}") for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.write(held, where) for held in value]
        if hasattr(value, "__array__"):
            array = np.asarray(value)
            if self.arrays is None or array.dtype.kind not in "biuf":
                return self.write(array.tolist(), where)
            name = f".recipe/{len(self.arrays)}"
            self.arrays[name] = array
            return {"array": name}
        if self.arrays is not None and callable(value):
            return {"kind": NOT_DATA, "name": str(getattr(value, "__name__", type(value).__name__))}
        raise ParameterError(f"{where} is {shortened(value)}, which is not data and cannot be written down.")

    def _settings(self, value: Any) -> dict[str, Any]:
        cls, name = type(value), type(value).__name__
        kind = {}
        if cls not in self.records:
            if cls not in self.kinds.values():
                self.kinds |= self._more()
            called = next((known for known, kind in self.kinds.items() if kind is cls), None)
            if called is None:
                raise ParameterError(
                    f"{name} is not a registered kind of recipe; register the class with unskew.register."
                )
            kind = {"kind": called}
        named = ((setting.name, getattr(value, setting.name)) for setting in fields(value) if setting.init)
        return kind | {setting: self.write(held, f"{setting} of {name}") for setting, held in named}

    def read(self, expected: Any, data: Any, where: str = "The recipe") -> Any:
        """Return what `data` stands for, which must be as the annotation `expected` says."""
        union = get_origin(expected) in (Union, types.UnionType)
        options, wanted, anything = get_args(expected) if union else (expected,), [], False
        if get_origin(expected) not in (dict, Mapping):  # whose own keys are never marks
            data = self._unmarked(data, where)
        if type(None) in options and isinstance(data, str) and data == "none":  # how TOML says None
            return None
        if isinstance(data, dict) and isinstance(data.get("kind"), str) and data["kind"] not in self.kinds:
            self.kinds |= self._more()
        for option in options:
            origin, inner = get_origin(option), get_args(option)
            table = isinstance(data, dict)
            if option in WANTED or origin is Literal:
                if _is_scalar(option, data):
                    return data
                wanted.append(WANTED.get(option) or f"one of {', '.join(map(repr, inner))}")
            elif origin in (tuple, list):
                if isinstance(data, (list, tuple)):
                    return self._sequence(origin, inner, data, where)
                wanted.append("a list")
            elif table and origin in (dict, Mapping):
                return {key: self.read(inner[1], held, f"{key!r} in {where}") for key, held in data.items()}
            elif table and option in self.records:
                return self._build(option, data)
            elif origin in (dict, Mapping) or option in self.records:
                wanted.append("a table")
            elif choices := self._choices(option):
                if table:
                    return self._kind(choices, data, where)
                wanted.append(f"a table of the kind {' or '.join(choices)}")
            else:
                anything = True
        if not anything:
            raise ParameterError(f"{where} must be {' or '.join(wanted)}, not {shortened(data)}.")
        return self._anything(data, where)

    def _unmarked(self, data: Any, where: str) -> Any:
        """Return the array or number that stands for a mark."""
        if self.arrays is None or not isinstance(data, dict) or len(data) != 1:
            return data
        ((mark, value),) = data.items()
        if mark == "float" and value in NOT_FINITE:
            return float(value)
        if mark != "array" or not isinstance(value, str):
            return data
        if value not in self.arrays:
            raise ParameterError(f"{where} is the array {value!r}, which is missing.")
        return self.arrays[value]

    def _anything(self, data: Any, where: str) -> Any:
        if isinstance(data, dict):
            return self._kind(self.kinds, data, where)
        return tuple(self._anything(held, where) for held in data) if isinstance(data, (list, tuple)) else data

    def _sequence(self, origin: Any, inner: tuple[Any, ...], data: Collection[Any], where: str) -> Any:
        wanted = inner[:1] * len(data) if origin is list or inner[1:] == (...,) else inner
        if len(wanted) != len(data):
            raise ParameterError(f"{where} must have {len(wanted)} values, not {len(data)}.")
        return origin(self.read(of, held, where) for of, held in zip(wanted, data, strict=True))

    def _kind(self, choices: Mapping[str, type], data: dict[str, Any], where: str) -> Any:
        settings = dict(data)
        kind = settings.pop("kind", None)
        if not isinstance(kind, str):
            raise ParameterError(f"{where} has no kind; choose from {', '.join(choices)}.")
        named = [name for name in choices if kind in (name, name.rpartition(":")[2])]
        if named:
            return self._build(choices[named[0]], settings)
        package = kind.rpartition(":")[0]
        if package:
            raise ParameterError(f"{where} is a {kind} of the package {package!r}, which is not installed or broken.")
        if kind in self.kinds:
            raise ParameterError(f"{where} cannot be of the kind {kind!r}; choose from {', '.join(choices)}.")
        known = f"; choose from {', '.join(choices)}." if len(choices) <= MOST_NAMED else "."
        raise ParameterError(f"{where} has the unknown kind {kind!r}{nearest(kind, choices, otherwise=known)}")

    def _build(self, cls: Any, settings: dict[str, Any]) -> Any:
        known = {setting.name: setting for setting in fields(cls) if setting.init}
        settings = without_gone(cls.__name__, settings)
        for name in settings:
            if name not in known:
                meant = nearest(name, known, otherwise=f": it has {', '.join(known)}.")
                raise ParameterError(f"{cls.__name__} has no setting {name!r}{meant}")
        for name, setting in known.items():
            if name not in settings and setting.default is MISSING and setting.default_factory is MISSING:
                raise ParameterError(f"{cls.__name__} needs the setting {name!r}, which is missing.")
        hints, of = _annotations(cls), cls.__name__
        return cls(**{name: self.read(hints[name], held, f"{name} of {of}") for name, held in settings.items()})

    def _choices(self, expected: Any) -> dict[str, type]:
        """Return the kinds that may stand where `expected` is annotated; none for what is not a class of ours."""
        if expected is Any or not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
            return {}
        return {name: kind for name, kind in self.kinds.items() if issubclass(kind, expected)}


def _is_scalar(option: Any, data: Any) -> bool:
    if get_origin(option) is Literal:
        return any(type(data) is type(choice) and data == choice for choice in get_args(option))
    if option is float:
        return isinstance(data, (int, float)) and not isinstance(data, bool)
    return type(data) is option


@cache
def _annotations(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the same arrays, called prefix/name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays called prefix/name, by name: the reverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
