"""Which columns of a file hold what, by their names: guessed only where there is one answer."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unskew.errors import DataError

if TYPE_CHECKING:
    from unskew.data.tablefile import TableFile

# Names without case and punctuation; the first is the documented one, and goes before all others.
NAMES = {
    "user": (
        *("userid", "user", "uid", "username", "customer", "customerid", "custid", "client", "clientid", "account"),
        *("accountid", "member", "memberid", "person", "personid", "profile", "profileid", "reader", "readerid"),
        *("reviewer", "reviewerid", "visitor", "visitorid", "viewer", "viewerid", "player", "playerid"),
    ),
    "item": (
        *("itemid", "item", "iid", "movie", "movieid", "film", "filmid", "product", "productid", "asin", "parentasin"),
        *("sku", "article", "articleid", "book", "bookid", "isbn", "business", "businessid", "song", "songid", "track"),
        *("trackid", "artist", "artistid", "album", "albumid", "video", "videoid", "show", "showid", "game", "gameid"),
        *("news", "newsid", "recipe", "recipeid", "restaurant", "restaurantid", "hotel", "hotelid", "course"),
        *("courseid", "podcast", "podcastid", "app", "appid", "anime", "animeid", "beer", "beerid", "joke", "jokeid"),
    ),
    "rating": ("rating", "ratings", "rate", "score", "star", "stars", "overall", "label", "grade", "ratingvalue"),
}
DOCUMENTED = {"user": "user_id", "item": "item_id", "rating": "rating"}  # which are no guess
SIDES = {"user": "users", "item": "items", "rating": "ratings"}
DELIMITERS = ",;\t| "
OLDEST = 1e8  # seconds since 1970 from which on a number is taken for a time: 1973


class Columns(NamedTuple):
    """How a file is to be read; `guessed` says in words what nobody has told."""

    names: dict[str, str]
    delimiter: str | None
    header: bool
    guessed: tuple[str, ...]


def columns_of(
    path: str | Path, given: Mapping[str, str | None], delimiter: str | None = None, header: bool | None = None
) -> Columns:
    """The columns of a file, or of the first file of a folder; `given` has a name, or None, for each that is wanted."""
    from unskew.data.stream import names_in
    from unskew.data.tablefile import tables

    file, guessed = tables(path, delimiter).files[0], list[str]()
    lines = _lines(file)
    if delimiter is None and (found := _delimiter(lines, file.delimiter, len(given))):
        delimiter, file = found, file._replace(delimiter=found)
        guessed.append(f"columns are separated by {found!r} (--delimiter says otherwise)")
    if header is None:
        header = _has_header(lines, file.delimiter, given)
        if not header:
            guessed.append("its first line is no header, as it holds a number (--header says otherwise)")
    names = _by_name(names_in(file), given, file.name) if header else _by_place(lines, file, given)
    if open_roles := [role for role in given if given[role] is None and names[role] != DOCUMENTED[role]]:
        found_in = ", ".join(f"{SIDES[role]} are in {names[role]!r}" for role in open_roles)
        options, says = ", ".join(f"--{role}" for role in open_roles), "says" if len(open_roles) == 1 else "say"
        guessed.append(f"{found_in} ({options} {says} otherwise)")
    return Columns(names, delimiter, header, tuple(guessed))


def _lines(file: TableFile) -> list[str]:
    """The first lines of a plain text file; none of a file that is known to name its columns."""
    from unskew.data.tablefile import TYPED
    from unskew.data.text import first_lines

    return first_lines(file.path) if file.is_text and file.ending not in TYPED else []


def _delimiter(lines: Sequence[str], usual: str, at_least: int) -> str | None:
    """Another delimiter than the usual one, if that splits nothing and one other splits all lines alike."""
    if not lines or len(_fields(lines[:1], usual)[0]) > 1:
        return None
    alike = [other for other in DELIMITERS if other != usual and _width(lines, other) >= at_least]
    return alike[0] if len(alike) == 1 else None


def _width(lines: Sequence[str], delimiter: str) -> int:
    """How many fields every line has; 0 if they differ."""
    widths = {len(row) for row in _fields(lines, delimiter)}
    return widths.pop() if len(widths) == 1 else 0


def _has_header(lines: Sequence[str], delimiter: str, given: Mapping[str, str | None]) -> bool:
    """A line that holds a number names no columns, unless one of its fields is a name that was asked for."""
    first = _fields(lines[:1], delimiter)[0] if lines else []
    return any(field in given.values() for field in first) or not any(map(_is_number, first))


def _by_name(present: list[str], given: Mapping[str, str | None], file: str) -> dict[str, str]:
    """The columns by their names; a role that several may have, or none, is asked for."""
    found = {}
    for role, name in given.items():
        candidates = [other for other in present if _plain(other) in NAMES[role]] if name is None else [name]
        documented = [other for other in candidates if _plain(other) == NAMES[role][0]]
        if len(documented) == 1:
            candidates = documented
        if len(candidates) > 1:
            listed = ", ".join(map(repr, candidates))
            raise DataError(f"{file} has several columns that may hold {SIDES[role]}, {listed}: name one by --{role}.")
        if not candidates:
            listed = ", ".join(map(repr, present[:20])) + (", ..." if len(present) > 20 else "")
            raise DataError(
                f"none of the columns of {file} is known to hold {SIDES[role]}, of {listed}: name it by --{role}."
            )
        found[role] = candidates[0]
    return found


def _by_place(lines: Sequence[str], file: TableFile, given: Mapping[str, str | None]) -> dict[str, str]:
    """The columns by their places, counted from 1: as many as are wanted, and perhaps a time behind them."""
    rows, roles = _fields(lines, file.delimiter), list(given)
    width = len(rows[0])
    timed = width == len(roles) + 1 and all(_is_number(row[-1]) and float(row[-1]) > OLDEST for row in rows if row)
    if None in given.values() and not (width == len(roles) or timed):
        places = " ".join(f"--{role} {place}" for place, role in enumerate(roles, 1))
        raise DataError(
            f"{file.name} has no header and {width} columns, of which the first row holds {', '.join(rows[0])}: "
            f"name them by their places, such as {places}."
        )
    return {role: given[role] or str(place) for place, role in enumerate(roles, 1)}


def _fields(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:  # the reader will say what is wrong
        return [line.split(delimiter) for line in lines]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().casefold() not in ("nan", "inf", "infinity")
