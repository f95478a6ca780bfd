"""How a table becomes a log: settings, checks, ids and features, scale, times, titles, and pairs with several rows."""

import logging
import time
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, TypedDict, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data import guess, impressions
from unskew.data.features import FeatureFrame, Features
from unskew.data.ids import Vocabulary, as_arrow, as_text, encoded, first_unread, is_number, is_text, plain
from unskew.data.impressions import OVER_ALL, Target
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.population import ListedRows
from unskew.data.scale import Scale, as_ratings
from unskew.errors import DataError, ParameterError, chosen, nearest

LOGGER = logging.getLogger(__name__)
Duplicates = Literal["error", "last", "mean", "keep", "count"]
OUTCOMES = Scale(1, 0, 1)
MERGED = ("error", "last", "mean", "keep")


class LogSettings(TypedDict, total=False):
    """How a table becomes a log; all may be left out.

    `positive` is the lowest rating that counts as liked, guessed by default; `positive=None` with
    `rating_scale=(low, high)` keeps graded ratings. `duplicates` says what becomes of a pair that is rated twice:
    "error", "last", "mean", or "keep", by which each of its m rows stands for 1/m of the pair. Rows with `seen` are
    kept unless "count" makes one of equal ones, that stands for as many. `target` is what impressions are read for, see
    `unskew.data.impressions.find_roles`; rows younger than `window` seconds are left out. `context` are columns of
    impressions (device, hour) on which the chance of a click depends besides user and item. `user_ids` and `item_ids`
    are catalogues: every id there is, rated or not, in the order the codes shall have. Feature frames are keyed by the
    ids; ids that have features and no rating join the log. `item_names` are titles: a column of the same table, a frame
    with ids and titles, or a mapping. `like` is a log whose names of columns and whose scale are meant here too.
    """

    positive: float | Literal["guess"] | None
    rating_scale: tuple[float, float] | None
    duplicates: Duplicates
    target: Target | None
    window: float
    context: Sequence[str]
    user_ids: Any
    item_ids: Any
    user_features: Any
    item_features: Any
    item_names: Any
    like: RatingLog | None


