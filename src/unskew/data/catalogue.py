"""Every id there is, rated or not: what codes in the order of first appearance become in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.columns import first_row
from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError


class Ids(NamedTuple):
    """The ids of one side of a log."""

    vocabulary: Vocabulary
    places: NDArray[np.int32] | None  # in the vocabulary, of codes in the order of appearance; None: the same

    def codes(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        return found if self.places is None else self.places[found]


def catalogue_of(ids: Any, where: str) -> Vocabulary | None:
    """The catalogue for the ids at `where`, if one is given."""
    return ids if ids is None or isinstance(ids, Vocabulary) else Vocabulary(ids, f"the catalogue of {where}")


def matched(codes: NDArray[np.int32], found: Vocabulary, catalogue: Vocabulary | None, where: str) -> Ids:
    """The ids found at `where`, in the order of a catalogue if there is one, which must list them all."""
    if catalogue is None:
        return Ids(found, None)
    places = catalogue.codes(found.arrow)
    if (places < 0).any():
        stranger = int((places < 0).argmax())
        raise DataError(
            f"row {first_row((codes, stranger)) + 1} of {where} holds {found[stranger]!r}, which the catalogue of "
            f"{len(catalogue):,} ids does not list: add it there or remove the row."
        )
    return Ids(catalogue, places)
