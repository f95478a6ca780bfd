"""unskew recommend"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import unskew
from unskew.cli import options
from unskew.cli.output import TABLES, Answer, check_file, write_table
from unskew.cli.reading import Columns, Reading
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLE = "unskew recommend model --k 5 --out recommendations.csv"
SHOWN = 20  # rows on the terminal


def command(
    model: options.Model,
    reading: Columns,
    out: Annotated[
        Path | None, options.file("--out", "Write all rows (.csv, .tsv, .parquet) instead of showing the first.")
    ] = None,
    k: Annotated[int, options.count("--k", "How many items for each user.")] = 10,
    users: Annotated[
        list[str] | None,
        options.file("--for", "Only for this user, repeatable, or for those in a file.", "ID|FILE", show_default=False),
    ] = None,
    items: Annotated[Path | None, options.file("--items", "Only items in the column --item of a file.")] = None,
    keep_seen: Annotated[bool, options.flag("--keep-seen", "Recommend also what the user has rated already.")] = False,
    by: Annotated[
        str | None, options.file("--by", "choice, liking, lower, thompson; the model's own.", "ORDER")
    ] = None,
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = "raise",
    spreadsheet: options.Spreadsheet = False,
) -> Answer:
    """Recommend to every user the best items.

    By choice, what a user would pick and like; by liking, what he would like if he met it, whatever he tends to meet.

    With --new-users the model learns users it has not met from their few ratings, without training, and recommends to
    them, unless --for names others:

    \b
    unskew recommend model --new-users their-ratings.csv --out recommendations.csv
    """
    check_file(out, TABLES)
    if new_users is None:
        reading.refuse_unread_columns(*["user"] * _is_file(users), *["item"] * (items is not None))
    known = unskew.load(model)
    recommender = reading.folded_in(known, new_users, on_unknown)
    ids = recommender.log.user_ids
    wanted = _asked(reading, users) if users else ids.arrow[0 if new_users is None else known.log.n_users :]
    limits = None if items is None else reading.ids(items, "item")

    def lists(of: pa.Array) -> pa.Table:
        """Return the lists of some users, with a line on what is odd about them."""
        rules: Any = {"by": by, "exclude_seen": not keep_seen, "items": limits, "on_unknown": on_unknown}
        table: pa.Table = recommender.recommend(of, k, **rules, library="pyarrow")
        if unknown := int((ids.codes(of) < 0).sum()):
            say(f"{unknown:,} of {len(of):,} users are unknown and were answered for the average user")
        if (empty := k * len(of) - len(table)) > 0:
            say(f"{empty:,} places stayed empty, as users had fewer than {k} items left")
        return table

    def facts(table: pa.Table) -> dict[str, Any]:
        return {"users": len(wanted), "rows": len(table), "order": recommender.order(by), "guessed": reading.guessed}

    if out is None:
        few = wanted if users else wanted[: max(1, SHOWN // k)]  # text shows the first users alone
        return Answer(
            lambda: _first(lists(few), len(wanted)),
            lambda: facts(table := lists(wanted)) | {"recommendations": table.to_pylist()},
        )
    write_table(out, table := lists(wanted), spreadsheet)
    text = f"wrote {len(table):,} recommendations for {len(wanted):,} users to {out}, by {recommender.order(by)}"
    return Answer(text, facts(table) | {"written": str(out)})


def _asked(reading: Reading, given: list[str]) -> pa.Array:
    """Return the users who were asked for, each once."""
    from unskew.data.ids import as_ids, narrowed

    asked = reading.ids(Path(given[0]), "user") if _is_file(given) else as_ids(given, "--for")
    distinct = narrowed(asked.unique())
    if len(distinct) < len(asked):
        say(f"users are answered once: {len(asked) - len(distinct):,} repeated ids were left out")
    return distinct


def _is_file(given: list[str] | None) -> bool:
    return given is not None and len(given) == 1 and Path(given[0]).is_file()


def _first(table: pa.Table, n_users: int) -> str:
    """Return the first rows as text, and how many there are."""
    from unskew.findings import Table

    names = [table.column_names[0], "rank", *table.column_names[1:-2], "score"]
    found = table.slice(0, SHOWN).to_pylist()
    rows = [[f"{row[name]:.4f}" if name == "score" else str(row[name]) for name in names] for row in found]
    shown = len({row[0] for row in rows})
    more = len(rows) < len(table) or shown < n_users
    note = f"\nthe first of {shown} of {n_users:,} users; --out FILE writes all of them" if more else ""
    return Table("", names, rows).text() + note
