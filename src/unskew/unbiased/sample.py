"""Random ratings in the codes of the log they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.data.log import RatingLog
from unskew.data.scale import Scale
from unskew.data.seen import SeenPairs
from unskew.errors import DataError


@dataclass(frozen=True, eq=False)
class Sample:
    """The random ratings whose user and item a log knows, by its codes, and the counts of what was found about them."""

    log: RatingLog
    n_unknown: int
    n_in_log: int


def sample_of(log: RatingLog, unbiased: RatingLog) -> Sample:
    """The slice as the log would call it; refused if nothing of it is known, or if it has another scale."""
    mine, theirs = log.scale, unbiased.scale
    if mine.binary != theirs.binary or (not mine.binary and mine != theirs):
        raise DataError(
            f"The random ratings are {_in_words(theirs)}, and those of the log are {_in_words(mine)}: read both with "
            "the same positive= or rating_scale=."
        )
    users = log.user_ids.codes(unbiased.user_ids.arrow)[unbiased.users]
    items = log.item_ids.codes(unbiased.item_ids.arrow)[unbiased.items]
    known = (users >= 0) & (items >= 0)
    if not known.any():
        raise DataError(
            f"None of the {len(unbiased):,} random ratings is of a user and an item that the log knows: check that "
            "both use the same ids."
        )
    columns = {"users": users[known], "items": items[known], "ratings": unbiased.ratings[known]}
    for column in columns.values():
        column.flags.writeable = False
    sample = RatingLog.proved(**log.__dict__ | columns | {"duplicates_merged": unbiased.duplicates_merged})
    return Sample(sample, int((~known).sum()), int(SeenPairs(log)(sample.users, sample.items).sum()))


def _in_words(scale: Scale) -> str:
    return "binary" if scale.binary else f"graded from {scale.low:g} to {scale.high:g}"
