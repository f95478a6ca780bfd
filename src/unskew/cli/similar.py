"""unskew similar"""

from __future__ import annotations

from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json, print_table
from unskew.errors import ParameterError

EXAMPLE = "unskew similar model --item 12"


def command(
    model: options.Model,
    item: Annotated[
        list[str] | None, typer.Option("--item", metavar="ID", help="Items like this one, repeatable.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="Users like this one, repeatable.")
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", help="How many of each.")] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Show the items most like an item, or the users most like a user, in the eyes of a model.

    Two items are alike if what the model answers for them, beyond what all items share, goes up and down together over
    all users; two users are alike over all items.
    """
    from unskew.model import as_arrow_table

    if bool(item) == bool(user):
        raise ParameterError("similar needs --item or --user: give one of the two.")
    found = as_arrow_table(unskew.load(model).similar(items=item or None, users=user or None, k=k))
    if as_json:
        print_json(found.to_pylist())
        return
    rows = [
        tuple(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row.values())
        for row in found.to_pylist()
    ]
    print_table(found.column_names, rows, numbers=("similarity", "rank"))
