"""unskew recommend"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.newcomers import with_newcomers
from unskew.cli.output import check_table_path, print_json, print_table, write_table
from unskew.cli.reading import Reading, reads
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.model import Recommender

EXAMPLE = "unskew recommend model --k 5 --out recommendations.csv"
SHOWN = 20  # rows on the terminal


@reads("columns")
def command(
    model: options.Model,
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write all rows (.csv, .tsv, .parquet) instead of showing the first."
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", help="How many items for each user.")] = 10,
    whom: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="ID", help="Only for this user, repeatable.", show_default=False),
    ] = None,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Only for the users in the column --user of a file.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="Only items in the column --item of a file.")
    ] = None,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Recommend also what the user has rated already.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="ORDER",
            help="choice, liking, lower, thompson; the model's own.",
            show_default=False,
        ),
    ] = None,
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    as_json: options.AsJson = False,
) -> None:
    """Recommend to every user the best items.

    By choice, what a user would pick and like; by liking, what he would like if he met it, whatever he tends to meet.

    With --new-users the model learns users it has not met from their few ratings, without training, and recommends to
    them, unless --for or --users says to whom:

    \b
    unskew recommend model --new-users their-ratings.csv --out recommendations.csv
    """
    check_table_path(out)
    if users is not None and whom:
        raise ParameterError("--users and --for both say for whom: give one of the two.")
    known = unskew.load(model)
    recommender = with_newcomers(known, new_users, reading, on_unknown)
    wanted = _asked(reading, users, whom)
    if wanted is None and new_users is not None:
        wanted = recommender.log.user_ids.arrow[known.log.n_users :]
    n_users = recommender.log.n_users if wanted is None else len(wanted)
    if wanted is None and out is None and not as_json:  # the terminal shows the first users alone
        wanted = recommender.log.user_ids.arrow[: max(1, SHOWN // max(k, 1))]
    table = recommender.lists(
        wanted,
        k,
        by=by,
        exclude_seen=not keep_seen,
        items=None if items is None else _ids(items, "item", reading),
        on_unknown=on_unknown.value,
    )
    _report_unknown(recommender, wanted)
    if note := (table.schema.metadata or {}).get(b"note"):
        say(f"warning: {note.decode()}")
    n_places = k * (n_users if wanted is None else len(wanted))
    if len(table) < n_places:
        say(f"{n_places - len(table):,} places stayed empty, as users had fewer than {k} items left")
    if out is not None:
        write_table(out, table)
    if as_json:
        order = recommender.order(by)
        facts: dict[str, Any] = {"users": n_users, "rows": len(table), "order": order, "guessed": reading.guessed}
        print_json(facts | ({"recommendations": table.to_pylist()} if out is None else {"written": str(out)}))
    elif out is not None:
        typer.echo(f"wrote {len(table):,} recommendations for {n_users:,} users to {out}, by {recommender.order(by)}")
    else:
        _show(table, n_users)


def _asked(reading: Reading, file: Path | None, ids: list[str] | None) -> Any:
    """The users who were asked for, each once; None if nobody was."""
    if file is None and not ids:
        return None
    from unskew.data.ids import as_ids, narrowed

    asked = as_ids(ids, "--for") if file is None else _ids(file, "user", reading)
    distinct = narrowed(asked.unique())
    if len(distinct) < len(asked):
        say(f"users are answered once: {len(asked) - len(distinct):,} repeated ids were left out")
    return distinct


def _ids(path: Path, role: str, reading: Reading) -> pa.Array:
    from unskew.data.ids import as_ids

    table, names = reading.table(path, (role,))
    return as_ids(table[names[role]], f"column {names[role]!r} of {path.name}")


def _report_unknown(model: Recommender, wanted: Any) -> None:
    unknown = 0 if wanted is None else int((model.log.user_ids.codes(wanted) < 0).sum())
    if unknown:
        say(f"{unknown:,} of {len(wanted):,} users are unknown and were answered for the average user")


def _show(table: pa.Table, n_users: int) -> None:
    names = [table.column_names[0], "rank", *table.column_names[1:-2], "score"]
    shown_rows = table.slice(0, SHOWN).to_pylist()
    rows = [tuple(f"{row[name]:.4f}" if name == "score" else str(row[name]) for name in names) for row in shown_rows]
    print_table(names, rows, numbers=("rank", "score"))
    shown = len({row[0] for row in rows})
    if len(rows) < len(table) or shown < n_users:
        typer.echo(f"the first of {shown} of {n_users:,} users; --out FILE writes all of them")
