"""unskew evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_table_path, print_json, write_table
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.evaluation import Evaluation

EXAMPLE = "unskew evaluate model test.csv --k 5 --per-user users.csv"


@reads("columns", "log")
def command(
    model: options.Model,
    reading: Reading,
    test: Annotated[
        str | None,
        typer.Argument(metavar="TEST", help=f"Ratings to judge by; without them the log judges. {SOURCE_HELP}"),
    ] = None,
    k: Annotated[list[int], typer.Option("--k", metavar="N", help="Length of ranked lists, repeatable.")] = [5, 10],  # noqa: B006
    empty_users: Annotated[
        options.EmptyUsers,
        typer.Option("--empty-users", help="What a user without a liked test pair counts in the means."),
    ] = options.EmptyUsers.SKIP,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    baselines: Annotated[
        bool,
        typer.Option("--baselines/--no-baselines", help="Popularity, means and plain training next to the model."),
    ] = True,
    per_user: Annotated[
        Path | None,
        typer.Option("--per-user", metavar="FILE", help="Write every user's metrics (.csv, .tsv, .parquet)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a model's predictions with the ratings of a test log, every figure with its interval.

    Without a test, estimate how good they are over the pairs that nobody chose, from the model's own log alone.
    """
    check_table_path(per_user)
    recommender = unskew.load(model)
    if test is None:
        if per_user is not None:
            raise ParameterError("--per-user needs a TEST: the log alone knows no user's metrics.")
        risk = unskew.estimate_risk(recommender)
        print_json(risk.to_dict()) if as_json else typer.echo(repr(risk))
        return
    ratings = reading.test(test, recommender.log.scale)
    if ratings.binary != recommender.log.binary:
        answers, wrong = ("probabilities", "graded") if recommender.log.binary else ("graded ratings", "positive")
        raise ParameterError(f"the model answers with {answers}, so that --{wrong} makes no sense: leave it out.")
    rules: Any = {"k": k, "empty_users": str(empty_users), "on_unknown": str(on_unknown), "baselines": baselines}
    found = unskew.evaluate(recommender, ratings, **rules)
    merged = ratings.duplicates_merged
    notes = [*found.notes, *([f"{merged:,} duplicates of the test were merged"] if merged else [])]
    if per_user is not None:
        write_table(per_user, found.per_user)
    if as_json:
        print_json(_facts(found, notes))
        return
    typer.echo(str(found))
    for note in notes[len(found.notes) :]:
        typer.echo(f"note: {note}")
    if per_user is not None:
        typer.echo(f"wrote the metrics of {len(found.per_user):,} users to {per_user}")


def _facts(found: Evaluation, notes: list[str]) -> dict[str, Any]:
    return {
        "metrics": found.metrics,
        "intervals": {name: interval.to_dict() for name, interval in found.intervals.items()},
        "baselines": found.baselines,
        "pairs": found.n_pairs,
        "users": found.n_users,
        "empty_users": {"rule": found.empty_users, "count": found.n_empty_users},
        "positive_from": found.positive_from,
        "notes": notes,
    }
