"""unskew diagnose"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options, settings
from unskew.cli.errors import with_options
from unskew.cli.output import check_file_path, print_json, write_file
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.model import Recommender

EXAMPLE = "unskew diagnose ratings.csv --propensity additive --json"


@reads("columns", "log")
def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|LOG", help=f"A folder that `unskew fit` wrote, or a log: {SOURCE_HELP}", show_default=False
        ),
    ],
    reading: Reading,
    random_ratings: Annotated[
        str | None,
        typer.Option("--random-ratings", metavar="FILE", help="Ratings of random pairs: they tell if ratings decide."),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            "--propensity",
            metavar="NAME",
            help="How propensities are fitted; a model's own, or factors for a log. A part of `unskew methods`.",
        ),
    ] = None,
    rival: Annotated[
        str | None,
        typer.Option("--rival", metavar="FILE", help="Scores to compare with: columns user_id, item_id and score."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write reliability diagrams (.png).")
    ] = None,
    seed: options.Seed = 0,
    epochs: Annotated[int | None, typer.Option("--epochs", metavar="N", help="At most so many epochs a net.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell whether debiasing is needed, whether it can work and how wrong the answer can be: words, then figures."""
    check_file_path(plot, (".png",))
    recipe = None if propensity is None else settings.propensity_from(propensity)
    limits: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
    subject = _subject(source, reading)
    log = subject.log if hasattr(subject, "log") else subject
    found = unskew.diagnose(
        subject,
        propensity=recipe,
        random_ratings=None if random_ratings is None else reading.random_ratings(random_ratings, log),
        rival=rival,
        seed=seed,
        training=unskew.Training(**limits),
    )
    if plot is not None:
        stream = BytesIO()
        found.plot().savefig(stream, format="png", dpi=150)
        write_file(plot, stream.getvalue())
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(with_options(str(found)))
    if plot is not None:
        typer.echo(f"wrote the reliability diagrams to {plot}")


def _subject(source: str, reading: Reading) -> RatingLog | Recommender:
    """A model if the source is a folder, else a log."""
    if not Path(source).is_dir():
        return reading.log(source)
    if reading.positive is not None or reading.graded is not None:
        raise ParameterError("--positive and --graded are for logs; a model knows its own scale.")
    return unskew.load(source)
