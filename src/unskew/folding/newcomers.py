"""Users whom a log does not know, and what they have rated of its items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.duplicates import refuse_duplicates
from unskew.data.features import Features, columns_of, missing_column
from unskew.data.log import RatingLog
from unskew.data.scale import Scale, as_ratings
from unskew.data.vocabulary import Encoder, Vocabulary, narrowed
from unskew.errors import DataError, ParameterError

COLUMNS = ("user_id", "item_id", "rating")
COUNTED = ("n_missing", "n_unused", "n_unknown")  # of features


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
    features: Features | None
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
        sides = {"user_ids": _both(log.user_ids, self.ids), "user_features": self._features(log.user_features)}
        return RatingLog.proved(**log.__dict__ | columns | sides)

    def _features(self, known: Features | None) -> Features | None:
        if known is None:
            return None
        if self.features is not None and self.features.names == known.names:
            own = self.features.under(known.encoding)
            counts = {name: getattr(known, name) + getattr(own, name) for name in COUNTED}
            return replace(known, values=np.vstack([known.values, own.values]), **counts)
        nothing = np.full((len(self.ids), len(known.names)), np.nan, np.float32)
        return replace(known, values=np.vstack([known.values, nothing]), n_missing=known.n_missing + len(self.ids))


def newcomers_to(log: RatingLog, source: Any, *, leave_out: bool) -> Newcomers:
    """The users and ratings of another log, or of a frame with the columns user_id, item_id and rating.

    A frame may hold a single user, and ratings that are all alike. `leave_out` says what to do with ratings of items
    that the log does not know: count them and go on, or refuse.
    """
    if isinstance(source, RatingLog):
        _refuse_another_scale(source.scale, log.scale)
        ids, item_ids, features = source.user_ids, source.item_ids, source.user_features
        users, items, ratings, stars = source.users, source.items, source.ratings, source.stars
    else:
        features = None
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
    return Newcomers(ids, users, codes, ratings, int(unknown.sum()), features, stars)


def _encoded(frame: Any, scale: Scale) -> tuple[Vocabulary, Vocabulary, Any, Any, Any]:
    columns = columns_of(frame)
    for name in COLUMNS:
        if name not in columns:
            raise missing_column(name, list(columns), "the frame")
    sides = [Encoder(f"column {name!r}") for name in COLUMNS[:2]]
    users, items = (side.add(columns[name]) for side, name in zip(sides, COLUMNS, strict=False))
    ratings = as_ratings(columns["rating"], "column 'rating'")
    if not len(ratings):
        raise DataError("there are no ratings: the data has no rows.")
    scale.refuse_strays(ratings, "column 'rating'")
    return sides[0].vocabulary(), sides[1].vocabulary(), users, items, ratings


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


def _both(known: Vocabulary, new: Vocabulary) -> Vocabulary:
    """Text that spells integers joins integers; otherwise ids of two kinds become text."""
    parts = [known.arrow, new.arrow]
    if pa.types.is_integer(known.arrow.type) and not pa.types.is_integer(new.arrow.type):
        parts[1] = narrowed(new.arrow)
    if parts[0].type != parts[1].type:
        parts = [part.cast(pa.large_string()) for part in parts]
    return Vocabulary.proved(pa.concat_arrays(parts))
