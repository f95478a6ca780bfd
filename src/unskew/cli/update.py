"""unskew update"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_folder
from unskew.cli.reading import MoreRows
from unskew.runtime import say
from unskew.store.atomic import locked


def update(
    model: options.Model,
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="A file of more ratings.", show_default=False)],
    reading: MoreRows,
    out: Annotated[Path | None, options.file("--out", "Where to write it; the model's own folder.", "FOLDER")] = None,
) -> Answer:
    """Take more ratings into a model of `dce-bayes` or `bayes`, in a fraction of the time of a fit.

    The sampler goes on from where it stands, with new users and items; a server of the folder takes the model up.
    Ratings on another scale, older than the log's last or of pairs that it has are refused. Impressions are read as
    those of its log were.

    Example:
        unskew update model new-ratings.csv --out updated
    """
    target = model if out is None else out
    check_folder(target)
    with locked(target):
        known = unskew.load(model)
        if known.log.target is not None or reading.seen is not None:
            alike: Any = reading.given | {"like": known.log, "target": known.log.target}
            updated = known.update(unskew.read_log(ratings, **alike))
        else:
            table, names = reading.table(ratings, ("user", "item", "rating"))
            called = {name: getattr(known.log.names, role) for role, name in names.items()}
            held = [name for name in table.column_names if name in called or name not in called.values()]
            updated = known.update(table.select(held).rename_columns([called.get(name, name) for name in held]))
        updated.save(target)
    more, of = len(updated.log) - len(known.log), len(updated.log)
    say(f"note: {updated.history.notes[-1]}")
    facts = {"model": str(target), "taken_in": more, "ratings": of, "notes": updated.history.notes}
    return Answer(f"took {more:,} ratings in, {of:,} with those before, and wrote the model to {target}", facts)
