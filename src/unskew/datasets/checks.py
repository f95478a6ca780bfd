"""What a simulated world is given from outside, settings and functions of pairs, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unskew.data.pairs import Codes
from unskew.datasets.selection import SELECTIONS, Floats
from unskew.errors import DataError, ParameterError, nearest

OfPairs = Callable[[Codes, Codes], ArrayLike]  # from user codes and item codes to one number a pair


def check_whole(**limits: tuple[int, int, float]) -> None:
    """Refuse a setting (value, low, high) that is no whole number from low to high."""
    for name, (value, low, high) in limits.items():
        if not isinstance(value, (int, np.integer)) or not low <= value <= high:
            raise ParameterError(f"{name} is {value!r}: give a whole number from {low} to {high}.")


def check_shares(**shares: float) -> None:
    """Refuse a setting that does not lie strictly between 0 and 1."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise ParameterError(f"{name} is {share!r}: give a number between 0 and 1, both excluded.")


def check_selection(selection: str, strength: float, unexplained: float, interaction: float) -> None:
    """Refuse an unknown selection and sizes of effects that leave the rates without a meaning."""
    if selection not in SELECTIONS:
        raise ParameterError(unknown_choice("selection", selection, SELECTIONS))
    for name, value, low in (
        ("strength", strength, -20),
        ("unexplained", unexplained, -20),
        ("interaction", interaction, 0),
    ):
        if not low <= value <= 20:
            raise ParameterError(f"{name} is {value!r}: give a number from {low} to 20.")
    if selection == "utility" and abs(strength * unexplained) >= 1:
        product = f"strength * unexplained is {strength * unexplained:g}"
        raise ParameterError(f"{product}: selection by utility needs it between -1 and 1, both excluded.")


def unknown_choice(name: str, value: str, known: tuple[str, ...]) -> str:
    """The sentence for a word that is not among those known, with the nearest one that is."""
    choices = f": choose one of {', '.join(known)}."
    return f"{name} {value!r} is unknown{nearest(value, known, ': ', choices)}"


def probabilities(function: OfPairs, users: Codes, items: Codes) -> Floats:
    """What a function says of some pairs, refused unless it is one probability a pair."""
    values = np.asarray(function(users, items), dtype=np.float64)
    if values.shape != users.shape:
        raise DataError(f"The function returned shape {values.shape} for {len(users)} pairs: return one number a pair.")
    good = (values >= 0) & (values <= 1)
    if not good.all():
        at = int(good.argmin())
        pair = f"user {users[at]} and item {items[at]}"
        raise DataError(f"The function returned {values[at]} for {pair}: return probabilities.")
    return values
