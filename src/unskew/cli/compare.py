"""unskew compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog

EXAMPLE = "unskew compare A.csv B.csv --log new-ratings.csv"
SCORES_HELP = "A file with columns user_id, item_id and score for all pairs, or a folder that `unskew fit` wrote."


@reads("columns", "log")
def command(
    first: Annotated[str, typer.Argument(metavar="A", help=SCORES_HELP, show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="The same of the other model.", show_default=False)],
    reading: Reading,
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="LOG",
            help=f"Ratings that neither was trained on; two models of one log need none. {SOURCE_HELP}",
        ),
    ] = None,
    random_ratings: Annotated[
        str | None,
        typer.Option("--random-ratings", metavar="FILE", help="Ratings of random pairs: they overrule the log."),
    ] = None,
    pscore: Annotated[
        str | None,
        typer.Option("--pscore", metavar="COLUMN", help="A column of LOG with known propensities, instead of a fit."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Say whether B is better than A over the pairs that nobody chose, by a log in which users chose what to rate."""
    scores = _scores(first), _scores(second)
    known = next((model.log for model in scores if hasattr(model, "log")), None)
    ratings = None if log is None else reading.log(log, None if known is None else known.scale)
    if ratings is None and random_ratings is not None and known is None:
        raise ParameterError("two files of scores need a log: give it by --log.")
    own = ratings if ratings is not None else known
    found = unskew.compare(
        *scores,
        ratings,
        random_ratings=None if random_ratings is None or own is None else reading.random_ratings(random_ratings, own),
        propensity=None if pscore is None else _column(log, ratings, pscore, reading),
        names=_names(first, second),
        seed=seed,
    )
    print_json(found.to_dict()) if as_json else typer.echo(str(found))


def _scores(source: str) -> Any:
    """A model if the source is a folder, else the path of a file."""
    return unskew.load(source) if Path(source).is_dir() else source


def _names(first: str, second: str) -> tuple[str, str]:
    """What to call the two: the ends of their paths, if these differ."""
    short = (Path(first).stem, Path(second).stem)
    return short if short[0] != short[1] else (first, second)


def _column(log: str | None, ratings: RatingLog | None, name: str, reading: Reading) -> Any:
    from unskew.data.features import missing_column

    if log is None or ratings is None or not Path(log).is_file():
        raise ParameterError("--pscore names a column of a file: give the file by --log.")
    if ratings.duplicates_merged:
        raise ParameterError("--pscore needs one row a pair, but rows were merged: leave --duplicates out.")
    table, _ = reading.table(Path(log), ("user", "item"))
    if name not in table.column_names:
        raise missing_column(name, table.column_names, Path(log).name)
    return table[name].to_numpy()
