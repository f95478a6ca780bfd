"""unskew split"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_folder, write_table
from unskew.cli.reading import SOURCE_HELP, RatingsInTime, is_model
from unskew.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.split import Split

EXAMPLE = "unskew split ratings.csv --by user --test 0.2 --out parts"
BY_HELP = (
    "The latest rows, whole requests, a random share of each user's, or a random share of all; of impressions the "
    "latest or whole requests if these are known, else random."
)


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: RatingsInTime,
    out: Annotated[Path, options.file("--out", "Where to write the two files.", "FOLDER")],
    by: Annotated[Literal["time", "request", "user", "random"] | None, options.flag("--by", BY_HELP)] = None,
    test: Annotated[float, options.share("--test", "The share of ratings to set aside.")] = 0.2,
    seed: options.Seed = 0,
) -> Answer:
    """Set ratings aside for a test: FOLDER/train.csv and FOLDER/test.csv, with the columns of the log.

    A test that is drawn from a log is biased as the log is: it shows how well ratings that people choose to give are
    predicted, not how well those of all pairs are.
    """
    check_folder(out)
    chosen: Any = "global" if by == "random" else by
    split = unskew.holdout_split(reading.log(log), test, by=chosen, seed=seed)
    parts = tuple(rows.to_arrow(as_stood=True) for rows in (split.train, split.holdout))
    if split.log.impressions:
        parts = _impressions(log, split)
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {error.strerror}.") from error
    for name, rows in zip(("train", "test"), parts, strict=True):
        write_table(out / f"{name}.csv", rows)
    facts = {"train": len(parts[0]), "test": len(parts[1]), "folder": str(out)}
    text = f"wrote {facts['train']:,} rows to {out / 'train.csv'} and {facts['test']:,} to {out / 'test.csv'}"
    return Answer(text, facts | {"guessed": reading.guessed})


def _impressions(source: str, split: Split) -> tuple[pa.Table, ...]:
    """Return the rows of a file of impressions in two parts, seen or not, with all of their columns."""
    import numpy as np

    from unskew.data.read import read_frame

    held = split.held_out
    if held is None:
        held = np.zeros(len(split.log), np.bool_)
        held[split.holdout_rows] = True
    table = read_frame(source) if Path(source).exists() and not is_model(source) else None
    if table is None or len(table) != len(held):
        raise ParameterError(
            f"{source} cannot be divided row by row, as random traffic is apart from its other rows, or rows are "
            "joined: leave random rows out."
        )
    return table.filter(~held), table.filter(held)
