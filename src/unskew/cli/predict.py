"""unskew predict"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_table_path, write_table
from unskew.cli.unknown import unknown_pairs
from unskew.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.recommender import Recommender

EXAMPLE = "unskew predict model pairs.csv --out predictions.csv"


def command(
    model: options.Model,
    pairs: Annotated[
        Path, typer.Argument(metavar="PAIRS", help="A file with a row per pair of user and item.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="The same rows with predictions (.csv, .tsv, .parquet).", show_default=False
        ),
    ],
    propensity: Annotated[
        bool, typer.Option("--propensity", help="Add how likely each pair is to be rated at all.")
    ] = False,
    odds: Annotated[
        float, typer.Option("--odds", metavar="RHO", help="Assume that liked items are so many times as likely rated.")
    ] = 1.0,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    user: options.UserColumn = "user_id",
    item: options.ItemColumn = "item_id",
    delimiter: options.Delimiter = None,
) -> None:
    """Predict the ratings of pairs of users and items.

    Predictions are probabilities of liking or, if the model was fitted with --graded, ratings.
    """
    check_table_path(out)
    recommender = unskew.load(model)
    recommender = recommender if odds == 1 else recommender.at_odds(odds)
    table = _read_pairs(pairs, user, item, delimiter)
    users, items = table[user], table[item]
    unknown, line = unknown_pairs(recommender, users, items)
    added: dict[str, Any] = {"prediction": recommender.predict(users, items, on_unknown=on_unknown.value)}
    if propensity:
        added["propensity"] = _propensities(recommender, table.select([user, item]), unknown)
    for name, values in added.items():
        if name in table.column_names:
            raise ParameterError(f"{pairs.name} has a column {name!r} already: rename it.")
        table = table.append_column(name, [values])
    write_table(out, table)
    typer.echo(f"wrote {len(table):,} predictions to {out}")
    if line:
        typer.echo(line + (", and their propensity is left empty" if propensity else ""))


def _read_pairs(path: Path, user: str, item: str, delimiter: str | None) -> pa.Table:
    from unskew.data.distinct import is_text
    from unskew.data.features import missing_column
    from unskew.data.read import read_frame
    from unskew.data.vocabulary import as_ids, narrowed

    table = read_frame(path, (user, item), delimiter="\t" if delimiter == r"\t" else delimiter)
    for name in (user, item):
        if name not in table.column_names:
            raise missing_column(name, table.column_names, path.name)
        if is_text(table[name].type):  # text that spells integers throughout becomes integers, as in a log
            place = table.column_names.index(name)
            table = table.set_column(place, name, narrowed(as_ids(table[name], f"column {name!r} of {path.name}")))
    return table


def _propensities(model: Recommender, pairs: pa.Table, unknown: Any) -> pa.Array:
    """Propensities of known pairs; nobody is average in what they come to rate, so others get none."""
    import numpy as np
    import pyarrow as pa

    values, known = np.full(len(pairs), np.nan), pairs.filter(~unknown)
    values[~unknown] = model.propensity(known.column(0), known.column(1))
    return pa.array(values, mask=unknown)