class Rows(NamedTuple):
    """Columns by their roles, as they were given; `where` is the file they come from, if any.

    To make a log of them lets go of them.
    """

    columns: dict[str, Any]
    called: dict[str, str] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()  # what was guessed
    target: str | None = None  # what answers are wanted for, of impressions
    where: str = ""
    library: str = "pyarrow"
    narrow: bool = False  # text that spells integers throughout becomes integers

    def log(self, settings: Any) -> RatingLog:
        """Return the log of these rows."""
        rows = self
        if settings.get("window") is not None:
            rows = rows._closed(settings["window"])
        if rows.target == "implicit" and "rating" in rows.columns:
            rows = rows._kept(
                impressions.as_flags(rows.columns["rating"], rows._at("rating")), "are not positive", "rating"
            )
        return rows._log(settings)

    def _log(self, settings: Any) -> RatingLog:
        notes = list(self.notes)
        seen, ratings, won = self._outcomes()
        users, user_ids, user_features = self._side("user", settings, notes)
        items, item_ids, item_features = self._side("item", settings, notes)
        n_rows = len(ratings)
        if not len(users) == len(items) == n_rows:
            raise DataError(
                f"{self._at('user')}, {self._at('item')} and {self._at('rating')} must be equally long, "
                f"but have {len(users):,}, {len(items):,} and {n_rows:,} rows."
            )
        if not n_rows:
            raise DataError(f"there are no ratings: {self.where or 'the data'} has no rows.")
        Scale(0).refuse_strays(ratings, self._at("rating"))  # what is no number is no part of a scale
        scale = self._scale(ratings if seen is None else ratings[seen], settings, notes)
        scale.refuse_strays(ratings, self._at("rating"))
        times, context = self._times("time", notes), impressions.context_of(self.columns, self._at, n_rows)
        for role in self.columns.keys() & context.keys():
            del self.columns[role]
        pa.default_memory_pool().release_unused()
        if self.target is not None or seen is not None:
            bought = None if self.target == "click" else self._times("conversion_time", notes)
            notes += [] if won is None else impressions.remarks(items, won, seen, context, self._at("rating"))
            notes += impressions.time_remarks(times, bought, won, self._at, time.time())
        usual = "error" if seen is None and self.target is None else "last" if self.target == "implicit" else "keep"
        how, random, chances, listed = settings.get("duplicates", usual), None, None, None
        if how not in (("keep", "count") if seen is not None else ("keep",) if self.target in OVER_ALL else MERGED):
            raise ParameterError(
                f"duplicates is {how!r}: rows that were shown are kept, each as a part of its pair, and 'count' joins "
                "equal ones that were seen or not; ratings are merged by 'last' or 'mean'."
            )
        if self.target in OVER_ALL:
            random, chances = impressions.as_drawn(users, items, context, len(item_ids), notes)
        cells = np.asarray(1 / context.pop("sample_rate"), np.float32) if "sample_rate" in context else None
        if seen is not None:
            listed = ListedRows(users, items, seen, cells, context if times is None else context | {"time": times})
            if how == "count":
                listed, ratings = impressions.counted(listed, ratings, len(item_ids))
            own = listed.take(listed.seen)
            users, items, times, cells, ratings = own.users, own.items, own.times, own.cells, ratings[listed.seen]
        elif how == "keep":
            keys = pair_keys(users, items, len(item_ids))
            part = impressions.shares(keys if random is None else 2 * keys + random)
            cells = part if cells is None or part is None else cells * part
        else:
            users, items, ratings, times = _merged(users, items, ratings, times, user_ids, item_ids, how)
            if cells is not None and len(cells) > len(ratings):
                cells = None
                notes.append("sample_rate is not used, as rows of a pair are merged")
        unit, stars = scale.to_unit(ratings), ratings.astype(np.float32)
        unit.flags.writeable = stars.flags.writeable = False  # or a log would copy them
        if self.target != "implicit":
            teaching = ratings if random is None else ratings[~random]
            low, high = float(teaching.min()), float(teaching.max())
            if low == high and scale == OUTCOMES:
                what = "there is nothing to learn from outcomes that are all alike"
                raise DataError(f"{self._at('rating')} is {low:g} in every row that teaches: {what}.")
            scale.refuse_one_class(low, high)
            share = float(unit.mean())
            if scale.binary and min(share, 1 - share) < guess.FEWEST:
                words = impressions.wording(self.target, seen is not None)
                side = "" if share < 0.5 else "not "
                notes.append(f"only {min(share, 1 - share):.2%} of what was {words.seen} is {side}{words.won}")
        named = None if settings.get("item_names") is None else self._titles(settings["item_names"], item_ids, notes)
        called = {role: name for role, name in self.called.items() if role in guess.Names._fields}
        prefix = f"{self.where}: " if self.where else ""
        for note in notes:
            LOGGER.info("%s%s", prefix, note)
        log = RatingLog(
            users,
            items,
            unit,
            user_ids,
            item_ids,
            scale,
            user_features,
            item_features,
            duplicates_merged=n_rows - (len(unit) if listed is None else len(listed)),
            stars=stars,
            times=times,
            titles=named,
            names=names_like(settings)._replace(**called),
            library=self.library,
            notes=tuple(f"{prefix}{note}" for note in notes),
            cells=cells,
            chances=chances,
            target=self.target,
            listed=listed,
            context=context if context and listed is None and self.target in OVER_ALL else None,
        )
        if random is not None:
            log = log.with_random(random)
        return log

    def _closed(self, window: float) -> Self:
        """Return the rows at least `window` seconds older than the last one, whose outcomes have had time to come.

        What is known to have come later than that has not come.
        """
        times = self._times("time", [])
        if times is None or not isinstance(window, Real) or not window >= 0:
            raise DataError(
                f"window={window!r} leaves out rows by their age: it must be seconds, and the log have times."
            )
        if not (kept := times <= np.nanmax(times) - window).any():
            raise DataError(f"window={window!r} leaves out every row: they are of {np.ptp(times):,.0f} seconds.")
        rows = self._kept(kept, "are too young for their outcome to be known")
        shown, bought = rows._times("time", []), rows._times("conversion_time", [])
        if shown is None or bought is None or self.target in ("click", "implicit"):
            return rows
        late, ratings = bought - shown > window, plain(as_arrow(rows.columns["rating"], rows._at("rating")))
        if not late.any():
            return rows
        changed = pc.if_else(pa.array(late), pa.scalar(0).cast(ratings.type), ratings)
        note = f"{int(late.sum()):,} rows converted later than the window of {window:g}, and count as not converted"
        return rows._replace(columns=rows.columns | {"rating": changed}, notes=(*rows.notes, note))

    def _kept(self, kept: NDArray[np.bool_], others: str, without: str = "") -> Self:
        """Keep some of the rows, and count those left out; `without` is a role that is known of all of them."""
        columns = {
            role: as_arrow(column, self._at(role)).filter(pa.array(kept))
            for role, column in self.columns.items()
            if role != without
        }
        left = () if kept.all() else (f"{int((~kept).sum()):,} rows that {others} are left out",)
        return self._replace(columns=columns, notes=self.notes + left)

    def _outcomes(self) -> tuple[Any, NDArray[np.float64], Any]:
        """Tell which rows were seen, their ratings, and which have the outcome; None where that is no question."""
        where = self._at("rating")
        if self.target == "implicit":
            return None, np.ones(len(as_arrow(self.columns["user"], self._at("user")))), None
        if "seen" in self.columns:
            seen = impressions.as_flags(self.columns["seen"], self._at("seen"))
            shown = impressions.visible(self.columns["rating"], seen, where, self._at("seen"))
            read = as_ratings if self.target is None else impressions.as_flags
            return seen, read(shown, where).astype(np.float64), impressions.ones(self.columns["rating"], where)
        if self.target is None:
            return None, as_ratings(self.columns["rating"], where), None
        flags = impressions.as_flags(self.columns["rating"], where, missing=self.target == "click-and-conversion")
        return None, flags.astype(np.float64), flags

    def _at(self, role: str) -> str:
        """Return how sentences call a column."""
        if role not in self.called:
            return f"{role}s" if role in ("user", "item", "rating") else role
        return f"column {self.called[role]!r}" + (f" of {self.where}" if self.where else "")

    def _times(self, role: str, notes: list[str]) -> NDArray[np.float64] | None:
        if role not in self.columns:
            return None
        where = self._at(role)
        times = as_times(column := plain(as_arrow(self.columns[role], where)), where)
        if times is None:
            row = first_unread(column, lambda part: as_times(part, where))
            held = f"row {row + 1} holds {column[row].as_py()!r:.60}"
            notes.append(
                f"{where} is not read: {held}, no time of a known form, or of another one than the rows before"
            )
        return times

    def _scale(self, ratings: NDArray[np.float64], settings: Any, notes: list[str]) -> Scale:
        positive, limits, like = settings.get("positive", "guess"), settings.get("rating_scale"), settings.get("like")
        if self.target is not None and (positive not in ("guess", 1) or limits not in (None, (0, 1))):
            given = f"positive={positive!r}" if limits is None else f"rating_scale={limits!r}"
            raise ParameterError(
                f"{given} is of ratings, and for target={self.target!r} outcomes are 0 or 1: leave it out."
            )
        if self.target is not None or ("seen" in self.columns and limits is None and np.isin(ratings, (0, 1)).all()):
            return OUTCOMES
        if not _to_guess(positive):
            if limits is None and (odd := guess.standing_out(*guess.tallied(ratings))):
                notes.append(odd)
            return Scale.of(positive, limits)
        if limits is None and like is not None:
            return like.scale  # type: ignore[no-any-return]
        scale, words = guess.guessed_scale(
            ratings, self._at("rating"), None if limits is None else Scale.of(None, limits)
        )
        notes.append(words)
        return scale

    def _side(
        self, side: str, settings: Any, notes: list[str]
    ) -> tuple[NDArray[np.int32], Vocabulary, Features | None]:
        """Return codes, ids and features of users or items; who has features and no rating is known too."""
        given, known = settings.get(f"{side}_features"), settings.get(f"{side}_ids")
        codes, ids = encoded(self.columns[side], self._at(side), self.narrow, known)
        if "title" not in self.columns:  # which goes with the ids
            del self.columns[side]  # columns are let go once they are read
        if given is None:
            return codes, ids, None
        frame = FeatureFrame.of(given, side, self.called.get(side) or getattr(guess.NAMES, side))
        if known is None and (more := int((ids.codes(frame.ids) < 0).sum())):
            ids = ids.extended(frame.ids)
            notes.append(f"{more:,} {side}s have features and no rating, and are answered from their features")
        features = frame.aligned(ids)
        notes += features.notes
        return codes, ids, features

    def _titles(self, given: Any, ids: Vocabulary, notes: list[str]) -> pa.Array:
        """Return titles in the order of a vocabulary, null where there is none: of a column, a mapping or a frame."""
        if isinstance(given, str):
            if "title" not in self.columns:
                table = self.where or "the data"
                raise DataError(f"item_names={given!r} is neither a column of {table} nor a file: check the name.")
            keys, titles = self.columns["item"], self.columns["title"]
        elif isinstance(given, dict):
            keys, titles = list(given), list(given.values())
        else:
            where, roles = "the frame of item names", ("item", "title")
            columns, found = guess.frame_columns(given, roles, where, roles)
            key = found.get("item") or next(iter(columns), "")
            samples = guess.samples_of(columns)
            texts = [name for name, held in samples.items() if held and isinstance(held[0], str) and name != key]
            others = guess.find_columns(samples, {"user": None}, where, ("user",))[0].values()  # who is no title
            title = found.get("title") or next((name for name in texts if name not in others), None)
            if title is None:
                raise DataError(f"{where} has no column of titles, only {', '.join(map(repr, columns))}.")
            keys, titles = columns[key], columns[title]
        column, codes = plain(as_arrow(titles, "item names")), ids.codes(keys, "the ids of item names")
        if not is_text(column.type) and not is_number(column.type):
            raise DataError(f"item names are of type {column.type}: titles must be text.")
        column = as_text(column, "item names") if is_text(column.type) else column.cast(pa.large_string())
        row = np.full(len(ids), -1)
        row[codes[codes >= 0][::-1]] = np.flatnonzero(codes >= 0)[::-1]  # the first of several
        if (missing := int((row < 0).sum())) == len(ids):
            raise DataError(f"none of the {len(ids):,} items is named by item_names=: give titles by their ids.")
        if missing:
            notes.append(f"{missing:,} of {len(ids):,} items have no name")
        known = codes >= 0
        other = pc.not_equal(column.filter(pa.array(known)), column.take(pa.array(row[codes[known]]))).fill_null(False)
        if several := len(np.unique(codes[known][other.to_numpy(zero_copy_only=False)])):
            notes.append(f"{several:,} items have several names, of which the first is taken")
        return column.take(pa.array(row, mask=row < 0))


