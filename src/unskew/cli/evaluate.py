"""unskew evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_table_path, print_json, write_table
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.cli.unknown import unknown_pairs
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.evaluation import Evaluation
    from unskew.model import Recommender

EXAMPLE = "unskew evaluate model test.csv --k 5 --per-user users.csv"


@reads("columns", "log")
def command(
    model: options.Model,
    test: Annotated[str, typer.Argument(metavar="TEST", help=SOURCE_HELP, show_default=False)],
    reading: Reading,
    k: Annotated[list[int], typer.Option("--k", metavar="N", help="Length of ranked lists, repeatable.")] = [5, 10],  # noqa: B006
    empty_users: Annotated[
        options.EmptyUsers,
        typer.Option("--empty-users", help="What a user without a liked test pair counts in the means."),
    ] = options.EmptyUsers.SKIP,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    per_user: Annotated[
        Path | None,
        typer.Option("--per-user", metavar="FILE", help="Write every user's metrics (.csv, .tsv, .parquet)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a model's predictions with the ratings of a test log."""
    check_table_path(per_user)
    recommender = unskew.load(model)
    ratings = reading.test(test, recommender.log.scale)
    notes = _notes(recommender, ratings)
    found = _evaluated(recommender, ratings, k, empty_users, on_unknown, notes)
    if per_user is not None:
        write_table(per_user, found.per_user.to_arrow())
    if as_json:
        print_json(_facts(found, notes))
        return
    typer.echo(str(found))
    for note in notes:
        typer.echo(f"note: {note}")
    if per_user is not None:
        typer.echo(f"wrote the metrics of {len(found.per_user):,} users to {per_user}")


def _notes(model: Recommender, test: RatingLog) -> list[str]:
    """What to know of the two scales; refuses to compare probabilities with ratings."""
    if test.binary != model.log.binary:
        answers = "probabilities" if model.log.binary else "graded ratings"
        wrong = "--graded" if model.log.binary else "--positive"
        raise ParameterError(f"the model answers with {answers}, so that {wrong} makes no sense: leave it out.")
    notes = [f"{test.duplicates_merged:,} duplicates of the test were merged"] if test.duplicates_merged else []
    own, asked = model.log.scale.positive, test.scale.positive
    if own is not None and asked is not None and own != asked:
        notes.append(f"the model learned what is rated {own:g} or more, the test asks for {asked:g} or more")
    return notes


def _evaluated(
    model: Recommender, test: RatingLog, k: list[int], empty_users: str, on_unknown: str, notes: list[str]
) -> Evaluation:
    from unskew.evaluation import evaluate

    rules: Any = {"k": k, "empty_users": str(empty_users)}
    if on_unknown == "raise":
        return evaluate(model, test, **rules)
    _, line = unknown_pairs(model, test.user_ids.take(test.users), test.item_ids.take(test.items))
    if line:
        notes.append(line)
    return evaluate(lambda users, items: model.predict(users, items, on_unknown="fallback"), test, **rules)


def _facts(found: Evaluation, notes: list[str]) -> dict[str, Any]:
    return {
        "metrics": found.metrics,
        "pairs": found.n_pairs,
        "users": found.n_users,
        "empty_users": {"rule": found.empty_users, "count": found.n_empty_users},
        "positive_from": found.positive_from,
        "notes": [*found.notes, *notes],
    }
