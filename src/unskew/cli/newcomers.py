"""New users from a file of their ratings, folded into a model before it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unskew.cli import options
from unskew.cli.reading import Reading
from unskew.runtime import say

if TYPE_CHECKING:
    from unskew.model import Recommender


def with_newcomers(
    model: Recommender, file: Path | None, reading: Reading, on_unknown: options.OnUnknown
) -> Recommender:
    """The model, which knows the users of the file too."""
    if file is None:
        return model
    from unskew.data.guess import DOCUMENTED

    table, names = reading.table(file, ("user", "item", "rating"))
    frame = table.select(list(names.values())).rename_columns([DOCUMENTED[role] for role in names])
    joined = model.fold_in(frame, on_unknown=on_unknown.value)
    say(joined.history.notes[-1])
    return joined
