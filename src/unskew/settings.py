"""Settings of methods and parts: what they may be, as annotated, in which range, and where a search looks."""

import math
from collections.abc import Callable
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from unskew.errors import ParameterError

BOUNDS = {"above": ("above", gt), "least": ("at least", ge), "most": ("at most", le), "below": ("below", lt)}
LARGEST, LARGEST_WHOLE = 1e38, 2**63 - 1  # about the largest numbers that 32 and 64 bits hold
NUMBERS = {int: ("a whole number", Integral, LARGEST_WHOLE), float: ("a number", Real, LARGEST)}


def setting(
    default: Any = None, *, factory: Callable[[], Any] | None = None, search: Any = None, **bounds: float
) -> Any:
    """Declare a field of a dataclass, with bounds `above`, `least`, `most`, `below`; `search` is where `tune` looks."""
    metadata = {"bounds": bounds, "search": search}
    return field(default_factory=factory, metadata=metadata) if factory else field(default=default, metadata=metadata)


def check_settings(owner: Any) -> None:
    """Refuse settings that are not what their annotation says, or outside their ranges."""
    for each in fields(owner):
        value, options = getattr(owner, each.name), _options(owner.__class__).get(each.name, ())
        wanted = [_wanted(option, value, each.metadata.get("bounds", {})) for option in options]
        if isinstance(value, str) and value == "auto" and not NUMBERS.keys().isdisjoint(options):
            raise ParameterError(
                f"{each.name}='auto' is gone: None follows a rule of the log; to search, use `unskew tune`."
            )
        if all(wanted) and wanted:
            listed = " or ".join(words for words, option in zip(wanted, options, strict=True) if option is not NoneType)
            raise ParameterError(f"{each.name} of {type(owner).__name__} must be {listed}, not {value!r:.80}.")


def _wanted(option: Any, value: Any, bounds: dict[str, float]) -> str:
    """Return what a value should be by one option of its annotation; nothing if it is that."""
    if option in NUMBERS:
        words, kind, largest = NUMBERS[option]
        number = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
        if number and value > largest:
            bounds = bounds | {"most": bounds.get("most", largest)}
        right = number and all(BOUNDS[kind][1](value, bound) for kind, bound in bounds.items())
        limits = " and ".join(f"{BOUNDS[kind][0]} {bound:,.10g}" for kind, bound in bounds.items())
        return "" if right else f"{words} {limits}".rstrip()
    if get_origin(option) is Literal:
        right = isinstance(value, str) and value in get_args(option)
        return "" if right else f"one of {', '.join(map(repr, get_args(option)))}"
    if option is bool:
        return "" if isinstance(value, (bool, np.bool_)) else "True or False"
    return "" if isinstance(value, option) else f"a {getattr(option, 'kind', None)}"


@cache
def _options(cls: type) -> dict[str, tuple[Any, ...]]:
    """Return what each setting may be, but for those that may be something else too, such as a function."""
    try:
        hints = get_type_hints(cls)
    except (AttributeError, NameError, TypeError):  # of classes in functions, or imported for types
        return {}
    known, found = (int, float, bool, NoneType), {}
    for name, hint in hints.items():
        options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        ours = (isinstance(each, type) and hasattr(each, "kind") for each in options)
        if all(own or each in known or get_origin(each) is Literal for own, each in zip(ours, options, strict=True)):
            found[name] = options
    return found
