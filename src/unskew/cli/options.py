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
    WEIGHTED_LOG_LOSS = "weighted_log_loss"
    LOG_LOSS = "log_loss"
    AUC = "auc"


class OnUnknown(StrEnum):
    RAISE = "raise"
    FALLBACK = "fallback"


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `unskew fit` wrote.", show_default=False)]
UserColumn = Annotated[str, typer.Option("--user", metavar="COLUMN", help="Column of the users.")]
ItemColumn = Annotated[str, typer.Option("--item", metavar="COLUMN", help="Column of the items.")]
RatingColumn = Annotated[str, typer.Option("--rating", metavar="COLUMN", help="Column of the ratings.")]
Graded = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--graded", metavar="LOW HIGH", help="Keep ratings graded on the scale LOW to HIGH.", show_default=False
    ),
]
DuplicatesOption = Annotated[
    Duplicates, typer.Option("--duplicates", help="What to do with a pair that is rated more than once.")
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHARACTER", help="What separates columns, if not what the ending says."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FOLDER", help="Keep the log there between runs; it need not fit into memory."),
]
AcceptAltered = Annotated[
    bool, typer.Option("--accept-altered", help="Accept dataset files that differ from the original, and say how.")
]
OnUnknownOption = Annotated[
    OnUnknown,
    typer.Option("--on-unknown", help="Refuse unknown users and items, or answer for the average one."),
]
UserFeatures = Annotated[
    Path | None, typer.Option("--user-features", metavar="FILE", help="A file with a row of features per user.")
]
ItemFeatures = Annotated[
    Path | None, typer.Option("--item-features", metavar="FILE", help="A file with a row of features per item.")
]
Positive = Annotated[
    float | None,
    typer.Option("--positive", metavar="RATING", help="The lowest rating that counts as liked; 3 for files."),
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
JudgeFolds = Annotated[
    int, typer.Option("--judge-folds", metavar="N", help="Into how many random folds trials cut the log.")
]
Judges = Annotated[
    int, typer.Option("--judges", metavar="N", help="On how many of the folds, one after the other, a trial is judged.")
]
PropensityName = Annotated[
    str, typer.Option("--propensity", metavar="NAME", help="How propensities are fitted; a part of `unskew methods`.")
]
Members = Annotated[
    int | None,
    typer.Option("--members", metavar="N", help="Fit an ensemble of so many members, which answer on average."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same result.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
