"""Dataclasses as plain data (dicts, lists, numbers, texts), and back with every value checked."""

from __future__ import annotations

import math
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from reprlib import repr as shortened
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ParameterError, nearest
from unskew.gone import without_gone

WANTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "'none'",
}
NOT_FINITE = ("inf", "-inf", "nan")
Shape = Literal["scalar", "sequence", "mapping", "record", "kind", "anything"]
NOT_DATA = "LostFunction"  # the kind that stands where a function stood


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
    it arrays become lists, and functions are refused.
    """

    def __init__(
        self,
        kinds: Mapping[str, type],
        records: Collection[type] = (),
        arrays: dict[str, NDArray[Any]] | None = None,
    ) -> None:
        self.kinds = dict(kinds) if arrays is None else {**kinds, NOT_DATA: LostFunction}
        self.records, self.arrays = tuple(records), arrays

    def write(self, value: Any, where: str = "The recipe") -> Any:
        """The value as plain data; `where` is how an error calls it."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (float, np.generic)):
            return self._number(value, where)
        lost_again = isinstance(value, LostFunction) and self.arrays is None
        if is_dataclass(value) and not isinstance(value, type) and not lost_again:
            return self._settings(value)
        if isinstance(value, Mapping):
            return {str(key): self.write(held, f"{key!r} in {where}") for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.write(held, where) for held in value]
        if hasattr(value, "__array__"):
            return self._array(np.asarray(value))
        if self.arrays is not None and callable(value):
            return {"kind": NOT_DATA, "name": str(getattr(value, "__name__", type(value).__name__))}
        raise ParameterError(f"{where} is {shortened(value)}, which is not data and cannot be written down.")

    def _number(self, value: Any, where: str) -> Any:
        for numpy_type, python_type in ((np.bool_, bool), (np.integer, int)):
            if isinstance(value, numpy_type):
                return python_type(value)
        if not isinstance(value, (float, np.floating)):
            raise ParameterError(f"{where} is {value!r}, which is no number that can be written down.")
        number = float(value)
        return number if self.arrays is None or math.isfinite(number) else {"float": str(number)}

    def _settings(self, value: Any) -> dict[str, Any]:
        cls = type(value)
        name = cls.__name__
        if cls not in self.records and self.kinds.get(name) is not cls:
            raise ParameterError(f"{name} is not a registered kind of recipe; register the class with unskew.register.")
        kind = {} if cls in self.records else {"kind": name}
        named = ((setting.name, getattr(value, setting.name)) for setting in fields(value) if setting.init)
        return kind | {setting: self.write(held, f"{setting} of {name}") for setting, held in named}

    def _array(self, array: NDArray[Any]) -> Any:
        if self.arrays is None or array.dtype.kind not in "biuf":
            return self.write(array.tolist())
        name = f".recipe/{len(self.arrays)}"
        self.arrays[name] = array
        return {"array": name}

    def read(self, expected: Any, data: Any, where: str = "The recipe") -> Any:
        """What `data` stands for, which must be as the annotation `expected` says."""
        data = self._unmarked(expected, data, where)
        options = {option: self._shape(option) for option in _options(expected)}
        for option, shape in options.items():
            if _fits(shape, option, data):
                return self._read_as(shape, option, data, where)
        if type(None) in options and isinstance(data, str) and data == "none":  # how TOML says None
            return None
        if "anything" in options.values():
            return self._read_anything(data, where)
        wanted = " or ".join(self._wanted(option) for option in options)
        raise ParameterError(f"{where} must be {wanted}, not {shortened(data)}.")

    def _unmarked(self, expected: Any, data: Any, where: str) -> Any:
        """The array or number that stands for a mark; a mapping's own keys are never marks."""
        if self.arrays is None or not isinstance(data, dict) or len(data) != 1 or self._shape(expected) == "mapping":
            return data
        ((mark, value),) = data.items()
        if mark == "float" and value in NOT_FINITE:
            return float(value)
        if mark != "array" or not isinstance(value, str):
            return data
        if value not in self.arrays:
            raise ParameterError(f"{where} is the array {value!r}, which is missing.")
        return self.arrays[value]

    def _shape(self, option: Any) -> Shape:
        """By which rule an annotation is read; without one, all plain data is admitted."""
        origin = get_origin(option)
        if option in WANTED or origin is Literal:
            return "scalar"
        if origin in (tuple, list):
            return "sequence"
        if origin in (dict, Mapping):
            return "mapping"
        if option in self.records:
            return "record"
        return "kind" if self._choices(option) else "anything"

    def _read_as(self, shape: Shape, option: Any, data: Any, where: str) -> Any:
        inner = get_args(option)
        match shape:
            case "sequence" if get_origin(option) is list:
                return [self.read(inner[0], held, where) for held in data]
            case "sequence":
                return self._read_tuple(inner, data, where)
            case "mapping":
                return {key: self.read(inner[1], held, f"{key!r} in {where}") for key, held in data.items()}
            case "record":
                return self._build(option, data)
            case "kind":
                return self._read_kind(option, data, where)
        return data

    def _read_anything(self, data: Any, where: str) -> Any:
        if isinstance(data, dict):
            return self._read_kind(object, data, where)
        if isinstance(data, (list, tuple)):
            return tuple(self._read_anything(held, where) for held in data)
        return data

    def _read_tuple(self, inner: tuple[Any, ...], data: Collection[Any], where: str) -> tuple[Any, ...]:
        wanted = inner[:1] * len(data) if inner[1:] == (...,) else inner
        if len(wanted) != len(data):
            raise ParameterError(f"{where} must have {len(wanted)} values, not {len(data)}.")
        return tuple(self.read(of, held, where) for of, held in zip(wanted, data, strict=True))

    def _read_kind(self, expected: Any, data: dict[str, Any], where: str) -> Any:
        settings = dict(data)
        kind = settings.pop("kind", None)
        choices = self._choices(expected)
        if not isinstance(kind, str):
            raise ParameterError(f"{where} has no kind; choose from {', '.join(choices)}.")
        if kind not in choices:
            what = "cannot be of the kind" if kind in self.kinds else "has the unknown kind"
            meant = nearest(kind, choices) if kind not in self.kinds else f"; choose from {', '.join(choices)}."
            raise ParameterError(f"{where} {what} {kind!r}{meant}")
        return self._build(choices[kind], settings)

    def _build(self, cls: Any, settings: dict[str, Any]) -> Any:
        known = {setting.name: setting for setting in fields(cls) if setting.init}
        settings = without_gone(cls.__name__, settings)
        for name in settings:
            if name not in known:
                raise ParameterError(f"{cls.__name__} has no setting {name!r}{nearest(name, known)}")
        for name, setting in known.items():
            if name not in settings and setting.default is MISSING and setting.default_factory is MISSING:
                raise ParameterError(f"{cls.__name__} needs the setting {name!r}, which is missing.")
        annotations = _annotations(cls)
        return cls(
            **{name: self.read(annotations[name], held, f"{name} of {cls.__name__}") for name, held in settings.items()}
        )

    def _choices(self, expected: Any) -> dict[str, type]:
        """The kinds that may stand where `expected` is annotated; none for what is not a class of ours."""
        if expected is Any or not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
            return {}
        return {name: kind for name, kind in self.kinds.items() if issubclass(kind, expected)}

    def _wanted(self, option: Any) -> str:
        if option in WANTED:
            return WANTED[option]
        if get_origin(option) is Literal:
            return f"one of {', '.join(map(repr, get_args(option)))}"
        if get_origin(option) in (tuple, list):
            return "a list"
        choices = self._choices(option)
        return f"a table of the kind {' or '.join(choices)}" if choices else "a table"


def _options(annotation: Any) -> tuple[Any, ...]:
    union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if union else (annotation,)


def _fits(shape: Shape, option: Any, data: Any) -> bool:
    """Whether the outermost layer is right; what is inside gets an error of its own."""
    if shape in ("mapping", "record", "kind"):
        return isinstance(data, dict)
    if shape == "sequence":
        return isinstance(data, (list, tuple))
    if get_origin(option) is Literal:
        return any(type(data) is type(choice) and data == choice for choice in get_args(option))
    if option is float:
        return isinstance(data, (int, float)) and not isinstance(data, bool)
    return type(data) is option


@cache
def _annotations(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)
