"""Turn a record into plain arrays and back, by the types of its fields: one form for every part of a model folder."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unskew.nets.base import Part, PartSpec, State

Arrays = dict[str, NDArray[Any]]


class RecordSpec(PartSpec):
    """Settings of a part that is a dataclass, kept as the arrays that its fields are."""

    def from_state(self, state: State, owner: Part | None = None) -> Any:
        return unflat(self.fitted, state)


def flat(record: Any) -> Arrays:
    """Return the fields of a dataclass as arrays, those of records and mappings inside it by a point."""
    found: Arrays = {}
    for field in fields(record):
        value = getattr(record, field.name)
        value = flat(value) if is_dataclass(value) else value
        if isinstance(value, dict):
            found |= {f"{field.name}.{key}": np.asarray(array) for key, array in value.items()}
        elif isinstance(value, (str, list, tuple)) and all(isinstance(each, str) for each in value):
            text = value if isinstance(value, str) else "\n".join(value)
            found[field.name] = np.frombuffer(text.encode(), np.uint8)
        elif value is not None:
            found[field.name] = np.asarray(value)
    return found


def unflat(kind: Any, arrays: Mapping[str, Any]) -> Any:
    """Return the record of this kind that `flat` took apart; of several kinds the one whose fields are there."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not NoneType]
        names = {key.partition(".")[0] for key in arrays}
        kind = next((each for each in kinds if names <= {field.name for field in fields(each)}), kinds[0])
    hints = get_type_hints(kind)
    return kind(**{field.name: _value(hints[field.name], field.name, arrays) for field in fields(kind)})


def _value(kind: Any, name: str, arrays: Mapping[str, Any]) -> Any:
    """Return one field of a record."""
    inner = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    origin, kinds = get_origin(kind), get_args(kind)
    if origin is dict:
        return inner
    if name not in arrays:
        return None if NoneType in kinds and not inner else unflat(kind, inner)
    array = np.asarray(arrays[name])
    if kind is str or str in kinds:
        text = array.tobytes().decode()
        return text if kind is str else origin(text.split("\n") if text else [])
    if origin is tuple:
        return tuple(array.tolist())
    return array.item() if array.ndim == 0 else array
