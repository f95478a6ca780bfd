"""What a table of ratings means, found by looking: columns by name and content, delimiter, header, what is liked.

A guess is made only where there is one answer, and every guess comes with a sentence that says how to override it.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.ids import as_arrow, plain
from unskew.data.scale import Scale
from unskew.errors import DataError, nearest


class Names(NamedTuple):
    """What the columns were called where they came from, and are called in answers; by default as documented."""

    user: str = "user_id"
    item: str = "item_id"
    rating: str = "rating"
    time: str = "timestamp"
    title: str = "title"


NAMES = Names()
ROLES = ("user", "item", "rating", "time", "seen")  # whose columns may be named

# Names of columns by role, without case and punctuation; the first is the documented one, and goes before all others.
MOST_SHOWN = 8  # values of a row that a sentence shows
_KNOWN = {
    "user": (
        "userid user uid username customer customerid custid client clientid account accountid member memberid person "
        "personid profile profileid reader readerid reviewer reviewerid visitor visitorid viewer viewerid playerid"
    ),
    "item": (
        "itemid item iid movie movieid film filmid product productid asin parentasin sku article articleid book bookid "
        "isbn business businessid song songid track trackid artist artistid album albumid video videoid show showid "
        "game gameid news newsid recipe recipeid restaurant restaurantid hotel hotelid course courseid podcast "
        "podcastid app appid anime animeid beer beerid joke jokeid"
    ),
    "rating": (
        "rating ratings rate score star stars overall label grade ratingvalue clicked click isclick liked like "
        "purchased bought converted conversion response reward watchratio"
    ),
    "time": "timestamp time datetime date ts unixreviewtime reviewtime createdat unixtime",
    "title": "title name itemname itemtitle movietitle movie product book song artist",
    "clicked": "clicked click isclick isclicked",
    "converted": "converted conversion isconverted purchased purchase bought",
    "conversion_time": "conversiontime conversiondate convertedat purchasetime purchasedat boughtat",
    "request": "request requestid impressionid queryid",
    "position": "position pos slot rank",
    "examination": "examination",
    "policy": "policy policyid policyname",
    "pscore": "pscore propensity propensityscore actionprob",
    "is_random": "israndom random randomized",
    "sample_rate": "samplerate samplingrate",
}
KNOWN = {role: tuple(names.split()) for role, names in _KNOWN.items()}
DOCUMENTED = {role: role for role in (*KNOWN, "seen")} | NAMES._asdict()
PLURAL = {role: f"{role}s" for role in KNOWN} | {"seen": "what was seen", "clicked": "clicks"}
PLURAL |= {
    "converted": "conversions",
    "conversion_time": "times of conversions",
    "policy": "policies",
    "is_random": "random rows",
}
ENDINGS = ("rating", "ratings", "stars", "score")  # of names that hold ratings where none of those above does
DELIMITERS = ("::", ",", ";", "\t", "|", " ")
DECIMAL = re.compile(r"\s*-?\d+,\d+\s*")
OLDEST = 1e8  # seconds since 1970 from which on a number is taken for a time: 1973
MOST_STEPS = 101
FEWEST = 0.005  # share of ratings in the smaller class below which a guessed threshold is refused
# Lowest rating, highest, and the step between: a scale is known by its highest rating, the lowest need not occur.
SCALES = ((1, 5, 1), (0, 5, 1), (0.5, 5, 0.5), (0, 5, 0.5), (1, 10, 1), (0, 10, 1), (0, 100, 1))
OVERRIDE = "(positive= sets another threshold, graded ratings need rating_scale=)"


class Layout(NamedTuple):
    """How lines of text are to be read; `notes` say what was guessed."""

    delimiter: str
    header: bool
    decimal: str = "."
    notes: tuple[str, ...] = ()

    def fields(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the fields of each line."""
        with suppress(csv.Error):  # the reader of the whole file will say what is wrong
            if len(self.delimiter) == 1:
                return list(csv.reader(lines, delimiter=self.delimiter))
        return [line.split(self.delimiter) for line in lines]