def find_rows(
    samples: Mapping[str, Sequence[Any]], given: Mapping[str, str | None], where: str, settings: Any
) -> tuple[Rows, dict[str, str]]:
    """Return rows that have no columns yet, and the names of those they need by role; see `find_roles`."""
    named, title = guess.named_as(given, samples, names_like(settings)), settings.get("item_names")
    called, notes, target = impressions.find_roles(
        samples, named, where, settings.get("target"), settings.get("context")
    )
    titles = {"title": title} if isinstance(title, str) and title in samples else {}
    return Rows({}, called, notes, target), called | titles


def names_like(settings: Any) -> guess.Names:
    """Return what columns are called where no names are given: as those of another log."""
    return guess.NAMES if settings.get("like") is None else settings["like"].names


def check_settings(settings: Any) -> None:
    """Refuse what cannot be meant, before anything is read."""
    known = set(LogSettings.__annotations__)
    for name in settings:
        if name not in known:
            raise ParameterError(f"a log has no setting {name!r}{nearest(name, known)}")
    chosen(settings.get("duplicates", "error"), "duplicates", get_args(Duplicates))
    if settings.get("target") is not None:
        chosen(settings["target"], "target", get_args(Target))
    if not _to_guess(settings.get("positive", "guess")):
        Scale.of(settings["positive"], settings.get("rating_scale"))
    if not isinstance(settings.get("like"), RatingLog | None):
        raise ParameterError(f"like must be a RatingLog, not a {type(settings['like']).__name__}.")


