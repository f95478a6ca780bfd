"""unskew similar"""

from __future__ import annotations

from typing import Annotated

import unskew
from unskew.cli import options
from unskew.cli.output import Answer
from unskew.errors import ParameterError

EXAMPLE = "unskew similar model --item 12"


def command(
    model: options.Model,
    item: Annotated[list[str] | None, options.file("--item", "Items like this one, repeatable.", "ID")] = None,
    user: Annotated[list[str] | None, options.file("--user", "Users like this one, repeatable.", "ID")] = None,
    k: Annotated[int, options.count("--k", "How many of each.")] = 10,
) -> Answer:
    """Show the items most like an item, or the users most like a user, in the eyes of a model.

    Two items are alike if what the model answers for them, beyond what all items share, goes up and down together over
    all users; two users are alike over all items.
    """
    from unskew.findings import Table

    if bool(item) == bool(user):
        raise ParameterError("similar needs --item or --user: give one of the two.")
    answers = unskew.load(model).similar(items=item or None, users=user or None, k=k, library="pyarrow")
    found = answers.to_pylist()
    rows = [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in found]
    return Answer(Table("", list(found[0]), rows).text(), found)
