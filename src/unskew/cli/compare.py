"""unskew compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer
from unskew.cli.reading import SOURCE_HELP, Impressions, Reading
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog

EXAMPLE = "unskew compare A.csv B.csv --log new-ratings.csv"
SCORES_HELP = "A file with columns user_id, item_id and score for all pairs, or a folder that `unskew fit` wrote."
LOG_HELP = f"Ratings that neither was trained on; two models of one log need none. {SOURCE_HELP}"


def command(
    first: Annotated[str, typer.Argument(metavar="A", help=SCORES_HELP, show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="The same of the other model.", show_default=False)],
    reading: Impressions,
    log: Annotated[str | None, options.file("--log", LOG_HELP, "LOG")] = None,
    random_ratings: options.RandomRatings = None,
    pscore: Annotated[
        str | None, options.file("--pscore", "A column of LOG with known propensities, instead of a fit.", "COLUMN")
    ] = None,
    seed: options.Seed = 0,
) -> Answer:
    """Decide whether B is better than A over the pairs that nobody chose, by a log of pairs that users chose."""
    for source in (first, second):
        if not Path(source).exists():
            raise ParameterError(f"{source} does not exist: check the path.")
    a, b = (unskew.load(source) if Path(source).is_dir() else source for source in (first, second))
    known = next((model.log for model in (a, b) if not isinstance(model, str)), None)
    ratings = None if log is None else reading.log(log, None if known is None else known.scale)
    own = ratings if ratings is not None else known
    if own is None and random_ratings is not None:
        raise ParameterError("two files of scores need a log: give it by --log.")
    short = (Path(first).stem, Path(second).stem)  # the ends of their paths, if these differ
    found = unskew.compare(
        a,
        b,
        ratings,
        random_ratings=reading.random_ratings(random_ratings, own),
        propensity=None if pscore is None else _column(log, ratings, pscore, reading),
        names=short if short[0] != short[1] else (first, second),
        seed=seed,
    )
    return Answer(str(found), found.to_dict())


def _column(log: str | None, ratings: RatingLog | None, name: str, reading: Reading) -> Any:
    from unskew.data.guess import missing_column

    if log is None or ratings is None or not Path(log).is_file():
        raise ParameterError("--pscore names a column of a file: give the file by --log.")
    if ratings.duplicates_merged:
        raise ParameterError("--pscore needs one row a pair, but rows were merged: leave --duplicates out.")
    table, _ = reading.table(Path(log), ("user", "item"))
    if name not in table.column_names:
        raise missing_column(name, table.column_names, Path(log).name)
    return table[name].to_numpy()
