"""Options of commands: called as their parameters are, those that several commands share alike everywhere."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Duplicates = Literal["error", "last", "mean", "keep", "count"]
Target = Literal["click", "conversion", "click-and-conversion", "implicit"]
EmptyUsers = Literal["skip", "one", "zero"]
OnUnknown = Literal["raise", "fallback"]


def option(text: str, metavar: str | None = None, name: str = "", **more: Any) -> Any:
    """Return an option that is called --NAME, or as its parameter; one that takes a path shows FILE."""
    made = typer.Option(metavar=metavar, help=text, **more)
    made.param_decls = [name] if name else None
    return made


def argument(metavar: str | None, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def count(text: str, least: int = 1, most: int = 10_000) -> Any:
    """Return an option that takes a whole number in its range; Python's own parser also takes 1_000."""

    def parsed(given: Any) -> int:
        if not re.fullmatch(r"-?[0-9]{1,30}", str(given)) or not least <= int(given) <= most:
            raise typer.BadParameter(f"must be a whole number from {least} to {most:,}, not {str(given)!r}")
        return int(given)

    return option(text, "N", parser=parsed)


def number(given: Any) -> float:
    """Return the finite number that a text spells."""
    spelled = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", str(given))
    if spelled is None or not math.isfinite(float(given)):
        raise typer.BadParameter(f"must be a number, not {str(given)!r}")
    return float(given)


def share(text: str) -> Any:
    """Return an option that takes a part of 1."""

    def parsed(given: Any) -> float:
        if not 0 < number(given) < 1:
            raise typer.BadParameter(f"must lie between 0 and 1, both excluded, not {str(given)!r}")
        return number(given)

    return option(text, "SHARE", parser=parsed)


def seed(text: str) -> Any:
    return count(text, 0, 2**63 - 1)


LOG_HELP = (
    "A file (CSV, TSV, u.data, .dat, .inter, JSON lines, Parquet; also .gz, .bz2, .zst, .zip), - for standard input, a "
    "folder of such files or of a model, or NAME:FOLDER for a dataset of `unskew list`."
)
SET_HELP = (
    "A setting, repeatable: clip=0.05, net.n_factors=32 for a setting inside another, propensity=additive for a part "
    "by its name; training.max_epochs=20 for the training, log.user_features=FILE for what reads the log."
)
Log = Annotated[str, argument("LOG", LOG_HELP)]
Model = Annotated[Path, argument("MODEL", "Folder that `unskew fit` wrote.")]
UserColumn = Annotated[str | None, option("Column of the users; guessed by its name.", "COLUMN")]
ItemColumn = Annotated[str | None, option("Column of the items; guessed by its name.", "COLUMN")]
RatingColumn = Annotated[str | None, option("Column of the ratings; guessed by its name.", "COLUMN")]
TimeColumn = Annotated[str | None, option("Column of the times; guessed by its name.", "COLUMN")]
LIKED_HELP = "The lowest rating that counts as liked; the model's, or guessed: the middle of the scale."
Positive = Annotated[float | None, option(LIKED_HELP, "RATING", parser=number)]
GRADED_HELP = "Keep ratings graded on the scale LOW to HIGH."
Graded = Annotated[tuple[float, float] | None, option(GRADED_HELP, "LOW HIGH", parser=number)]
DuplicatesOption = Annotated[
    Duplicates | None, option("What to do with a pair of several rows; impressions are kept, else error.")
]
SeenColumn = Annotated[str | None, option("Of impressions: column of what could be rated, such as clicked.", "COLUMN")]
TargetOption = Annotated[Target | None, option("Of impressions: what to learn; guessed by the columns.")]
ItemNames = Annotated[str | None, option("Titles of items: a file with ids, or a column of LOG.", "FILE|COLUMN")]
OnUnknownOption = Annotated[OnUnknown, option("Refuse unknown users and items, or answer for the average one.")]
EmptyUsersOption = Annotated[EmptyUsers, option("What a user without a liked test pair counts in the means.")]
NewUsers = Annotated[Path | None, option("Ratings of users the model does not know, who are folded in.")]
Spreadsheet = Annotated[bool, option("Put an apostrophe before texts that a spreadsheet would take for a formula.")]
RandomRatings = Annotated[str | None, option("Ratings of random pairs, even a few: they overrule the log.", "FILE")]
Seeds = Annotated[int, count("How often each method is fitted.")]
Trials = Annotated[int, count("Trials for each method; 0 leaves settings as they are.", 0, 100_000)]
Workers = Annotated[int, count("Fits side by side, in processes of one thread each.", 1, 256)]
OutFolder = Annotated[Path, option("Where everything is written.", "FOLDER")]
Seed = Annotated[int, seed("The same seed gives the same result.")]
Settings = Annotated[list[str] | None, option(SET_HELP, "NAME=VALUE", "--set", show_default=False)]
Quiet = Annotated[bool, option("Show no progress and no notes.")]
Verbose = Annotated[bool, option("Say on standard error what is done, and when.")]
AsJson = Annotated[bool, option("Print JSON instead of text.", name="--json")]
