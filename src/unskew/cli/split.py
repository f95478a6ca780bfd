"""unskew split"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_folder, write_table
from unskew.cli.reading import SOURCE_HELP, RatingsInTime
from unskew.errors import ParameterError

EXAMPLE = "unskew split ratings.csv --by user --test 0.2 --out parts"
BY_HELP = "The latest ratings, a random share of each user's, or a random share of all."


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: RatingsInTime,
    out: Annotated[Path, options.file("--out", "Where to write the two files.", "FOLDER")],
    by: Annotated[Literal["time", "user", "random"], options.flag("--by", BY_HELP)] = "random",
    test: Annotated[float, options.share("--test", "The share of ratings to set aside.")] = 0.2,
    seed: options.Seed = 0,
) -> Answer:
    """Set ratings aside for a test: FOLDER/train.csv and FOLDER/test.csv, with the columns of the log.

    A test that is drawn from a log is biased as the log is: it shows how well ratings that people choose to give are
    predicted, not how well those of all pairs are.
    """
    check_folder(out)
    names: dict[str, Any] = {"random": "global"}
    split = unskew.holdout_split(reading.log(log), test, by=names.get(by, by), seed=seed)
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {error.strerror}.") from error
    for name, rows in (("train", split.train), ("test", split.holdout)):
        write_table(out / f"{name}.csv", rows.to_arrow(as_stood=True))
    facts = {"train": len(split.train_rows), "test": len(split.holdout_rows), "folder": str(out)}
    text = f"wrote {facts['train']:,} ratings to {out / 'train.csv'} and {facts['test']:,} to {out / 'test.csv'}"
    return Answer(text, facts | {"guessed": reading.guessed})
