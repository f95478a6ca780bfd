"""unskew recommend"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_table_path, print_table, write_table
from unskew.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.recommender import Recommender

EXAMPLE = "unskew recommend model --k 5 --out recommendations.csv"
SHOWN = 20  # rows on the terminal


def command(
    model: options.Model,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write all rows (.csv, .tsv, .parquet) instead of showing the first."
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", help="How many items for each user.")] = 10,
    users: Annotated[
        Path | None,
        typer.Option("--users", metavar="FILE", help="Only for the users in the column user_id of a file."),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="ID", help="Only for this user, repeatable.", show_default=False),
    ] = None,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Recommend also what the user has rated already.")
    ] = False,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="FILE", help="Only items in the column item_id of a file."),
    ] = None,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
) -> None:
    """Recommend to every user the items with the highest predictions."""
    check_table_path(out)
    if users is not None and user:
        raise ParameterError("--users and --user both say for whom: give one of the two.")
    recommender = unskew.load(model)
    wanted = _wanted(recommender, users, user, everybody=out is not None, k=k)
    table = recommender.recommend(
        wanted,
        k,
        filter_seen=not keep_seen,
        items=None if items is None else _ids(items, "item_id"),
        on_unknown=on_unknown.value,
    )
    _report_unknown(recommender, wanted)
    n_users = recommender.log.n_users if wanted is None else len(wanted)
    if out is not None:
        write_table(out, table)
        typer.echo(f"wrote {len(table):,} recommendations for {n_users:,} users to {out}")
    else:
        _show(table, n_users, recommender.log.n_users)
    if len(table) < n_users * k:
        typer.echo(f"{n_users * k - len(table):,} places stayed empty, as users had fewer than {k} items left")


def _wanted(model: Recommender, file: Path | None, ids: list[str] | None, everybody: bool, k: int) -> Any:
    """The users to recommend to, each once; None for everybody, of whom the terminal shows only the first."""
    if file is None and not ids:
        return None if everybody else model.log.user_ids.arrow[: max(1, SHOWN // max(k, 1))]
    from unskew.data.vocabulary import as_ids, narrowed

    asked = as_ids(ids, "--user") if file is None else _ids(file, "user_id")
    distinct = narrowed(asked.unique())
    if len(distinct) < len(asked):
        typer.echo(f"users are answered once: {len(asked) - len(distinct):,} repeated ids were left out")
    return distinct


def _ids(path: Path, column: str) -> pa.Array:
    from unskew.data.features import missing_column
    from unskew.data.read import read_frame
    from unskew.data.vocabulary import as_ids

    table = read_frame(path, (column,))
    if column not in table.column_names:
        raise missing_column(column, table.column_names, path.name)
    return as_ids(table[column], f"column {column!r} of {path.name}")


def _report_unknown(model: Recommender, wanted: Any) -> None:
    unknown = 0 if wanted is None else int((model.log.user_ids.codes(wanted) < 0).sum())
    if unknown:
        typer.echo(f"{unknown:,} of {len(wanted):,} users are unknown and were answered for the average user")


def _show(table: pa.Table, n_users: int, n_all: int) -> None:
    rows = [
        (str(row["user_id"]), str(row["rank"]), str(row["item_id"]), f"{row['score']:.4f}")
        for row in table.slice(0, SHOWN).to_pylist()
    ]
    print_table(("user_id", "rank", "item_id", "score"), rows, numbers=("rank", "score"))
    shown = len({row[0] for row in rows})
    typer.echo(f"{len(rows)} of {len(table):,} rows, {shown} of {n_users if n_users > shown else n_all:,} users")
    typer.echo("--out FILE writes all of them")
