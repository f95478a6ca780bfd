"""Options that several commands share: the same name, meaning and default everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Duplicates(StrEnum):
    ERROR = "error"
    LAST = "last"
    MEAN = "mean"


class EmptyUsers(StrEnum):
    SKIP = "skip"
    ONE = "one"
    ZERO = "zero"


class Criterion(StrEnum):
    MSE = "mse"
    LOG_LOSS = "log_loss"
    AUC = "auc"
    USER_AUC = "user_auc"


class OnUnknown(StrEnum):
    RAISE = "raise"
    FALLBACK = "fallback"


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `unskew fit` wrote.", show_default=False)]
UserColumn = Annotated[
    str | None, typer.Option("--user", metavar="COLUMN", help="Column of the users; guessed by its name.")
]
ItemColumn = Annotated[
    str | None, typer.Option("--item", metavar="COLUMN", help="Column of the items; guessed by its name.")
]
RatingColumn = Annotated[
    str | None, typer.Option("--rating", metavar="COLUMN", help="Column of the ratings; guessed by its name.")
]
Graded = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--graded", metavar="LOW HIGH", help="Keep ratings graded on the scale LOW to HIGH.", show_default=False
    ),
]
DuplicatesOption = Annotated[
    Duplicates, typer.Option("--duplicates", help="What to do with a pair that is rated more than once.")
]
OnUnknownOption = Annotated[
    OnUnknown,
    typer.Option("--on-unknown", help="Refuse unknown users and items, or answer for the average one."),
]
NewUsers = Annotated[
    Path | None,
    typer.Option("--new-users", metavar="FILE", help="Ratings of users the model does not know, who are folded in."),
]
UserFeatures = Annotated[
    Path | None, typer.Option("--user-features", metavar="FILE", help="A file with a row of features per user.")
]
ItemFeatures = Annotated[
    Path | None, typer.Option("--item-features", metavar="FILE", help="A file with a row of features per item.")
]
ItemNames = Annotated[
    str | None,
    typer.Option("--item-names", metavar="FILE|COLUMN", help="Titles of items: a file with ids, or a column of LOG."),
]
Positive = Annotated[
    float | None,
    typer.Option(
        "--positive",
        metavar="RATING",
        help="The lowest rating that counts as liked; the model's, or guessed: the middle of the scale.",
    ),
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="At most so many epochs a stage.")]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", help="Ratings in a step; by default it grows with the log."),
]
Workers = Annotated[
    int, typer.Option("--workers", metavar="N", help="Fits side by side, in processes of one thread each.")
]
CriterionOption = Annotated[
    Criterion, typer.Option("--criterion", help="By what trials are judged; the same for all methods.")
]
PropensityName = Annotated[
    str, typer.Option("--propensity", metavar="NAME", help="How propensities are fitted; a part of `unskew list`.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same result.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the method, repeatable: clip=0.05, net.n_factors=32 for a setting inside another, "
        "propensity=additive for a part by its name, training.max_epochs=20 for the training of `unskew fit`.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress and no notes.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Say on standard error what is done, and when.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
