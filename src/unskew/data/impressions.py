"""Columns of a log of impressions: what was shown, whether it was clicked, whether it was bought."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.guess import KNOWN, find_columns, plain_name
from unskew.data.ids import as_arrow, plain
from unskew.data.pairs import pair_keys
from unskew.data.population import ListedRows
from unskew.data.scale import as_ratings
from unskew.errors import DataError, ParameterError, words

Flags = NDArray[np.bool_]
Target = Literal["click", "conversion", "click-and-conversion", "implicit"]
OVER_ALL = ("click", "click-and-conversion")  # targets that are wanted over all pairs and known of what was shown
CONTEXT = ("request", "position", "examination", "policy", "pscore", "is_random", "sample_rate")  # what a row may have
NAMED, MOST_LEVELS = "context.", 1_000  # of columns of context that were asked for by name
OFF = 3.0  # standard errors from which on logged chances are doubted


class Wording(NamedTuple):
    """How sentences call that the outcome of a pair is known, what it is if it is positive, and what rows are."""

    seen: str = "rated"
    won: str = "liked"
    rows: str = "ratings"
    beforehand: str = "people choose by what can be known beforehand"
    afterwards: str = "they rate what they turn out to love"

    @property
    def lost(self) -> str:
        """How what is not positive is called."""
        return "disliked" if self.won == "liked" else f"not {self.won}"


RATINGS = Wording()
OF_ROWS = "rows", "what is shown is chosen by what can be known beforehand", "by how it turns out"
WORDINGS = {
    "click": Wording("shown", "clicked", *OF_ROWS),
    "conversion": Wording("clicked", "bought", *OF_ROWS),
    "click-and-conversion": Wording("shown", "bought", *OF_ROWS),
    "implicit": Wording("positive", "positive", *OF_ROWS),
    "": Wording("seen", "positive", *OF_ROWS),
}


def wording(target: str | None, listed: bool) -> Wording:
    """Return how sentences call things; of listed rows without a target only that they are seen is known."""
    return WORDINGS[target or ""] if target or listed else RATINGS


CLICKS = (
    "These rows tell what was shown and clicked, and the model learned ratings: learn clicks in a model of their own, "
    "which later ones update."
)
RATED = {*KNOWN["rating"]} - {*KNOWN["clicked"], *KNOWN["converted"]}


def tell_clicks(columns: Iterable[str]) -> bool:
    """Return whether columns of these names tell what was clicked, and none what was rated."""
    known = {plain_name(name) for name in columns}
    return not known.isdisjoint(KNOWN["clicked"]) and known.isdisjoint(RATED)


def refuse_clicks(columns: Iterable[str], rating: str) -> None:
    """Raise a DataError if rows of these columns, for a model of ratings in the column `rating`, are impressions."""
    if rating not in columns and tell_clicks(columns):
        raise DataError(CLICKS)


def find_roles(
    samples: Mapping[str, Sequence[Any]],
    named: Mapping[str, str | None],
    where: str,
    target: str | None,
    context: Any = None,
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Return the columns of a log by role, the guesses in words, and what answers are wanted for.

    `samples` has some values of each column, `named` the columns that are known, `context` names of further ones.
    `target` is what answers are wanted for: "click" (would it be clicked if shown, over all pairs), "conversion"
    (would it convert if clicked, over everything shown), "click-and-conversion" (over all pairs) or "implicit" (would
    it be liked, from rows that are all positive). Without it, a table with clicks and conversions and no ratings is
    read for conversions, and one with clicks alone for clicks.
    """
    known = {plain_name(name): name for name in samples}
    clicked, converted = (next((known[n] for n in KNOWN[e] if n in known), None) for e in ("clicked", "converted"))
    given, notes = dict(named), list[str]()
    if target is None and not (given["rating"] or given["seen"]) and tell_clicks(samples):
        target = "conversion" if converted else "click"
        notes.append(f"rows are what was shown, and answers are for target={target!r} (target= changes this)")
    if target is None and given["seen"] and (given["seen"], given["rating"]) == (clicked, converted):
        target = "conversion"
    if target == "implicit":
        given["rating"] = given["rating"] or clicked
    elif target is not None:
        outcome = ("rating", "clicks", clicked) if target == "click" else ("rating", "conversions", converted)
        for role, event, column in (outcome, *((("seen", "clicks", clicked),) if target == "conversion" else ())):
            given[role] = given[role] or column
            if given[role] is None:
                raise DataError(f"{where} has no column that is known to hold {event}: set {role}= to the right one.")
    if given["seen"] is None:
        del given["seen"]
    asked, optional = words(context, "context") if context else (), ["time"]
    if target is not None or "seen" in given:
        given |= {f"{NAMED}{name}": name for name in asked}
        optional += [role for role in (*CONTEXT, "conversion_time") if role not in given]
        given = dict.fromkeys(optional) | given
    elif asked:
        raise ParameterError(f"context={asked!r} is known of impressions, and {where} holds ratings: set target=.")
    found, guessed = find_columns(samples, given, where, [*optional, *(["rating"] if target == "implicit" else [])])
    return found, (*notes, *guessed), target


