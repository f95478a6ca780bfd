"""What is asked of a model, by external ids and in frames, and how it is answered: in a frame of the same library."""

import warnings
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.data.guess import frame_columns
from unskew.data.ids import as_arrow, as_ids, is_text
from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError, chosen

OnUnknown = Literal["raise", "fallback"]
Library = Literal["pandas", "polars", "pyarrow"]
Codes = NDArray[np.int32]
MOST_TITLES = 3  # that a sentence offers


def codes_of(log: RatingLog, side: str, ids: Any, on_unknown: OnUnknown | None = None, limit: bool = False) -> Codes:
    """Return codes of ids, -1 for those that are unknown where these may be; None is where they never may.

    With `limit` the ids are items that may be answered with, and unknown ones are left out; a title is answered with
    the ids of what is called so.
    """
    known, wanted = log.item_ids if side == "item" else log.user_ids, as_ids(listed(ids), f"{side}s")
    codes = known.codes(wanted)
    if on_unknown == "fallback" or not (unknown := codes < 0).any():
        return codes
    lost, asked = wanted.filter(pa.array(unknown)).unique(), len(wanted.unique())
    if limit and log.titles is not None and is_text(lost.type):
        like = np.flatnonzero(pc.match_substring(log.titles, lost[0].as_py(), ignore_case=True)).tolist()
        if titles := sorted(((log.titles[n].as_py(), log.item_ids[n]) for n in like), key=lambda each: len(each[0])):
            offered = ", ".join(f"{item} ({title})" for title, item in titles[:MOST_TITLES])
            raise DataError(f"{lost[0].as_py()!r} is the title of an item: give its id, such as {offered}.")
    fallback = f"pass on_unknown='fallback' to {'leave it out' if limit else 'answer for the average one'}"
    others = f" ({len(lost):,} of {asked:,} different {side}s are not)" if asked > 1 else ""
    raise DataError(
        f"The {side} {lost[0].as_py()!r} is not in the log{others}; "
        f"{fallback if on_unknown else 'give ids as its columns have them'}."
    )


def one_code(log: RatingLog, side: str, given: Any) -> int:
    """Return the code of a single id."""
    codes = codes_of(log, side, given, limit=side == "item")
    if len(codes) != 1:
        raise ParameterError(f"{side} must be one id, not {len(codes)}.")
    return int(codes[0])


def pairs_of(log: RatingLog, users: Any, items: Any, on_unknown: OnUnknown | None = None) -> tuple[Codes, Codes]:
    """Return the codes of pairs, one user and one item each."""
    found = codes_of(log, "user", users, on_unknown), codes_of(log, "item", items, on_unknown)
    if len(found[0]) != len(found[1]):
        raise DataError(f"There are {len(found[0])} users for {len(found[1])} items; pairs need one of each.")
    return found


def for_the_average(users: Codes, items: Codes) -> str:
    """Return a sentence on how many of these pairs are answered for the average user or item; nothing if none is."""
    of_user, of_item = users < 0, items < 0
    if not (unknown := int((of_user | of_item).sum())):
        return ""
    which = f"{of_user.sum():,} have an unknown user, {of_item.sum():,} an unknown item"
    return f"{unknown:,} of {len(users):,} pairs were answered for the average user or item ({which})"


def columns_of_pairs(log: RatingLog, frame: Any) -> tuple[tuple[str, str], dict[str, pa.Array]]:
    """Return the columns of a frame of pairs, and the names of those of users and items."""
    columns, found = frame_columns(frame, ("user", "item"), "the frame of pairs", like=log.names)
    return (found["user"], found["item"]), {name: as_arrow(held, f"column {name!r}") for name, held in columns.items()}


def lists_of(log: RatingLog, frame: Any) -> tuple[Codes, list[Codes]]:
    """Return the users of a frame of pairs, each once, and the items listed for each."""
    (user, item), table = columns_of_pairs(log, frame)
    users, items = pairs_of(log, table[user], table[item])
    order = np.argsort(users, kind="stable")
    codes, starts = np.unique(users[order], return_index=True)
    return codes, np.split(items[order], starts[1:]) if len(codes) else []


def listed(ids: Any) -> Any:
    """Return several ids: a single one becomes a list."""
    return [ids] if isinstance(ids, (str, int, np.integer)) and not isinstance(ids, bool) else ids


def named(log: RatingLog, side: str, codes: NDArray[Any], prefix: str = "") -> dict[str, Any]:
    """Return columns of ids and, if there are any, titles of items."""
    ids = log.item_ids if side == "item" else log.user_ids
    columns = {f"{prefix}{getattr(log.names, side)}": ids.take(codes)}
    if side == "item" and log.titles is not None:
        columns[f"{prefix}{log.names.title}"] = log.titles.take(pa.array(np.asarray(codes, np.int64)))
    return columns


def library_for(log: RatingLog, given: Library | None) -> str:
    """Return the frame library that is asked for, or the one that the log came in."""
    return log.library if given is None else chosen(given, "library", get_args(Library))


def framed(table: pa.Table, library: str) -> Any:
    """Return a table in a frame library; in Arrow, with a warning, where that is not installed."""
    if library == "pyarrow":
        return table
    import narwhals as nw

    try:
        return nw.from_arrow(table, backend="polars" if library == "polars" else "pandas").to_native()
    except ImportError:
        warnings.warn(f"{library} is not installed here: the answer is an Arrow table.", stacklevel=3)
        return table
