"""unskew export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_file
from unskew.runtime import say

EXAMPLE = "unskew export model --to parquet --out vectors"
OUT_HELP = "A file MODEL.onnx, or a folder MODEL.vectors with users and items.parquet."


def command(
    model: options.Model,
    to: Annotated[
        Literal["onnx", "parquet"], typer.Option("--to", help="A scorer of pairs, or vectors of users and items.")
    ],
    out: Annotated[Path | None, options.file("--out", OUT_HELP, "PATH")] = None,
) -> Answer:
    """Write a model in a form that other systems can serve.

    onnx is one file that takes user_id and item_id and answers with predictions, also for unknown users and items; it
    is checked with onnxruntime before it is written. parquet are vectors for a nearest-neighbour index: the inner
    product of a user's and an item's is the model's logit.

    \b
    unskew export model --to onnx
    """
    if to == "onnx" and out is not None:
        check_file(out, (".onnx",))
    recommender = unskew.load(model)
    place = model if model.name else model.absolute()
    if to == "onnx":
        scorer = unskew.export.to_onnx(recommender, out or place.with_name(f"{place.name}.onnx"))
        checked = {"pairs_checked": scorer.n_checked, "difference": scorer.largest_difference}
        text = (
            f"wrote the scorer to {scorer.path}: onnxruntime answers as the model does for {scorer.n_checked:,} random "
            f"pairs, to {scorer.largest_difference:.1g}"
        )
        return Answer(text, {"path": str(scorer.path), **checked})
    found = unskew.export.to_parquet(recommender, out or place.with_name(f"{place.name}.vectors"))
    for note in found.notes:
        say(f"note: {note}")
    facts = {"path": str(found.folder), "users": found.n_users, "items": found.n_items, "columns": found.n_columns}
    text = f"wrote vectors of {found.n_users:,} users and {found.n_items:,} items to {found.folder}"
    return Answer(text, facts | {"notes": list(found.notes)})