def _to_guess(positive: Any) -> bool:
    return isinstance(positive, str) and positive == "guess"


def as_times(values: Any, where: str) -> NDArray[np.float64] | None:
    """Return times as seconds since 1970 or as the numbers they are; None if they cannot be read."""
    column = plain(as_arrow(values, where))
    try:
        if is_text(column.type):
            text = as_text(column, where)
            zoned = pc.any(pc.match_substring_regex(text[:100], r"(Z|[+-]\d\d:?\d\d)$")).as_py()
            numbers = guess.is_number(str(next(iter(text), "")))
            column = pc.cast(text, pa.float64() if numbers else pa.timestamp("us", "UTC" if zoned else None))
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            column = pc.divide(column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
        if is_number(column.type):
            return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    except (pa.ArrowException, DataError):
        pass
    return None


def _merged(
    users: Any, items: Any, ratings: Any, times: Any, user_ids: Vocabulary, item_ids: Vocabulary, how: str
) -> tuple[Any, Any, Any, Any]:
    """Merge columns to one row a pair: the last of several stays, by its own rating or their mean; or an error."""
    keys = pair_keys(users, items, len(item_ids))
    keys.sort()  # faster than one that remembers places
    if not (keys[1:] == keys[:-1]).any():
        return users, items, ratings, times
    keys = pair_keys(users, items, len(item_ids))
    order = keys.argsort(kind="stable")
    again = keys[order][1:] == keys[order][:-1]
    if how in ("error", "once"):
        advice = "leave one out"
        if how == "error":
            advice = "duplicates='last' keeps the last rating and duplicates='mean' averages them"
        second = int(order[1:][again].min())
        first = int((keys == keys[second]).argmax())
        raise DataError(
            f"user {user_ids[users[second]]!r} rated item {item_ids[items[second]]!r} twice, in rows {first + 1} and "
            f"{second + 1}: {advice}."
        )
    last = order[np.append(~again, True)]
    if how == "mean":
        starts = np.flatnonzero(np.append(True, ~again))
        ratings = ratings.copy()
        ratings[last] = np.add.reduceat(ratings[order], starts) / np.diff(np.append(starts, len(order)))
    last = np.sort(last)
    return users[last], items[last], ratings[last], None if times is None else times[last]


def refuse_duplicates(users: Any, items: Any, user_ids: Vocabulary, item_ids: Vocabulary) -> None:
    """Raise a DataError that names the first row whose pair an earlier row already holds."""
    _merged(users, items, None, None, user_ids, item_ids, "once")
