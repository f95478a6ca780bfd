"""Published datasets with a randomised test set, read from folders their users have downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from unskew.datasets.coat import COAT, coat
from unskew.datasets.kuairec import KUAIREC, kuairec
from unskew.datasets.source import Dataset, Folder, Source
from unskew.datasets.yahoo_r3 import YAHOO_R3, yahoo_r3
from unskew.errors import ParameterError, nearest

__all__ = ["Dataset", "Source", "available", "coat", "kuairec", "load", "yahoo_r3"]

_LOADERS: dict[str, tuple[Source, Callable[..., Dataset]]] = {
    source.name: (source, loader) for source, loader in ((COAT, coat), (YAHOO_R3, yahoo_r3), (KUAIREC, kuairec))
}


def available() -> tuple[Source, ...]:
    """Every dataset `load` knows, and where to get it."""
    return tuple(source for source, _ in _LOADERS.values())


def load(
    name: str,
    folder: Folder,
    *,
    positive: float | Literal["usual"] | None = "usual",
    expect_original: bool = True,
) -> Dataset:
    """The dataset called `name` from its folder.

    `positive` is the lowest rating that counts as liked: by default the usual one, 3 stars or a watch ratio
    of 1; None keeps graded ratings.  Files that differ from the original in size or rates are refused unless
    `expect_original=False`, which lists the differences in the notes instead.
    """
    if name not in _LOADERS:
        choices = f": choose from {', '.join(map(repr, _LOADERS))}."
        raise ParameterError(f"there is no dataset called {name!r}{nearest(name, _LOADERS, ': ', choices)}")
    source, loader = _LOADERS[name]
    threshold = source.positive if positive == "usual" else positive
    return loader(folder, positive=threshold, expect_original=expect_original)