def as_flags(values: Any, where: str, missing: bool = False) -> Flags:
    """Return a column of 0 and 1, or of true and false, or a DataError that names the first row with anything else.

    With `missing`, what is missing counts as 0.
    """
    column = plain(as_arrow(values, where))
    if pa.types.is_boolean(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
    numbers = as_ratings(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column, where)
    numbers = np.nan_to_num(numbers) if missing else numbers
    if (bad := ~((numbers == 0) | (numbers == 1))).any():
        row = int(bad.argmax())
        raise DataError(f"row {row + 1} of {where} holds {_held(numbers[row])}, where only 0 and 1 tell yes from no.")
    return np.asarray(numbers == 1)


def ones(values: Any, where: str) -> Flags:
    """Return which rows hold 1 or true, whatever the others hold."""
    column = plain(as_arrow(values, where))
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(pc.equal(column.cast(pa.large_string()), "1").fill_null(False))


def visible(ratings: Any, seen: Flags, where: str, seen_where: str) -> Any:
    """Fill the column of ratings: rows that were not seen hold the rating of one that was, and are not read."""
    if not seen.any():
        raise DataError(f"{seen_where} is 0 in every row: where nothing is seen there is nothing to learn from.")
    column = plain(as_arrow(ratings, where))
    if len(column) != len(seen):
        raise DataError(f"{where} has {len(column):,} rows and {seen_where} {len(seen):,}: give one a row.")
    return pc.if_else(pa.array(seen), column, column[int(seen.argmax())])


def counted(listed: ListedRows, ratings: NDArray[Any], n_items: int) -> tuple[ListedRows, NDArray[Any]]:
    """Equal rows (pair, seen or not, rating) as one that stands for as many; what else they held is lost."""
    levels, level = np.unique(ratings, return_inverse=True)
    keys = pair_keys(listed.users, listed.items, n_items)
    keys = pair_keys(keys, np.where(listed.seen, level + 1, 0), len(levels) + 1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    cells = np.bincount(place, listed.cells).astype(np.float32)
    order = np.argsort(first)  # that of the file
    rows = first[order]
    return replace(listed.take(rows), cells=cells[order], columns={}), ratings[rows]


def grouped(keys: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of each row's group of equal keys, and the rows of each; `np.unique` takes twice the memory."""
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(keys), np.bool_)
    new[1:] = np.diff(keys[order]) != 0
    place = np.empty(len(keys), np.int32)
    place[order] = np.cumsum(new, dtype=np.int32) - 1
    return place, np.diff(np.flatnonzero(np.append(new, True)))


def shares(keys: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """Return the share of its pair that each row stands for, where pairs may have several rows; None if none has."""
    place, count = grouped(keys)
    return None if count.max() == 1 else (1 / count).astype(np.float32)[place]


def contexts(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int32] | None:
    """Number where and how rows were shown: their position (or its examination), with each column of context."""
    place = "examination" if "examination" in columns else "position"
    used = [name for name in columns if name == place or name.startswith(NAMED)]
    number, count = np.zeros(len(next(iter(columns.values()), ())), np.int32), np.ones(1, np.int64)
    for name in used:
        levels, sizes = grouped(columns[name])
        number, count = grouped(number.astype(np.int64) * len(sizes) + levels)
    if len(count) > MOST_LEVELS:
        raise DataError(f"rows were shown in {len(count):,} contexts by {' and '.join(used)}: leave some of these out.")
    return number if len(count) > 1 else None


def chances_shown(users: NDArray[Any], items: NDArray[Any], pscore: NDArray[Any], n_items: int) -> NDArray[Any]:
    """Return the chance 1 - (1 - p)^n that the pair of a row was shown at all.

    n are the rows of its user and p is the mean logged chance of the pair's rows: exact for chances that depend on user
    and item alone. A sum over shown pairs of 1 / chance is then unbiased over all pairs (Horvitz & Thompson, 1952).
    """
    place, count = grouped(pair_keys(users, items, n_items))
    p = (np.bincount(place, pscore) / count)[place]
    with np.errstate(divide="ignore"):  # of chances of 1
        return np.asarray(-np.expm1(np.bincount(users)[users] * np.log1p(-p)), np.float32)


def as_drawn(
    users: Any, items: Any, context: Mapping[str, NDArray[Any]], n_items: int, notes: list[str]
) -> tuple[Flags | None, NDArray[np.float32] | None]:
    """Tell which rows of impressions are random traffic, and the chances of the others to be shown at all if logged."""
    random = context.get("is_random")
    if random is not None and random.all():
        notes.append("every row is random traffic: what was shown was not chosen, and all rows are trained on")
    if random is None or random.all() or not random.any():
        random = None
    else:
        words = "are random traffic: half of their pairs correct what the others teach, half judge it"
        notes.append(f"{int(random.sum()):,} rows {words}")
    if "pscore" not in context:
        return random, None
    if "sample_rate" in context:
        notes.append("pscore is of rows some of which were left out by their sample_rate: not used")
        return random, None
    notes += implied(context["pscore"], n_items)
    rest = np.ones(len(users), np.bool_) if random is None else ~random
    if "policy" in context and len(np.unique(context["policy"][rest])) > 1:
        notes.append("pscore is of several policies, and what the others would have shown is not known: not used")
        return random, None
    chances = np.ones(len(users), np.float32)
    chances[rest] = chances_shown(users[rest], items[rest], context["pscore"][rest], n_items)
    return random, chances


def implied(pscore: NDArray[Any], n_items: int) -> list[str]:
    """Check logged chances, in words: over rows, 1 / p has the number of items that can be shown as its mean."""
    inverse = 1 / pscore.astype(np.float64)
    mean, error = inverse.mean(), inverse.std() / np.sqrt(len(inverse))
    if abs(mean - n_items) <= OFF * error + 0.2 * n_items:  # few rows with a small p decide the mean: errors are rough
        return []
    words = f"true chances over all {n_items:,} items give that number, or less where some cannot be shown to all"
    return [f"1 / pscore has a mean of {mean:,.4g} where {words}"]


def counted_as(bad: Flags, what: str) -> list[str]:
    """Say how many rows are bad, in what, and which is the first."""
    return [f"{int(bad.sum()):,} rows {what}, the first is row {int(bad.argmax()) + 1}"] if bad.any() else []


def time_remarks(times: Any, bought: Any, won: Flags | None, at: Callable[[str], str], now: float) -> list[str]:
    """Return what is odd about times, in words; each is counted and its first row named."""

    notes = []
    for role, column in (("time", times), ("conversion_time", bought)):
        if column is not None and not (column[~np.isnan(column)] > now).all():  # where all are, the unit is another
            notes += counted_as(column > now, f"have a time in the future in {at(role)}")
    if times is not None:
        notes += counted_as(np.diff(times, prepend=times[:1]) < 0, f"stand behind a later one in {at('time')}")
    if bought is not None:
        if times is not None:
            notes += counted_as(bought < times, f"have a time in {at('conversion_time')} before they were shown")
        if won is not None:
            notes += counted_as(~np.isnan(bought) & ~won, f"have a time in {at('conversion_time')} and no conversion")
    return notes


def _held(number: float) -> str:
    return "nothing" if np.isnan(number) else f"{number:g}"


def context_of(columns: Mapping[str, Any], at: Callable[[str], str], n_rows: int) -> dict[str, NDArray[Any]]:
    """Check what rows have besides: requests and policies as numbers, positions, logged chances, what is random.

    Of columns of context every value is a level, and so is a missing one.
    """
    found: dict[str, NDArray[Any]] = {}
    for role in (*CONTEXT, *(name for name in columns if name.startswith(NAMED))):
        if role not in columns:
            continue
        if role == "is_random":
            column: NDArray[Any] = as_flags(columns[role], at(role))
        elif role in ("request", "policy") or role.startswith(NAMED):
            missing = "encode" if role.startswith(NAMED) else "mask"
            codes = plain(as_arrow(columns[role], at(role))).dictionary_encode(missing)
            if role.startswith(NAMED) and len(codes.dictionary) > MOST_LEVELS:
                raise DataError(
                    f"{at(role)} holds {len(codes.dictionary):,} different values, which is more than {MOST_LEVELS:,} "
                    "levels of a context: join them to fewer."
                )
            column = np.asarray(codes.indices.fill_null(-1), np.int32)
            if role == "policy":
                names = [str(name).lower() for name in codes.dictionary.to_pylist()]
                if "random" in names:
                    found["is_random"] = column == names.index("random")  # unless a column says so, below
                column = np.array([*(crc32(name.encode()) >> 1 for name in names), -1], np.int32)[
                    column
                ]  # in every log
        else:
            column = as_ratings(columns[role], at(role))
            place = role == "position"
            if (good := (column >= 0) if place else (column > 0) & (column <= 1)).all():
                column = column.astype(np.float32)
            else:
                row, span = int(good.argmin()), "0 or more" if place else "above 0 and at most 1"
                raise DataError(f"row {row + 1} of {at(role)} holds {_held(column[row])}: it must be {span}.")
        if len(column) != n_rows:
            raise DataError(f"{at(role)} has {len(column):,} rows for {n_rows:,} of the log: give one a row.")
        found[role] = column
    return found


def remarks(
    items: NDArray[Any], won: Flags, seen: Flags | None, context: Mapping[str, NDArray[Any]], where: str
) -> list[str]:
    """Return what stands out in a log of impressions, in words; `won` are rows with the outcome, seen or not."""
    notes = []
    if seen is not None:
        notes += counted_as(won & ~seen, f"have an outcome in {where} and were not seen: it is not read")
        if seen.all():
            notes.append("every row was seen: rows that were shown and not seen are missing")
    happened = won if seen is None else seen
    if "request" in context:
        request = context["request"]
        place, count = grouped(pair_keys(request, items, int(items.max()) + 1))
        if len(count) < len(place):
            repeat = np.flatnonzero(place == (count > 1).argmax())[1] + 1
            words = "rows repeat another of the same request, and count as rows, one of them row"
            notes.append(f"{len(place) - len(count):,} {words} {repeat}")
        several = np.bincount(request[happened & (request >= 0)]) > 1
        if several.any():
            first = int((request == several.argmax()).argmax()) + 1
            words = "requests have several rows that were chosen, the first in row"
            notes.append(f"{int(several.sum()):,} {words} {first}")
    if "position" in context and len(np.unique(context["position"])) > 1:
        places = np.unique(context["position"][happened])
        if len(places) == 1:
            notes.append(f"everything chosen stood at position {places[0]:g}: other places tell nothing")
    if "policy" in context and len(np.unique(context["policy"])) == 1:
        notes.append("the column of policies holds one policy alone")
    return notes
