"""unskew evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import TABLES, Answer, check_file, write_table
from unskew.cli.reading import SOURCE_HELP, Ratings
from unskew.errors import ParameterError

EXAMPLE = "unskew evaluate model test.csv --k 5 --per-user users.csv"


def command(
    model: options.Model,
    reading: Ratings,
    test: Annotated[
        str | None,
        typer.Argument(metavar="TEST", help=f"Ratings to judge by; without them the log judges. {SOURCE_HELP}"),
    ] = None,
    k: Annotated[list[int], options.count("--k", "Length of ranked lists, repeatable.")] = [5, 10],  # noqa: B006
    empty_users: options.EmptyUsersOption = "skip",
    on_unknown: options.OnUnknownOption = "raise",
    per_user: Annotated[
        Path | None, options.file("--per-user", "Write every user's metrics (.csv, .tsv, .parquet).")
    ] = None,
) -> Answer:
    """Compare a model's predictions with the ratings of a test log, every figure with its interval.

    Without a test, estimate how good they are over the pairs that nobody chose, from the model's own log alone.
    """
    check_file(per_user, TABLES)
    recommender = unskew.load(model)
    if test is None:
        if per_user is not None:
            raise ParameterError("--per-user needs a TEST: the log alone knows no user's metrics.")
        risk = unskew.estimate_risk(recommender)
        return Answer(repr(risk), risk.to_dict())
    ratings = reading.test(test, recommender.log.scale)
    if ratings.binary != recommender.log.binary:
        answers, wrong = ("probabilities", "graded") if recommender.log.binary else ("graded ratings", "positive")
        raise ParameterError(f"the model answers with {answers}, so that --{wrong} makes no sense: leave it out.")
    found = unskew.evaluate(recommender, ratings, k=k, empty_users=empty_users, on_unknown=on_unknown)
    lines, notes = [str(found)], [*found.notes]
    if ratings.duplicates_merged:
        notes.append(f"{ratings.duplicates_merged:,} duplicates of the test were merged")
        lines.append(f"note: {notes[-1]}")
    if per_user is not None:
        write_table(per_user, found.per_user)
        lines.append(f"wrote the metrics of {len(found.per_user):,} users to {per_user}")
    names = ("metrics", "baselines", "n_pairs", "n_users", "empty_users", "n_empty_users", "positive_from")
    intervals = {name: interval.to_dict() for name, interval in found.intervals.items()}
    facts = {name: getattr(found, name) for name in names} | {"intervals": intervals, "notes": notes}
    return Answer("\n".join(lines), facts)
