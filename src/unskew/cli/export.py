"""unskew export"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.newcomers import with_newcomers
from unskew.cli.output import check_file_path, print_json
from unskew.cli.reading import Reading, reads
from unskew.runtime import say

EXAMPLE = "unskew export model --to parquet --out vectors"


class Format(StrEnum):
    ONNX = "onnx"
    PARQUET = "parquet"


@reads("columns")
def command(
    model: options.Model,
    reading: Reading,
    to: Annotated[Format, typer.Option("--to", help="A scorer of pairs, or vectors of users and items.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH", help="A file MODEL.onnx, or a folder MODEL.vectors with users and items.parquet."
        ),
    ] = None,
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    as_json: options.AsJson = False,
) -> None:
    """Write a model in a form that other systems can serve.

    onnx is one file that takes user_id and item_id and answers with predictions, also for strangers; it is checked
    with onnxruntime before it is written. parquet are vectors for a nearest-neighbour index: the inner product of a
    user's and an item's is the model's logit.

    \b
    unskew export model --to onnx
    """
    if to is Format.ONNX and out is not None:
        check_file_path(out, (".onnx",))
    recommender = with_newcomers(unskew.load(model), new_users, reading, on_unknown)
    place = model.absolute()
    if to is Format.ONNX:
        scorer = unskew.export.to_onnx(recommender, out or place.with_name(f"{place.name}.onnx"))
        facts = {"path": str(scorer.path), "pairs_checked": scorer.n_checked, "difference": scorer.largest_difference}
        line = (
            f"wrote the scorer to {scorer.path}: onnxruntime answers as the model does for {scorer.n_checked:,} random "
            f"pairs, to {scorer.largest_difference:.1g}"
        )
    else:
        found = unskew.export.to_parquet(recommender, out or place.with_name(f"{place.name}.vectors"))
        facts = {"path": str(found.folder), "users": found.n_users, "items": found.n_items, "columns": found.n_columns}
        line = f"wrote vectors of {found.n_users:,} users and {found.n_items:,} items to {found.folder}"
        for note in found.notes:
            say(f"note: {note}")
        facts |= {"notes": list(found.notes)}
    if as_json:
        print_json(facts)
    else:
        typer.echo(line)
