"""What may be a seed: one rule for all who take one."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from unskew.errors import ParameterError

LARGEST = 2**63 - 1


def checked_seed(seed: Any) -> int:
    """The seed as an integer of Python, which has room for all that is made of it."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) <= LARGEST:
        raise ParameterError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed!r}.")
    return int(seed)