def layout_of(lines: Sequence[str], usual: str, wanted: Sequence[str] = ()) -> Layout:
    """Return how the first lines of a file are separated, whether the first one names columns, and what marks decimals.

    `wanted` are names of columns that were asked for: a line that holds one of them, which is no place, is a header.
    """
    delimiter, notes = usual, []
    split = {other: Layout(other, True).fields(lines) for other in DELIMITERS}
    alike = [other for other, rows in split.items() if len({*map(len, rows)}) == 1 < len(rows[0])]
    if any(all(any(map(DECIMAL.fullmatch, row)) for row in split[other]) for other in {*alike} - {",", " "}):
        alike = [other for other in alike if other != ","]  # it marks decimals
    if usual not in alike:
        spaces = usual not in lines[0] and alike == [" "]  # which also stand between words
        alike = alike if spaces else [other for other in alike if other != " "]
        if len(alike) == 1 or alike[:1] == ["::"]:
            delimiter = alike[0]
            notes.append(f"columns are separated by {delimiter!r}")
    first, *rest = split[delimiter]
    places = map(str, range(1, len(first) + 1))
    header = not {*wanted}.difference(places).isdisjoint(first) or not any(map(is_number, first))
    if not header:
        notes.append("its first line is no header, as it holds a number")
    fields = [field for row in (rest if header else [first, *rest]) for field in row]
    decimal = "," if delimiter != "," and any(map(DECIMAL.fullmatch, fields)) else "."
    if decimal == ",":
        notes.append("decimals are marked by a comma")
    return Layout(delimiter, header, decimal, tuple(notes))


