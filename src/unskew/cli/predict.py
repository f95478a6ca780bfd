"""unskew predict"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import TABLES, Answer, check_file, write_table
from unskew.cli.reading import Columns, Reading
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLE = "unskew predict model pairs.csv --out predictions.csv"


def command(
    model: options.Model,
    pairs: Annotated[
        Path, typer.Argument(metavar="PAIRS", help="A file with a row per pair of user and item.", show_default=False)
    ],
    reading: Columns,
    out: Annotated[
        Path, options.file("--out", "The same rows with predictions (.csv, .tsv, .parquet).", show_default=False)
    ],
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = "raise",
    spreadsheet: options.Spreadsheet = False,
) -> Answer:
    """Predict the ratings of pairs of users and items.

    Predictions are probabilities of liking or, if the model was fitted with --graded, ratings.
    """
    check_file(out, TABLES)
    if new_users is None:
        reading.refuse_unread_columns("user", "item")
    recommender = reading.folded_in(unskew.load(model), new_users, on_unknown)
    table, names = _read_pairs(pairs, reading)
    users, items = table[names["user"]], table[names["item"]]
    of_user = recommender.log.user_ids.codes(users) < 0
    of_item = recommender.log.item_ids.codes(items) < 0
    unknown = of_user | of_item
    if "prediction" in table.column_names:
        raise ParameterError(f"{pairs.name} has a column 'prediction' already: rename it.")
    table = table.append_column("prediction", [recommender.predict(users, items, on_unknown=on_unknown)])
    write_table(out, table, spreadsheet)
    if unknown.any():
        say(
            f"{unknown.sum():,} of {len(unknown):,} pairs were answered for the average user or item "
            f"({of_user.sum():,} have an unknown user, {of_item.sum():,} an unknown item)"
        )
    facts = {"predictions": str(out), "pairs": len(table), "answered_for_the_average": int(unknown.sum())}
    return Answer(f"wrote {len(table):,} predictions to {out}", facts | {"guessed": reading.guessed})


def _read_pairs(path: Path, reading: Reading) -> tuple[pa.Table, dict[str, str]]:
    """Return the rows, and the columns of their users and items."""
    from unskew.data.ids import as_ids, is_text, narrowed

    table, names = reading.table(path, ("user", "item"))
    for name in names.values():
        if is_text(table[name].type):  # text that spells integers throughout becomes integers, as in a log
            place = table.column_names.index(name)
            table = table.set_column(place, name, narrowed(as_ids(table[name], f"column {name!r} of {path.name}")))
    return table, names
