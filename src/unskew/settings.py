"""Settings of methods and parts: the default, the range that is checked and where a search looks, in one line each."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import field, fields
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any

from unskew.errors import ParameterError

BOUNDS = {"above": ("above", gt), "least": ("at least", ge), "most": ("at most", le), "below": ("below", lt)}
LARGEST, LARGEST_WHOLE = 1e38, 2**63 - 1  # about the largest numbers that 32 and 64 bits hold


def setting(
    default: Any = None,
    *,
    factory: Callable[[], Any] | None = None,
    choices: Collection[str] | None = None,
    search: Any = None,
    **bounds: float,
) -> Any:
    """Declare a field of a dataclass, with bounds `above`, `least`, `most`, `below`; `search` is where `tune` looks."""
    metadata = {"bounds": bounds, "choices": choices, "search": search}
    return field(default_factory=factory, metadata=metadata) if factory else field(default=default, metadata=metadata)


def check_settings(owner: Any) -> None:
    """Refuse settings outside their ranges; None, where it is the default, means the rule."""
    for each in fields(owner):
        value = getattr(owner, each.name)
        if each.metadata and not (value is None and each.default is None):
            _check(owner, each.name, value, each.metadata["choices"], dict(each.metadata["bounds"]))


def _check(owner: Any, name: str, value: Any, choices: Collection[str] | None, bounds: dict[str, float]) -> None:
    if choices and value not in choices:
        allowed = ", ".join(map(repr, choices))
        raise ParameterError(f"{name} of {type(owner).__name__} must be one of {allowed}, not {value!r}.")
    if not bounds:
        return
    if isinstance(value, str) and value == "auto":
        raise ParameterError(f"{name}='auto' is gone: None follows a rule of the log; to search, use `unskew tune`.")
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    largest = LARGEST_WHOLE if isinstance(value, Integral) else LARGEST
    if number and value > largest:
        bounds.setdefault("most", largest)
    if not (number and all(BOUNDS[kind][1](value, bound) for kind, bound in bounds.items())):
        wanted = " and ".join(f"{BOUNDS[kind][0]} {bound:,.10g}" for kind, bound in bounds.items())
        raise ParameterError(f"{name} of {type(owner).__name__} must be a number {wanted}, not {value!r}.")