def frame_columns(
    frame: Any, roles: Iterable[str], where: str = "the frame", optional: Sequence[str] = (), like: Names = NAMES
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the columns of a frame by name, and the names of those that have the roles."""
    columns = columns_of(frame, where)
    return columns, find_columns(samples_of(columns), named_as(dict.fromkeys(roles), columns, like), where, optional)[0]


def named_as(given: Mapping[str, str | None], columns: Any, like: Names) -> dict[str, str | None]:
    """Return names of columns by role; those that are not given are as in `like`, where such columns are left."""
    known = {role: name for role, name in like._asdict().items() if name in columns and name not in given.values()}
    return {role: known.get(role) if name is None else name for role, name in given.items()}


def columns_of(frame: Any, where: str = "the frame", wanted: str = "") -> dict[str, Any]:
    """Return the columns of a pandas, polars (eager or lazy) or pyarrow frame by name, named levels of its index too.

    `wanted` begins the sentence about what is no frame.
    """
    import narwhals as nw  # slow to import, and files need none

    lazy = False
    try:
        index = frame.index.names if library_of(frame) == "pandas" and hasattr(frame, "columns") else ()
        if levels := [name for name in index if name is not None and name not in frame.columns]:
            frame = frame.reset_index(levels)
        table = nw.from_native(frame)
        if lazy := isinstance(table, nw.LazyFrame):
            table = table.collect()
        columns = {str(name): table.get_column(name) for name in table.columns}
    except nw.exceptions.DuplicateError as error:
        found = " ".join(str(error).split())
        raise DataError(f"{where} has columns of the same name ({found}): rename all but one.") from None
    except Exception as error:  # a door: whatever a foreign kind of frame complains of
        if lazy:
            raise DataError(f"{where} cannot be collected: {' '.join(str(error).split()):.200}.") from error
        wanted = wanted or f"{where} must be a pandas, polars or pyarrow one"
        raise DataError(f"{wanted}: this is of type {type(frame).__name__}.") from error
    if not columns:
        raise DataError(f"{where} has no columns.")
    return columns


def library_of(frame: Any) -> str:
    """Return the library that a frame is of, pyarrow for any that is none of the others."""
    return next((kind for kind in ("pandas", "polars") if type(frame).__module__.startswith(kind)), "pyarrow")


def samples_of(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return some values of each column; none of one that cannot be read, which nobody may have asked for."""
    samples: dict[str, list[Any]] = {}
    for name, values in columns.items():
        try:
            samples[name] = plain(as_arrow(values[:100], "a column")).to_pylist()
        except DataError:
            samples[name] = []
    return samples


def find_columns(
    samples: Mapping[str, Sequence[Any]], given: Mapping[str, str | None], where: str, optional: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the name of the column for each role, and the guesses in words; `samples` has some values of each column.

    A role that is not given is guessed; columns that are called "1", "2" and so on go by their places. A role that
    several columns may have, or none, is asked for, unless it is optional.
    """
    found: dict[str, str] = {}
    by_place = None
    if list(samples) == [str(place + 1) for place in range(len(samples))]:
        by_place = _places(samples, [role for role in given if role not in optional])
    for role, name in given.items():
        if name is not None and name not in samples:
            raise missing_column(name, list(samples), where)
        candidates = [] if name is None else [name]
        if name is None:
            candidates = _candidates(role, samples) if by_place is None else by_place.get(role, [])
            candidates = [other for other in candidates if other not in found.values()]
        if len(candidates) == 1:
            found[role] = candidates[0]
        elif role not in optional:
            raise DataError(f"{where} {_asked_for(role, candidates, samples, by_place)}")
    guessed = [role for role in found if given[role] is None and found[role] != DOCUMENTED[role]]
    if not guessed or by_place is not None:
        return found, []
    named = [role for role in guessed if role in ROLES]
    how = f" ({', '.join(f'{role}=' for role in named)} change{'' if named[1:] else 's'} this)"
    groups = (named, how), ([role for role in guessed if role not in ROLES], "")
    return found, [", ".join(f"{PLURAL[r]} are in {found[r]!r}" for r in own) + how for own, how in groups if own]


def missing_column(name: str, present: Sequence[str], where: str) -> DataError:
    """Return the sentence for a column that is not there, with the nearest one that is."""
    hint = nearest(name, present, ": ", ": name the right one.")
    if all(other.strip().replace(".", "", 1).isdigit() for other in present):
        hint = ": is the header missing?"
    return DataError(f"{where} has no column {name!r}, only {_listed(present)}{hint}")


def _asked_for(role: str, candidates: Sequence[str], samples: Mapping[str, Sequence[Any]], by_place: Any) -> str:
    what = f"no column that is known to hold {PLURAL[role]}, only {_listed(list(samples))}"
    how = f"set {role}= to the right one"
    if candidates:
        what = f"several columns that may hold {PLURAL[role]}, {_listed(candidates)}"
        clicks = role == "rating" and any(plain_name(name) in KNOWN["clicked"] for name in candidates)
        how = f"set {role}= to one of them{', or target= if rows are what was shown' if clicks else ''}"
    elif by_place is not None:
        held = [str(held[0]) for held in samples.values() if held]
        first = ", ".join(held[:MOST_SHOWN]) + (", ..." if len(held) > MOST_SHOWN else "")
        what = f"no header and {len(samples)} columns, of which the first row holds {first}"
        how = "name them by their places, such as user='1', item='2', rating='3'"
    elif role == "rating":
        how += "; a file of clicks or purchases alone does not tell what people saw and left: for it, give "
        how += "target='implicit'"
    return f"has {what}: {how}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def _places(samples: Mapping[str, Sequence[Any]], wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return columns by their places: users, items, ratings, perhaps times; nothing where there are more of them."""
    last = list(samples.values())[-1] if samples else []
    timed = len(samples) == len(wanted) + 1 and all((as_number(str(one)) or 0) > OLDEST for one in last)
    if not (timed or len(samples) == len(wanted) or len(wanted) == 1):
        return {}
    return {role: [str(place)] for place, role in enumerate([*wanted, *(["time"] if timed else [])], 1)}


def _candidates(role: str, samples: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return columns that may have a role, by name and then by content: a title is no id, and an id is no title."""
    known = KNOWN.get(role, ())
    named = [name for name in samples if plain_name(name) in known]
    if role == "rating" and not named:
        others = KNOWN["pscore"]
        named = [name for name in samples if plain_name(name).endswith(ENDINGS) and plain_name(name) not in others]
    documented = [name for name in named if plain_name(name) in known[:1]]
    no_titles = [name for name in named if not looks_like_titles(samples[name])]
    numbered = [name for name in no_titles if plain_name(name).endswith("id")]
    for kept in (documented, *((no_titles, numbered) if role in ("user", "item") else ())):
        named = kept if len(named) > 1 and kept else named
    if role == "title":
        named = [name for name in named if not all(map(is_number, map(str, samples[name])))]
    return named if role in ("user", "item", "rating", "title") else named[:1]


def guessed_scale(ratings: NDArray[np.float64], where: str, limits: Scale | None = None) -> tuple[Scale, str]:
    """Return the scale that ratings have, and the guess in words: liked is the middle of the scale or above.

    `limits` has the ends of the scale, if they are known. Refused where there is nothing to go by, and where almost
    nothing would be liked, or disliked.
    """
    distinct, counts = tallied(ratings)
    if len(distinct) < 2:
        what = "no ratings" if not distinct else f"only the rating {distinct[0]:g}"
        raise DataError(
            f"{where} has {what}: unskew learns from ratings that differ, and what people clicked or bought does not "
            "tell what they dislike; for it, give target='implicit'."
        )
    if limits is not None:
        scale = Scale((limits.low + limits.high) / 2, limits.low, limits.high)
        words = f"{scale.positive:g} or more, the middle of the scale or above, is liked"
    elif len(distinct) == 2:
        low, high = distinct
        ends = (low, high) if high == 1 else ()  # 0 or 1 is all there is; 2 and 4 may have 5 besides
        scale, words = Scale(high, *ends), f"ratings are {low:g} or {high:g}, and {high:g} is liked"
    else:
        if odd := standing_out(distinct, counts):
            raise DataError(
                f"{where}: {odd}: remove such rows, say from where on ratings are liked by positive=, or which ratings "
                "there are by rating_scale=."
            )
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
    liked = float(np.average(scale.to_unit(distinct), weights=counts))
    if min(liked, 1 - liked) < FEWEST and sum(counts) * FEWEST > 1:
        side = "liked" if liked < 0.5 else "disliked"
        raise DataError(
            f"{where}: {words}, but that leaves {min(liked, 1 - liked):.2%} {side}: say from where on ratings are "
            "liked by positive=."
        )
    return scale, f"{words} {OVERRIDE}"


def tallied(ratings: NDArray[np.float64]) -> tuple[list[float], list[int]]:
    """Return the different finite ratings in order, and how often each occurs."""
    few = np.unique(ratings[np.isfinite(ratings[:1000]).nonzero()])
    each = [int(np.count_nonzero(ratings == value)) for value in few] if len(few) < 10 else []
    if sum(each) == len(ratings):  # faster than hashes
        return few.tolist(), each
    values, counts = (part.to_numpy(zero_copy_only=False) for part in pa.array(ratings).value_counts().flatten())
    order = [at for at in np.argsort(values) if math.isfinite(values[at])]
    return values[order].tolist(), counts[order].tolist()


def standing_out(distinct: Sequence[float], counts: Sequence[int]) -> str:
    """Word a clause about a lowest or highest rating that seems to be none, as 99 or -1 for a missing one; else "".

    It lies more than twice as far from the others as they lie apart, or outside of a scale that the others are known by
    and is rare or the only one below 0.
    """
    if len(distinct) < 3 or _known(distinct):
        return ""
    for at, rest in ((-1, distinct[:-1]), (0, distinct[1:])):
        odd, reach = distinct[at], rest[-1] - rest[0]
        rare = counts[at] < FEWEST * sum(counts) or odd < 0 <= rest[0]
        if min(abs(odd - rest[0]), abs(odd - rest[-1])) > 2 * reach > 0 or (rare and _known(rest)):
            rows = f"{counts[at]:,} row{'s' if counts[at] > 1 else ''}"
            return f"the rating {odd:g} in {rows} stands out, as all others lie from {rest[0]:g} to {rest[-1]:g}"
    return ""


def _known(distinct: Sequence[float]) -> tuple[float, float, float] | None:
    for low, high, step in SCALES:
        steps = [(rating - low) / step for rating in distinct]
        if distinct[-1] == high and steps[0] >= 0 and all(place == int(place) for place in steps):
            return low, high, step
    return None


def looks_like_titles(values: Sequence[Any]) -> bool:
    """Return whether most values are texts of several words."""
    texts = [value for value in values if isinstance(value, str)]
    return 2 * sum(" " in text.strip() for text in texts) > max(len(values), 1)


def plain_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def as_number(text: str) -> float | None:
    """Return the number that a text spells, with a point or a comma; None if it spells none."""
    try:
        number = float(text.replace(",", ".", 1))
    except ValueError:
        return None
    return None if "_" in text or not math.isfinite(number) else number


def is_number(text: str) -> bool:
    return as_number(text) is not None
