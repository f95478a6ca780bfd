"""Every error unskew raises on purpose, each message one sentence, and what sentences and checks of all rooms share."""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

MOST_NAMES = 5  # that a sentence offers
LARGEST_SEED = 2**63 - 1


class UnskewError(Exception):
    """Base of all our errors: catch this one to catch them all; its sentence stands on one line, whatever it quotes."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(" ".join(str(sentence).splitlines()))


class DataError(UnskewError, ValueError):
    """The data handed in cannot be used; names column, row and value where there are any."""


class ParameterError(UnskewError, ValueError):
    """A setting is unknown or out of range."""


class PlanError(UnskewError):
    """A method's plan does not fit together, or cannot be rewritten as asked."""


class DivergedError(UnskewError, ArithmeticError):
    """Training left the finite numbers; names stage, role and epoch."""


class FileError(UnskewError):
    """A file that unskew wrote is missing, truncated, altered, foreign or newer than this version."""


class ModelFileError(FileError):
    """A model cannot be saved, or one of its files is not what was saved."""


def nearest(name: object, choices: Iterable[str], before: str = "; ", otherwise: str = ".") -> str:
    """Return how a sentence about an unknown name ends, in any case: with what begins like it, what is most like it,
    else with `otherwise`."""
    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(choice.strip().casefold(), choice)
    given = str(name).strip().casefold()
    longer = [choice for choice in folded if len(given) > 1 and choice.startswith(given)][:MOST_NAMES]
    close = [given] if given in folded else longer or get_close_matches(given, folded, n=1)
    if not close:
        return otherwise
    *first, last = (repr(folded[choice]) for choice in close)
    return f"{before}did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def checked_seed(seed: Any) -> int:
    """Return the seed as an integer of Python, which has room for all that is made of it."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) <= LARGEST_SEED:
        raise ParameterError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed!r}.")
    return int(seed)


def whole(value: Any, name: str, least: int, most: int = 2**31 - 1) -> int:
    """Return a whole number within limits as an integer of Python."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise ParameterError(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}.")
    return int(value)


def within(low: float, high: float, ends: str = "excluded", **settings: Any) -> None:
    """Refuse a setting that does not lie between two numbers."""
    for name, value in settings.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (number and (low < value < high or (ends == "included" and value in (low, high)))):
            raise ParameterError(f"{name} is {value!r}: give a number from {low:g} to {high:g}, both {ends}.")


def chosen(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return one of some words, or refuse with all of them."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}" if known[1:] else repr(known[0])
        raise ParameterError(f"{name} must be {listed}, not {value!r}.")
    return value


def words(value: Any, name: str) -> tuple[str, ...]:
    """Return several words, or refuse what is no list of them."""
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(word, str) for word in value):
        raise ParameterError(f"{name} must be a list of names, not {value!r:.80}.")
    return tuple(value)


def of_class(value: Any, name: str, kind: Any) -> Any:
    """Return a value of a class, or refuse anything else."""
    if not isinstance(value, kind):
        raise ParameterError(f"{name} must be a {kind.__name__}, not {value!r:.80}.")
    return value


def flag(value: Any, name: str) -> bool:
    """Return True or False, or refuse anything else."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name} must be True or False, not {value!r:.80}.")
    return value
