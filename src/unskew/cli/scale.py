"""What counts as liked, guessed from the ratings themselves by one rule: the middle of their scale, or above."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from unskew.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unskew.cli.columns import Columns

ROWS = 100_000  # of a file that are looked at; a later rating outside the scale is refused
MOST_STEPS = 101
# Lowest rating, highest, and the step between: a scale is known by its highest rating, the lowest need not occur.
SCALES = ((1, 5, 1), (0, 5, 1), (0.5, 5, 0.5), (0, 5, 0.5), (1, 10, 1), (0, 10, 1), (-10, 10, 1), (0, 100, 1))


class GuessedScale(NamedTuple):
    """The lowest rating that counts as liked, the ends of the scale, and how that came about in words."""

    positive: float
    low: float
    high: float
    guessed: str


def first_ratings(source: str, columns: Columns) -> NDArray[Any]:
    """The first ratings of a file, or of the files of a folder."""
    import numpy as np

    from unskew.data.scale import as_ratings
    from unskew.data.stream import batches
    from unskew.data.tablefile import tables

    name, found, n_rows = columns.names["rating"], list[Any](), 0
    for file in tables(source, columns.delimiter, columns.header).files:
        for batch in batches(file, (name,)):
            found.append(as_ratings(batch.column(0), f"column {name!r} of {file.name}", n_rows + 1))
            n_rows += len(batch)
            if n_rows >= ROWS:
                return np.concatenate(found)[:ROWS]
    return np.concatenate(found) if found else np.empty(0)


def guessed_scale(ratings: NDArray[Any], file: str) -> GuessedScale:
    """The scale of the first ratings of a file; refused where there is nothing to go by."""
    import numpy as np

    distinct = np.unique(ratings[np.isfinite(ratings)]).tolist()
    if len(distinct) < 2:
        what = "no ratings" if not distinct else f"only the rating {distinct[0]:g}"
        raise DataError(
            f"{file} has {what}{_among(ratings)}: unskew learns from ratings that differ, and what people clicked or "
            "bought does not tell what they dislike."
        )
    override = "(--positive sets another threshold, --graded LOW HIGH keeps ratings graded)"
    if len(distinct) == 2:
        low, high = distinct
        return GuessedScale(high, low, high, f"ratings are {low:g} or {high:g}, and {high:g} is liked {override}")
    low, high, step = _known(distinct) or (distinct[0], distinct[-1], 0.0)
    if not step and len(distinct) > MOST_STEPS:
        raise DataError(
            f"the ratings of {file} are {len(distinct):,} different numbers from {low:g} to {high:g}{_among(ratings)}, "
            "which is no scale of ratings: say what is liked by --positive, or keep them graded by --graded LOW HIGH."
        )
    middle = (low + high) / 2
    positive = low + step * math.ceil((middle - low) / step) if step else min(r for r in distinct if r >= middle)
    words = f"ratings go from {low:g} to {high:g}, and {positive:g} or more, the middle or above, is liked"
    return GuessedScale(positive, low, high, f"{words} {override}")


def _known(distinct: list[float]) -> tuple[float, float, float] | None:
    for low, high, step in SCALES:
        steps = [(rating - low) / step for rating in distinct]
        if distinct[-1] == high and steps[0] >= 0 and all(place == int(place) for place in steps):
            return low, high, step
    return None


def _among(ratings: NDArray[Any]) -> str:
    return f" in its first {ROWS:,} rows" if len(ratings) >= ROWS else ""
