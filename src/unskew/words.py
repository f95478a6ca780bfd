"""Words that the sentences of several layers share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: object, choices: Iterable[str], before: str = "; ", otherwise: str = ".") -> str:
    """How a sentence about an unknown name ends: with the choice most like it in any case, else with `otherwise`."""
    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(choice.strip().casefold(), choice)
    close = get_close_matches(str(name).strip().casefold(), folded, n=1)
    return f"{before}did you mean {folded[close[0]]!r}?" if close else otherwise
