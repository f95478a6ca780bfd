"""Users whom a log does not know, and what they have rated of its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.features import columns_of, missing_column
from unskew.data.ids import Vocabulary, encoded
from unskew.data.log import RatingLog, refuse_duplicates
from unskew.data.scale import Scale, as_ratings
from unskew.errors import DataError, ParameterError

COLUMNS = ("user_id", "item_id", "rating")


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Users in codes of their own, counted from 0, and their ratings in [0, 1] by the codes of a log's items.

    `left_out` ratings were of items that the log does not know.
    """

    ids: Vocabulary
    users: NDArray[np.int32]
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    left_out: int
    stars: NDArray[np.float32] | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many ratings each has given."""
        return np.bincount(self.users, minlength=len(self.ids))

    def joined(self, log: RatingLog) -> RatingLog:
        """The log and its newcomers: their codes and their ratings come last."""
        columns: dict[str, Any] = {
            "users": np.concatenate([log.users, self.users + np.int32(log.n_users)]),
            "items": np.concatenate([log.items, self.items]),
            "ratings": np.concatenate([log.ratings, self.ratings]),
        }
        unknown = log.stars is None or self.stars is None
        columns["stars"] = None if unknown else np.concatenate([log.stars, self.stars])
        for column in columns.values():
            if column is not None:
                column.flags.writeable = False
        described = None if log.user_features is None else log.user_features.with_unknown(len(self.ids))
        sides = {"user_ids": log.user_ids.extended(self.ids), "user_features": described, "times": None}
        return RatingLog.proved(**log.__dict__ | columns | sides)


def newcomers_to(log: RatingLog, source: Any, *, leave_out: bool) -> Newcomers:
    """The users and ratings of another log, or of a frame with the columns user_id, item_id and rating.

    A frame may hold a single user, and ratings that are all alike. `leave_out` says what to do with ratings of items
    that the log does not know: count them and go on, or refuse.
    """
    if isinstance(source, RatingLog):
        _refuse_another_scale(source.scale, log.scale)
        ids, item_ids = source.user_ids, source.item_ids
        users, items, ratings, stars = source.users, source.items, source.ratings, source.stars
    else:
        ids, item_ids, users, items, stars = _encoded(source, log.scale)
        ratings = log.scale.to_unit(stars)
    _refuse_known(ids, log.user_ids)
    codes = log.item_ids.codes(item_ids.arrow)[items]
    unknown = codes < 0
    if unknown.any() and not leave_out:
        first = item_ids[int(items[unknown.argmax()])]
        raise DataError(
            f"The item {first!r} is not in the log ({int(unknown.sum())} of {len(codes)} ratings are of such items); "
            "pass on_unknown='fallback' to leave them out."
        )
    kept = ~unknown
    users, codes, ratings = users[kept], codes[kept], np.asarray(ratings[kept], np.float32)
    refuse_duplicates(users, codes, ids, log.item_ids)
    stars = None if stars is None else np.asarray(stars[kept], np.float32)
    return Newcomers(ids, users, codes, ratings, int(unknown.sum()), stars)


def _encoded(frame: Any, scale: Scale) -> tuple[Vocabulary, Vocabulary, Any, Any, Any]:
    columns = columns_of(frame)
    for name in COLUMNS:
        if name not in columns:
            raise missing_column(name, list(columns), "the frame")
    (users, user_ids), (items, item_ids) = (encoded(columns[name], f"column {name!r}") for name in COLUMNS[:2])
    ratings = as_ratings(columns["rating"], "column 'rating'")
    if not len(ratings):
        raise DataError("there are no ratings: the data has no rows.")
    scale.refuse_strays(ratings, "column 'rating'")
    return user_ids, item_ids, users, items, ratings


def _refuse_another_scale(given: Scale, own: Scale) -> None:
    same = given.positive == own.positive if own.binary else given == own
    if not same:
        raise ParameterError(
            f"The new users' ratings are on the scale {given}, and the model learned {own}: read them in the same way."
        )


def _refuse_known(ids: Vocabulary, known: Vocabulary) -> None:
    twice = known.codes(ids.arrow) >= 0
    if twice.any():
        raise DataError(
            f"The user {ids[int(twice.argmax())]!r} is in the log already ({int(twice.sum())} of {len(ids)} are); "
            "only new users can be folded in: leave the others out, or fit again to learn from what is new of them."
        )
