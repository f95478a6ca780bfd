"""Words that the sentences of several layers share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 5  # that a sentence offers


def nearest(name: object, choices: Iterable[str], before: str = "; ", otherwise: str = ".") -> str:
    """How a sentence about an unknown name ends, in any case: with what begins like it, what is most like it, else
    with `otherwise`."""
    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(choice.strip().casefold(), choice)
    given = str(name).strip().casefold()
    longer = [choice for choice in folded if len(given) > 1 and choice.startswith(given)][:MOST]
    close = [given] if given in folded else longer or get_close_matches(given, folded, n=1)
    return f"{before}did you mean {_either(folded[choice] for choice in close)}?" if close else otherwise


def _either(names: Iterable[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}" if first else last
