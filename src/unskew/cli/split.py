"""unskew split"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json, write_table
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

EXAMPLE = "unskew split ratings.csv --by user --test 0.2 --out parts"


class By(StrEnum):
    TIME = "time"
    USER = "user"
    RANDOM = "random"


@reads("columns", "log")
def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write the two files.")],
    by: Annotated[
        By, typer.Option("--by", help="The latest ratings, a random share of each user's, or a random share of all.")
    ] = By.RANDOM,
    test: Annotated[float, typer.Option("--test", metavar="SHARE", help="The share of ratings to set aside.")] = 0.2,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Set ratings aside for a test: FOLDER/train.csv and FOLDER/test.csv, with the columns of the log.

    A test that is drawn from a log is biased as the log is: it tells how well ratings that people choose to give are
    predicted, not how well those of all pairs are.
    """
    ratings = reading.log(log)
    split = unskew.holdout_split(ratings, test, by={"random": "global"}.get(by.value, by.value), seed=seed)  # type: ignore[arg-type]
    if out.exists() and not out.is_dir():
        raise ParameterError(f"{out} is a file: give the path of a folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {error.strerror}.") from error
    for name, rows in (("train", split.train), ("test", split.holdout)):
        write_table(out / f"{name}.csv", rows.to_arrow(as_stood=True))
    facts = {"train": len(split.train_rows), "test": len(split.holdout_rows), "folder": str(out)}
    if as_json:
        print_json(facts | {"guessed": reading.guessed})
    else:
        typer.echo(
            f"wrote {facts['train']:,} ratings to {out / 'train.csv'} and {facts['test']:,} to {out / 'test.csv'}"
        )
