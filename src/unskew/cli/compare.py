"""unskew compare"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options, settings
from unskew.cli.output import print_json
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.estimation.compare import Comparison

EXAMPLE = "unskew compare A.csv B.csv --log new-ratings.csv"
SCORES_HELP = "A file with columns user_id, item_id and score, or a folder that `unskew fit` wrote."


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
    metric: Annotated[
        str,
        typer.Option("--metric", metavar="NAME", help="mse, mae, log_loss, auc, ndcg@K, recall@K or precision@K."),
    ] = "mse",
    estimator: Annotated[
        str, typer.Option("--estimator", metavar="NAME", help="naive, ips, snips, eib, dr or tdr.")
    ] = "snips",
    propensity: options.PropensityName = "factors",
    pscore: Annotated[
        str | None,
        typer.Option("--pscore", metavar="COLUMN", help="A column of LOG with known propensities, instead of a fit."),
    ] = None,
    clip: Annotated[float, typer.Option("--clip", metavar="P", help="Raise smaller propensities to this.")] = 0.0,
    confidence: Annotated[float, typer.Option("--confidence", metavar="SHARE", help="Of the intervals.")] = 0.95,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Say which of two models is better for all pairs, judging by a log in which users chose what to rate."""
    recipe = settings.propensity_from(propensity)
    scores = _scores(first), _scores(second)
    scale = next((model.log.scale for model in scores if hasattr(model, "log")), None)
    ratings = None if log is None else reading.log(log, scale)
    known = None if pscore is None else _column(log, ratings, pscore, reading)
    found = unskew.compare(
        *scores,
        ratings,
        metric=metric,
        estimator=estimator,
        propensity=recipe if known is None else known,
        clip=clip,
        confidence=confidence,
        names=_names(first, second),
        seed=seed,
    )
    if as_json:
        print_json(_facts(found))
    else:
        typer.echo(str(found))


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


def _facts(found: Comparison) -> dict[str, Any]:
    factor = found.overturning_factor
    facts = asdict(found) | {"better": found.better, "in_words": str(found)}
    for name in ("first", "second", "difference", "naive"):
        facts[name] = getattr(found, name)._asdict()
    return facts | {"overturning_factor": None if factor is None or math.isinf(factor) else factor}
