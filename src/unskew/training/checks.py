"""One sentence for a setting out of range."""

from __future__ import annotations

import math
from collections.abc import Collection

from unskew.errors import ParameterError

LARGEST = 1e38  # about the largest number that 32 bits hold
LARGEST_WHOLE = 2**63 - 1
MOST_PAIRS_PER_ROW = 1_000  # sampled for a rating; the most that published code takes is some ten


def check_number(
    owner: object, name: str, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> None:
    """Refuse `owner.name` unless it is a finite number within the bounds."""
    value = getattr(owner, name)
    if isinstance(value, str) and value == "auto":
        raise ParameterError(f"{name}='auto' is gone: None follows a rule of the log; to search, use `unskew tune`.")
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    largest = LARGEST_WHOLE if isinstance(value, int) else LARGEST
    if number and most is None and value > largest:
        most = largest
    bounds = {"above": above, "at least": least, "at most": most}
    wanted = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    inside = number and not (
        (above is not None and value <= above)
        or (least is not None and value < least)
        or (most is not None and value > most)
    )
    if not inside:
        raise ParameterError(f"{name} of {type(owner).__name__} must be a number {wanted}, not {value!r}.")


def check_choice(owner: object, name: str, choices: Collection[str]) -> None:
    """Refuse `owner.name` unless it is one of the choices."""
    value = getattr(owner, name)
    if value not in choices:
        allowed = ", ".join(map(repr, choices))
        raise ParameterError(f"{name} of {type(owner).__name__} must be one of {allowed}, not {value!r}.")
