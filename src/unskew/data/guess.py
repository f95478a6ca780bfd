"""What a table of ratings means, found by looking: columns by name and content, delimiter, header, what is liked.

A guess is made only where there is one answer, and every guess comes with a sentence that says how to override it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.scale import Scale
from unskew.errors import DataError

# Names without case and punctuation; the first is the documented one, and goes before all others.
NAMES = {
    "user": (
        *("userid", "user", "uid", "username", "customer", "customerid", "custid", "client", "clientid", "account"),
        *("accountid", "member", "memberid", "person", "personid", "profile", "profileid", "reader", "readerid"),
        *("reviewer", "reviewerid", "visitor", "visitorid", "viewer", "viewerid", "playerid"),
    ),
    "item": (
        *("itemid", "item", "iid", "movie", "movieid", "film", "filmid", "product", "productid", "asin", "parentasin"),
        *("sku", "article", "articleid", "book", "bookid", "isbn", "business", "businessid", "song", "songid", "track"),
        *("trackid", "artist", "artistid", "album", "albumid", "video", "videoid", "show", "showid", "game", "gameid"),
        *("news", "newsid", "recipe", "recipeid", "restaurant", "restaurantid", "hotel", "hotelid", "course"),
        *("courseid", "podcast", "podcastid", "app", "appid", "anime", "animeid", "beer", "beerid", "joke", "jokeid"),
    ),
    "rating": (
        *("rating", "ratings", "rate", "score", "star", "stars", "overall", "label", "grade", "ratingvalue"),
        *("clicked", "click", "liked", "like", "purchased", "bought", "converted", "conversion", "response", "reward"),
        "watchratio",
    ),
    "time": ("timestamp", "time", "datetime", "date", "ts", "unixreviewtime", "reviewtime", "createdat", "unixtime"),
    "title": ("title", "name", "itemname", "itemtitle", "movietitle", "movie", "product", "book", "song", "artist"),
    "clicked": ("clicked", "click", "isclick", "isclicked"),
    "converted": ("converted", "conversion", "isconverted", "purchased", "purchase", "bought"),
    "request": ("request", "requestid", "impressionid", "queryid"),
    "position": ("position", "pos", "slot", "rank"),
    "policy": ("policy", "policyid", "policyname"),
    "pscore": ("pscore", "propensity", "propensityscore", "actionprob"),
    "is_random": ("israndom", "random", "randomized"),
    "sample_rate": ("samplerate", "samplingrate"),
}
ENDINGS = ("rating", "ratings", "stars", "score")  # of names that hold ratings where none of those above does
PLURAL = {role: f"{role}s" for role in NAMES} | {
    "seen": "what was seen",
    "clicked": "clicks",
    "converted": "conversions",
}
PLURAL |= {"policy": "policies", "is_random": "random rows"}
DOCUMENTED = {role: role for role in NAMES} | {
    "user": "user_id",
    "item": "item_id",
    "time": "timestamp",
    "seen": "seen",
}
DELIMITERS = ("::", ",", ";", "\t", "|", " ")
OLDEST = 1e8  # seconds since 1970 from which on a number is taken for a time: 1973
MOST_STEPS = 101
FEWEST = 0.005  # share of ratings in the smaller class below which a guessed threshold is refused
# Lowest rating, highest, and the step between: a scale is known by its highest rating, the lowest need not occur.
SCALES = ((1, 5, 1), (0, 5, 1), (0.5, 5, 0.5), (0, 5, 0.5), (1, 10, 1), (0, 10, 1), (-10, 10, 1), (0, 100, 1))
OVERRIDE = "(positive= sets another threshold, graded ratings need rating_scale=)"


class Layout(NamedTuple):
    """How lines of text are to be read; `notes` say what was guessed."""

    delimiter: str
    header: bool
    decimal: str = "."
    notes: tuple[str, ...] = ()

    def fields(self, lines: Sequence[str]) -> list[list[str]]:
        """The fields of each line."""
        if len(self.delimiter) > 1:
            return [line.split(self.delimiter) for line in lines]
        try:
            return list(csv.reader(lines, delimiter=self.delimiter))
        except csv.Error:  # the reader of the whole file will say what is wrong
            return [line.split(self.delimiter) for line in lines]


def layout_of(lines: Sequence[str], usual: str, delimiter: str | None, header: bool | None, wanted: Any) -> Layout:
    """How the first lines of a file are separated, whether the first one names columns, and what marks decimals.

    `wanted` are names of columns that were asked for: a line that holds one of them is a header.
    """
    notes = []
    if delimiter is None:
        delimiter = usual
        if len(lines[0].split(usual)) == 1 or (usual == ":" and "::" in lines[0]):
            alike = [other for other in DELIMITERS if other != usual and _splits(lines, other)]
            if alike and (len(alike) == 1 or alike[0] == "::"):
                delimiter = alike[0]
                notes.append(f"columns are separated by {delimiter!r} (delimiter= changes this)")
    layout = Layout(delimiter, True)
    first, *rest = layout.fields(lines)
    if header is None:
        header = any(field in wanted for field in first) or not any(map(is_number, first))
        if not header:
            notes.append("its first line is no header, as it holds a number (header= changes this)")
    fields = [field for row in (rest if header else [first, *rest]) for field in row]
    decimal = "," if delimiter != "," and any(re.fullmatch(r"-?\d+,\d+", field.strip()) for field in fields) else "."
    if decimal == ",":
        notes.append("decimals are marked by a comma")
    return Layout(delimiter, header, decimal, tuple(notes))


def _splits(lines: Sequence[str], delimiter: str) -> bool:
    """Whether a delimiter splits all lines alike, into two fields at least."""
    widths = {len(row) for row in Layout(delimiter, True).fields(lines)}
    return len(widths) == 1 and widths.pop() > 1


def columns_by_name(
    samples: Mapping[str, Sequence[Any]], given: Mapping[str, str | None], where: str, optional: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """The name of the column for each role, and the guesses in words; `samples` has some values of each column.

    A role that several columns may have, or none, is asked for, unless it is optional.
    """
    found: dict[str, str] = {}
    for role, name in given.items():
        candidates = [name] if name is not None else _candidates(role, samples)
        candidates = [other for other in candidates if name is not None or other not in found.values()]
        if len(candidates) == 1:
            found[role] = candidates[0]
        elif role in optional:
            continue
        else:
            names = candidates or list(samples)
            listed = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            if candidates:
                what = f"has several columns that may hold {PLURAL[role]}, {listed}: set {role}= to one of them."
            else:
                what = (
                    f"has no column that is known to hold {PLURAL[role]}, only {listed}: set {role}= to the right one"
                )
                what += _positives_only(role) + "."
            raise DataError(f"{where} {what}")
    guessed = [role for role in found if given[role] is None and found[role] != DOCUMENTED[role]]
    words = ", ".join(f"{PLURAL[role]} are in {found[role]!r}" for role in guessed)
    verb = "changes" if len(guessed) == 1 else "change"
    return found, [f"{words} ({', '.join(f'{role}=' for role in guessed)} {verb} this)"] if guessed else []


def _positives_only(role: str) -> str:
    if role != "rating":
        return ""
    return "; a file of clicks or purchases alone does not tell what people saw and left: for it, set target='implicit'"


def _candidates(role: str, samples: Mapping[str, Sequence[Any]]) -> list[str]:
    """Columns that may have a role, by name and then by content: a title is no id, and an id is no title."""
    named = [name for name in samples if plain_name(name) in NAMES[role]]
    if role == "rating" and not named:
        named = [name for name in samples if plain_name(name).endswith(ENDINGS)]
    documented = [name for name in named if plain_name(name) == NAMES[role][0]]
    no_titles = [name for name in named if not looks_like_titles(samples[name])]
    numbered = [name for name in no_titles if plain_name(name).endswith("id")]
    for kept in (documented, *((no_titles, numbered) if role in ("user", "item") else ())):
        named = kept if len(named) > 1 and kept else named
    if role == "title":
        named = [name for name in named if not all(map(is_number, map(str, samples[name])))]
    if role not in ("user", "item", "rating", "title"):
        named = named[:1]
    return named


def columns_by_place(rows: Sequence[Sequence[str]], given: Mapping[str, str | None], where: str) -> dict[str, str]:
    """The columns of a file without a header by their places, counted from 1: users, items, ratings, perhaps times."""
    width, wanted = len(rows[0]), [role for role in given if role != "time"]
    last = len(wanted) + 1
    timed = width == last and all(is_number(row[-1]) and float(row[-1]) > OLDEST for row in rows if row)
    if any(given[role] is None for role in wanted) and not (width == len(wanted) or timed):
        places = ", ".join(f"{role}={str(place)!r}" for place, role in enumerate(wanted, 1))
        raise DataError(
            f"{where} has no header and {width} columns, of which the first row holds {', '.join(rows[0])}: "
            f"name them by their places, such as {places}."
        )
    times = {"time": str(last)} if timed and "time" in given and given["time"] is None else {}
    return {role: given[role] or str(place) for place, role in enumerate(wanted, 1)} | times


def guessed_scale(ratings: NDArray[np.float64], where: str, limits: Scale | None = None) -> tuple[Scale, str]:
    """The scale that ratings have, and the guess in words: liked is the middle of the scale or above.

    `limits` has the ends of the scale, if they are known. Refused where there is nothing to go by, and where almost
    nothing would be liked, or disliked.
    """
    finite = ratings[np.isfinite(ratings)]
    distinct = sorted(pa.array(finite).unique().to_pylist())
    if len(distinct) < 2:
        what = "no ratings" if not distinct else f"only the rating {distinct[0]:g}"
        raise DataError(
            f"{where} has {what}: unskew learns from ratings that differ, and what people clicked or bought does not "
            "tell what they dislike."
        )
    if limits is not None:
        scale = Scale((limits.low + limits.high) / 2, limits.low, limits.high)
        words = f"{scale.positive:g} or more, the middle of the scale or above, is liked"
    elif len(distinct) == 2:
        low, high = distinct
        ends = (low, high) if high == 1 else ()  # 0 or 1 is all there is; 2 and 4 may have 5 besides
        scale, words = Scale(high, *ends), f"ratings are {low:g} or {high:g}, and {high:g} is liked"
    else:
        low, high, step = _known(distinct) or (distinct[0], distinct[-1], 0.0)
        if not step and len(distinct) > MOST_STEPS:
            raise DataError(
                f"{where} holds {len(distinct):,} different numbers from {low:g} to {high:g}, which is no scale of "
                "ratings: say from where on they are liked by positive=, or keep them graded by rating_scale=."
            )
        middle = (low + high) / 2
        positive = low + step * math.ceil((middle - low) / step) if step else min(r for r in distinct if r >= middle)
        words = f"ratings go from {low:g} to {high:g}, and {positive:g} or more, the middle or above, is liked"
        scale = Scale(positive, low, high) if step else Scale(positive)
    liked = float(scale.to_unit(finite).mean())
    if min(liked, 1 - liked) < FEWEST and len(finite) * FEWEST > 1:
        side = "liked" if liked < 0.5 else "disliked"
        raise DataError(
            f"{where}: {words}, but that leaves {min(liked, 1 - liked):.2%} {side}{_standing_out(distinct)}: remove "
            "such rows, or say from where on ratings are liked by positive=."
        )
    return scale, f"{words} {OVERRIDE}{_standing_out(distinct)}"


def _standing_out(distinct: list[float]) -> str:
    """A clause about a lowest or highest rating that lies farther from the others than they lie apart."""
    for odd, rest in ((distinct[-1], distinct[:-1]), (distinct[0], distinct[1:])):
        reach = rest[-1] - rest[0]
        if len(rest) > 1 and min(abs(odd - rest[0]), abs(odd - rest[-1])) > reach:
            return f", as {odd:g} stands out: all others lie from {rest[0]:g} to {rest[-1]:g}"
    return ""


def _known(distinct: list[float]) -> tuple[float, float, float] | None:
    for low, high, step in SCALES:
        steps = [(rating - low) / step for rating in distinct]
        if distinct[-1] == high and steps[0] >= 0 and all(place == int(place) for place in steps):
            return low, high, step
    return None


def looks_like_titles(values: Sequence[Any]) -> bool:
    """Whether most values are texts of several words."""
    texts = [value for value in values if isinstance(value, str)]
    return 2 * sum(" " in text.strip() for text in texts) > max(len(values), 1)


def plain_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def is_number(text: str) -> bool:
    try:
        float(text.replace(",", ".", 1))
    except ValueError:
        return False
    return "_" not in text and text.strip().casefold() not in ("nan", "inf", "infinity", "-inf")
