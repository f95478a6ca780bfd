"""The log of (user, item, rating) that everything else starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.catalogue import catalogue_of, matched
from unskew.data.columns import check_codes, check_unit, frozen
from unskew.data.duplicates import Duplicates, merge_duplicates, refuse_duplicates
from unskew.data.features import Features, columns_of, missing_column
from unskew.data.scale import Scale, as_ratings
from unskew.data.vocabulary import Encoder, Vocabulary
from unskew.errors import DataError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class RatingLog:
    """Ratings as read-only columns of integer codes; checks itself once, on construction.

    Build one with `from_frame`, `from_arrays` or `unskew.data.read.read_log`.
    """

    users: NDArray[np.int32]  # codes, one per rating, in the order given
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]  # in [0, 1]: 0 or 1 when binary, else scaled
    user_ids: Vocabulary  # external ids; may hold users and items without any rating
    item_ids: Vocabulary
    scale: Scale
    user_features: Features | None = None
    item_features: Features | None = None
    duplicates_merged: int = 0  # rows merged away by duplicates="last" or "mean"
    stars: NDArray[np.float32] | None = None  # ratings as they stood before `scale`, None where that is not known

    def __post_init__(self) -> None:
        for name, dtype in (("users", np.int32), ("items", np.int32), ("ratings", np.float32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        if self.stars is not None:
            object.__setattr__(self, "stars", frozen(self.stars, np.float32, "stars"))
        _check_columns(self)
        _check_sides(self)
        refuse_duplicates(self.users, self.items, self.user_ids, self.item_ids)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        user: str = "user_id",
        item: str = "item_id",
        rating: str = "rating",
        *,
        positive: float | None = 3,
        rating_scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
        user_ids: Any = None,
        item_ids: Any = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> RatingLog:
        """A log from a pandas, polars or pyarrow frame with one row per rating.

        `positive` is the lowest rating that counts as liked; `positive=None` with `rating_scale=(low, high)`
        keeps graded ratings. `user_ids` and `item_ids` are catalogues: every id there is, rated or not, in
        the order the codes shall have. Feature frames are keyed by the columns `user` and `item`.
        """
        settings = Settings(Scale.of(positive, rating_scale), duplicates, user, item, rating)
        present = columns_of(frame)
        for name in (user, item, rating):
            if name not in present:
                raise missing_column(name, list(present), "the frame")
        columns = (present[user], present[item], present[rating])
        where = (f"column {user!r}", f"column {item!r}", f"column {rating!r}")
        return _encoded(columns, where, settings, (user_ids, item_ids), (user_features, item_features))

    @classmethod
    def from_arrays(
        cls,
        users: Any,
        items: Any,
        ratings: Any,
        *,
        positive: float | None = 3,
        rating_scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
        user_ids: Any = None,
        item_ids: Any = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> RatingLog:
        """A log from three array-likes of equal length; settings as in `from_frame`."""
        settings = Settings(Scale.of(positive, rating_scale), duplicates)
        columns, where = (users, items, ratings), ("users", "items", "ratings")
        return _encoded(columns, where, settings, (user_ids, item_ids), (user_features, item_features))

    @classmethod
    def proved(cls, **fields: Any) -> RatingLog:
        """A log of fields that have been checked before; nothing is checked again."""
        log = object.__new__(cls)
        log.__dict__.update(fields)
        return log

    def __len__(self) -> int:
        return len(self.ratings)

    def __repr__(self) -> str:
        level = f"positive rate {self.positive_rate:.1%}"
        if not self.binary:
            mean = float(self.scale.from_unit(self.positive_rate))
            level = f"mean rating {mean:.2f} of {self.scale.low:g} to {self.scale.high:g}"
        return (
            f"RatingLog({len(self):,} ratings by {self.n_users:,} users on {self.n_items:,} items, "
            f"density {_percent(len(self) / self.n_pairs)}, {level})"
        )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def n_pairs(self) -> int:
        return self.n_users * self.n_items

    @property
    def features(self) -> tuple[Features | None, Features | None]:
        """What is known of users, and of items."""
        return self.user_features, self.item_features

    @property
    def binary(self) -> bool:
        return self.scale.binary

    @property
    def positive_rate(self) -> float:
        """The mean of the ratings in [0, 1]; NaN for an empty part of a log."""
        return float(self.ratings.mean(dtype=np.float64)) if len(self) else float("nan")

    def take(self, rows: NDArray[Any]) -> RatingLog:
        """The log of some rows (positions or a mask), everything else the same and nothing checked again."""
        known = ("users", "items", "ratings") if self.stars is None else ("users", "items", "ratings", "stars")
        columns = {name: getattr(self, name)[rows] for name in known}
        for column in columns.values():
            column.flags.writeable = False
        return RatingLog.proved(**self.__dict__ | columns)

    def to_arrow(self) -> pa.Table:
        """Columns user_id, item_id and rating as users know them; the rating of a binary log is 0 or 1."""
        ids = {"user_id": self.user_ids.take(self.users), "item_id": self.item_ids.take(self.items)}
        return pa.table(ids | {"rating": self.scale.from_unit(self.ratings)})


class Settings(NamedTuple):
    """How external rows become a log."""

    scale: Scale
    duplicates: Duplicates = "error"
    user: str = "user_id"
    item: str = "item_id"
    rating: str = "rating"

    def check(self) -> None:
        """Raise a ParameterError for what cannot be meant."""
        if self.duplicates not in get_args(Duplicates):
            raise ParameterError(f"duplicates must be 'error', 'last' or 'mean', but is {self.duplicates!r}.")
        names = (self.user, self.item, self.rating)
        if len(set(names)) < len(names):
            raise ParameterError(f"user, item and rating must be three different columns, but are {names}.")


def assemble(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: NDArray[np.float64],
    user_ids: Vocabulary,
    item_ids: Vocabulary,
    settings: Settings,
    features: tuple[Any, Any] = (None, None),
) -> RatingLog:
    """A log from fresh codes and ratings on the external scale, none of which is a stray."""
    n_rows = len(ratings)
    if settings.duplicates != "error":
        lost, ratings = np.zeros(n_rows, np.bool_), ratings.copy()
        merge_duplicates(users, items, ratings, lost, len(user_ids), len(item_ids), settings.duplicates)
        users, items, ratings = users[~lost], items[~lost], ratings[~lost]
    settings.scale.refuse_one_class(ratings.min(), ratings.max())
    unit = settings.scale.to_unit(ratings)
    for column in (users, items, unit):
        column.flags.writeable = False  # ours alone, so the log need not copy them
    user_features, item_features = features
    return RatingLog(
        users,
        items,
        unit,
        user_ids,
        item_ids,
        settings.scale,
        None if user_features is None else Features.aligned(user_features, user_ids, settings.user),
        None if item_features is None else Features.aligned(item_features, item_ids, settings.item),
        n_rows - len(unit),
        ratings.astype(np.float32),
    )


def _encoded(
    columns: tuple[Any, Any, Any],
    where: tuple[str, str, str],
    settings: Settings,
    catalogues: tuple[Any, Any],
    features: tuple[Any, Any],
) -> RatingLog:
    settings.check()
    users, user_ids = _codes(columns[0], where[0], catalogues[0])
    items, item_ids = _codes(columns[1], where[1], catalogues[1])
    ratings = as_ratings(columns[2], where[2])
    if not len(users) == len(items) == len(ratings):
        raise DataError(
            f"{where[0]}, {where[1]} and {where[2]} must be equally long, "
            f"but have {len(users):,}, {len(items):,} and {len(ratings):,} rows."
        )
    if not len(ratings):
        raise DataError("there are no ratings: the data has no rows.")
    settings.scale.refuse_strays(ratings, where[2])
    return assemble(users, items, ratings, user_ids, item_ids, settings, features)


def _codes(values: Any, where: str, catalogue: Any) -> tuple[NDArray[np.int32], Vocabulary]:
    encoder = Encoder(where)
    codes = encoder.add(values)
    ids = matched(codes, encoder.vocabulary(), catalogue_of(catalogue, where), where)
    return ids.codes(codes), ids.vocabulary


def _check_columns(log: RatingLog) -> None:
    shapes = [column.shape for column in (log.users, log.items, log.ratings, log.stars) if column is not None]
    if len(set(shapes)) > 1 or log.ratings.ndim != 1:
        raise DataError(f"users, items and ratings must be equally long columns, but have the shapes {shapes}.")
    if not len(log):
        raise DataError("there are no ratings: the log has no rows.")
    check_codes(log.users, log.n_users, "users")
    check_codes(log.items, log.n_items, "items")
    check_unit(log.ratings, log.binary)


def _check_sides(log: RatingLog) -> None:
    sides = (("user", log.n_users, log.user_features), ("item", log.n_items, log.item_features))
    for name, size, features in sides:
        if size < 2:
            raise DataError(f"the log knows only {size} {name}: at least two users and two items are needed.")
        if features is not None and len(features.values) != size:
            raise DataError(f"{name}_features has {len(features.values):,} rows for {size:,} {name}s.")


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 1e-4 else f"{100 * share:.2g}%"
