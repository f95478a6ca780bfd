"""Options that several commands share: the same name, meaning, default and range everywhere."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Duplicates = Literal["error", "last", "mean", "keep", "count"]
Target = Literal["click", "conversion", "click-and-conversion", "implicit"]
EmptyUsers = Literal["skip", "one", "zero"]
OnUnknown = Literal["raise", "fallback"]
LARGEST = {"--k": 10_000, "--seeds": 10_000, "--trials": 100_000, "--tune": 100_000, "--workers": 256, "--port": 65_535}
LARGEST |= {"--seed": 2**63 - 1, "--epochs": 1_000_000}


def count(name: str, text: str, least: int = 1) -> Any:
    """Return an option that takes a whole number in its range; Python's own parser also takes 1_000."""

    def parsed(given: Any) -> int:
        if not re.fullmatch(r"-?[0-9]{1,30}", str(given)) or not least <= int(given) <= LARGEST[name]:
            numbers = f"a whole number from {least} to {LARGEST[name]:,}"
            raise typer.BadParameter(f"must be {numbers}, not {str(given)!r}")
        return int(given)

    return typer.Option(name, metavar="N", help=text, parser=parsed)


def number(given: Any) -> float:
    """Return the finite number that a text spells."""
    spelled = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", str(given))
    if spelled is None or not math.isfinite(float(given)):
        raise typer.BadParameter(f"must be a number, not {str(given)!r}")
    return float(given)


def file(name: str, text: str, metavar: str = "FILE", **more: Any) -> Any:
    """Return an option that takes a path."""
    return typer.Option(name, metavar=metavar, help=text, **more)


def share(name: str, text: str) -> Any:
    """Return an option that takes a part of 1."""

    def parsed(given: Any) -> float:
        if not 0 < number(given) < 1:
            raise typer.BadParameter(f"must lie between 0 and 1, both excluded, not {str(given)!r}")
        return number(given)

    return typer.Option(name, metavar="SHARE", help=text, parser=parsed)


def flag(name: str, text: str) -> Any:
    """Return an option that is given or not."""
    return typer.Option(name, help=text)


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `unskew fit` wrote.", show_default=False)]
UserColumn = Annotated[str | None, file("--user", "Column of the users; guessed by its name.", "COLUMN")]
ItemColumn = Annotated[str | None, file("--item", "Column of the items; guessed by its name.", "COLUMN")]
RatingColumn = Annotated[str | None, file("--rating", "Column of the ratings; guessed by its name.", "COLUMN")]
TimeColumn = Annotated[str | None, file("--time", "Column of the times; guessed by its name.", "COLUMN")]
Positive = Annotated[
    float | None,
    typer.Option(
        "--positive",
        metavar="RATING",
        help="The lowest rating that counts as liked; the model's, or guessed: the middle of the scale.",
        parser=number,
    ),
]
Graded = Annotated[
    tuple[str, str] | None,
    file("--graded", "Keep ratings graded on the scale LOW to HIGH.", "LOW HIGH", show_default=False),
]
DuplicatesOption = Annotated[
    Duplicates | None, flag("--duplicates", "What to do with a pair of several rows; impressions are kept, else error.")
]
SeenColumn = Annotated[
    str | None, file("--seen", "Of impressions: column of what could be rated, such as clicked.", "COLUMN")
]
TargetOption = Annotated[Target | None, flag("--target", "Of impressions: what to learn; guessed by the columns.")]
ItemNames = Annotated[
    str | None, file("--item-names", "Titles of items: a file with ids, or a column of LOG.", "FILE|COLUMN")
]
OnUnknownOption = Annotated[
    OnUnknown, flag("--on-unknown", "Refuse unknown users and items, or answer for the average one.")
]
EmptyUsersOption = Annotated[
    EmptyUsers, flag("--empty-users", "What a user without a liked test pair counts in the means.")
]
NewUsers = Annotated[Path | None, file("--new-users", "Ratings of users the model does not know, who are folded in.")]
Spreadsheet = Annotated[
    bool, flag("--spreadsheet", "Put an apostrophe before texts that a spreadsheet would take for a formula.")
]
RandomRatings = Annotated[
    str | None, file("--random-ratings", "Ratings of random pairs, even a few: they overrule the log.")
]
Seeds = Annotated[int, count("--seeds", "How often each method is fitted.")]
Trials = Annotated[int, count("--tune", "Trials for each method; 0 leaves settings as they are.", 0)]
Workers = Annotated[int, count("--workers", "Fits side by side, in processes of one thread each.")]
OutFolder = Annotated[Path, file("--out", "Where everything is written.", "FOLDER", show_default=False)]
Seed = Annotated[int, count("--seed", "The same seed gives the same result.", 0)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, repeatable: clip=0.05, net.n_factors=32 for a setting inside another, propensity=additive for "
        "a part by its name; training.max_epochs=20 for the training, log.user_features=FILE for what reads the log.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, flag("--quiet", "Show no progress and no notes.")]
Verbose = Annotated[bool, flag("--verbose", "Say on standard error what is done, and when.")]
AsJson = Annotated[bool, flag("--json", "Print JSON instead of text.")]
