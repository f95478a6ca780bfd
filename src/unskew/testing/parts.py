"""A recipe taken apart: its parts, whether two recipes are the same, and a recipe with some parts exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np


def is_recipe(value: Any) -> bool:
    """Whether it is a dataclass, and not the class of one."""
    return is_dataclass(value) and not isinstance(value, type)


def parts_of(value: Any) -> Iterator[Any]:
    """The value and everything inside it, settings and members of sequences."""
    yield value
    inside: tuple[Any, ...] = ()
    if is_recipe(value):
        inside = tuple(getattr(value, setting.name) for setting in fields(value))
    elif isinstance(value, (tuple, list)):
        inside = tuple(value)
    for held in inside:
        yield from parts_of(held)


def is_plain(value: Any) -> bool:
    """Whether it is made of dataclasses, numbers and texts alone: no functions, no arrays."""
    plain = (bool, int, float, str, tuple, list, type(None))
    return all(is_recipe(part) or isinstance(part, plain) for part in parts_of(value))


def same(one: Any, other: Any) -> bool:
    """Equality down to the last setting, also of what has no equality of its own: arrays, functions made anew.

    Functions are the same if they have the same code and, for methods and partials, the same subject and arguments.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if is_recipe(one):
        return all(same(getattr(one, setting.name), getattr(other, setting.name)) for setting in fields(one))
    if isinstance(one, Mapping):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, FunctionType):
        return bool(one.__code__ == other.__code__)
    if isinstance(one, MethodType):
        return same((one.__func__, one.__self__), (other.__func__, other.__self__))
    if isinstance(one, partial):
        return same((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    if hasattr(one, "__array__"):
        return bool(np.array_equal(one, other))
    return bool(one == other) or (hasattr(one, "__dict__") and same(vars(one), vars(other)))


def exchanged(part: Any, exchange: Callable[[Any], Any]) -> Any:
    """The recipe with `exchange` applied to each of its parts, the innermost first."""
    if isinstance(part, tuple):
        return tuple(exchanged(held, exchange) for held in part)
    if not is_recipe(part):
        return part
    settings = {setting.name: getattr(part, setting.name) for setting in fields(part) if setting.init}
    changed = {name: exchanged(held, exchange) for name, held in settings.items()}
    changed = {name: held for name, held in changed.items() if held is not settings[name]}
    return exchange(replace(part, **changed) if changed else part)
