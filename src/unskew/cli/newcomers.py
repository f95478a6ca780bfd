"""New users from a file of their ratings, folded into a model before it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unskew.cli import options
from unskew.cli.columns import DOCUMENTED
from unskew.cli.reading import Reading
from unskew.errors import ParameterError
from unskew.progress import say

if TYPE_CHECKING:
    from unskew.recommender import Recommender


def with_newcomers(
    model: Recommender, file: Path | None, features: Path | None, reading: Reading, on_unknown: options.OnUnknown
) -> Recommender:
    """The model, which knows the users of the file too."""
    if file is None:
        if features is not None:
            raise ParameterError("--new-user-features tell of new users: give their ratings by --new-users.")
        return model
    table, names = reading.table(file, ("user", "item", "rating"))
    frame = table.select(list(names.values())).rename_columns([DOCUMENTED[role] for role in names])
    described = None
    if features is not None:
        described, of = reading.table(features, ("user",))
        place = described.column_names.index(of["user"])
        described = described.set_column(place, DOCUMENTED["user"], described.column(place))
    joined = model.fold_in(frame, user_features=described, on_unknown=on_unknown.value)
    say(joined.history.notes[-1])
    return joined
