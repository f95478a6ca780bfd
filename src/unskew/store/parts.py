"""What parts have learned as named arrays, and the parts built from them again by their specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError, UnskewError
from unskew.nets.base import Part, PartSpec

Arrays = dict[str, NDArray[Any]]


def part_from(spec: PartSpec, arrays: Arrays, log: RatingLog, owner: Part | None = None) -> Part:
    """Return the part of this specification with these arrays, refused if it is not a part of this log."""
    try:
        part = spec.from_state(arrays, owner)
    except UnskewError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ParameterError(
            f"the arrays of its {type(spec).__name__} are damaged, or those of another version of unskew: fit again."
        ) from error
    name, again = type(part).__name__, part.state()
    if set(arrays) != set(again):
        raise ParameterError(f"{name} consists of the arrays {sorted(again)}, not {sorted(arrays)}.")
    for key, array in sorted(arrays.items()):
        kind, right = (array.dtype, array.shape), (again[key].dtype, again[key].shape)
        if kind != right:
            raise ParameterError(
                f"{key} of {name} must be {right[0]} of shape {right[1]}, not {kind[0]} of shape {kind[1]}."
            )
    for side, known, size in zip(("users", "items"), part.sizes(), (log.n_users, log.n_items), strict=True):
        if known is not None and known != size:
            raise ParameterError(f"{name} knows {known} {side}, but the log has {size}.")
    return part


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the same arrays, called prefix/name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays called prefix/name, by name: the reverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
