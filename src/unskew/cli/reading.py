"""Logs from what a command names: a file, a model's folder, or NAME:FOLDER for a published dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import unskew
from unskew.cli import options
from unskew.cli.errors import BY_SET, with_options
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.log import RatingLog
    from unskew.data.scale import Scale
    from unskew.datasets import Dataset
    from unskew.model import Recommender


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options by which logs are read, named as on the command line; `guessed` collects what logs note."""

    user: options.UserColumn = None
    item: options.ItemColumn = None
    rating: options.RatingColumn = None
    time: options.TimeColumn = None
    positive: options.Positive = None
    graded: options.Graded = None
    duplicates: options.DuplicatesOption = None
    seen: options.SeenColumn = None
    target: options.TargetOption = None
    item_names: options.ItemNames = None
    user_features: Path | None = None  # this and what follows by --set log.NAME=VALUE alone
    item_features: Path | None = None
    context: str | None = None  # COLUMN,COLUMN
    window: float | None = None  # seconds
    guessed: list[str] = field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.positive is not None and self.graded is not None:
            raise ParameterError("--positive makes ratings binary and --graded keeps them graded: give one of the two.")

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "guessed"}

    def log(self, source: str, scale: Scale | None = None, *, test: bool = False) -> RatingLog:
        """Return a log on this scale unless options give one; of a dataset what its users chose, or its random test."""
        if is_model(source):
            self.refuse_options(source, "the folder of a model")
            return unskew.load(source).log
        dataset = self.dataset(source, "usual" if scale is None else scale.positive)
        if dataset is None:
            return self._read(source, scale)
        return dataset.test if test else dataset.train

    def random_ratings(self, source: str | None, log: RatingLog | None, *, known: bool = True) -> RatingLog | None:
        """Return randomly collected ratings of a file on the scale of the log and, with `known`, in its ids."""
        if source is None or log is None:
            return None
        if _named_dataset(source) is not None:
            raise ParameterError(
                f"--random-ratings {source} is a dataset, whose random ratings are its test: give a file of other ones."
            )
        return self._read(source, log.scale, **({"user_ids": log.user_ids, "item_ids": log.item_ids} if known else {}))

    def dataset(self, source: str, positive: Any = "usual") -> Dataset | None:
        """Return the dataset that NAME:FOLDER stands for, with this threshold unless options give one, if it is one."""
        named = _named_dataset(source)
        if named is None:
            known = (each.name for each in unskew.registered("dataset"))
            if source.replace("-", "_") in known and not Path(source).exists():
                raise ParameterError(f"{source} is a dataset: name the folder of its files too, as {source}:FOLDER.")
            return None
        self.refuse_options(source, "a dataset", allowed=("positive", "graded"))
        if self.positive is not None or self.graded is not None:
            positive = self.positive
        dataset = unskew.datasets.load(*named, positive=positive)
        scale = dataset.train.scale
        if self.graded not in (None, (scale.low, scale.high)):
            raise ParameterError(
                f"the ratings of {named[0]} have another scale: give --graded {scale.low:g} {scale.high:g}."
            )
        for note in dataset.notes:
            say(f"{named[0]}: {note}")
        return dataset

    def table(self, path: Path, roles: Sequence[str], log: RatingLog) -> tuple[pa.Table, dict[str, str]]:
        """Return a small file as it is, and the names of the columns that have these roles in it, as in the log."""
        from unskew.data.read import named_frame

        table, names, guessed = named_frame(path, {role: getattr(self, role) for role in roles}, like=log.names)
        self._note(f"{path.name}: {note}" for note in guessed)
        return table, names

    def ids(self, path: Path, role: str, log: RatingLog) -> pa.Array:
        """Return the ids in the column of a file that has this role."""
        from unskew.data.ids import as_ids

        table, names = self.table(path, (role,), log)
        return as_ids(table[names[role]], f"column {names[role]!r} of {path.name}")

    def folded_in(self, model: Recommender, file: Path | None, on_unknown: options.OnUnknown) -> Recommender:
        """Return the model, which knows the users of the file too, by the ratings there."""
        if file is None:
            return model
        from unskew.data.guess import DOCUMENTED

        table, names = self.table(file, ("user", "item", "rating"), model.log)
        frame = table.select(list(names.values())).rename_columns([DOCUMENTED[role] for role in names])
        joined = model.fold_in(frame, on_unknown=on_unknown)
        say(joined.history.notes[-1])
        return joined

    def words(self, for_fit: bool = False) -> list[str]:
        """Return what was given as one writes it, also for `unskew fit`: by this another command reads the same."""
        found: list[str] = []
        for name, value in self.given.items():
            each = value if isinstance(value, tuple) else (value,)
            texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in each]
            found += ["--set", f"log.{name}={texts[0]}"] if for_fit and name in BY_SET else [_spelled(name), *texts]
        return found

    def _read(self, source: str, scale: Scale | None, **sides: Any) -> RatingLog:
        """Return the log of a file, on this scale unless options give another."""
        of_log = ("user_features", "item_features", "item_names")  # which gives the sides of other logs
        settings = {name: value for name, value in self.given.items() if not sides or name not in of_log} | sides
        if settings.pop("graded", None) is not None:
            settings |= {"positive": None, "rating_scale": self.graded}
        elif scale is not None and self.positive is None:
            settings |= {"positive": scale.positive, "rating_scale": (scale.low, scale.high)}
        if self.context is not None:
            settings["context"] = [name.strip() for name in str(self.context).split(",")]
        log = unskew.read_log(source, **settings)
        self._note(log.notes)
        return log

    def refuse_unread_columns(self, *read: str) -> None:
        """Refuse names of columns that no file of the command is read for."""
        for role in self.given:
            if role not in read:
                how = "name users by --for" if role == "user" else "leave it out"
                raise ParameterError(f"--{role} names a column, and no file is read for it here: {how}.")

    def refuse_options(self, source: str, what: str, allowed: Sequence[str] = ()) -> None:
        """Refuse options that say how to read a file, where there is none to be read."""
        for name in self.given:
            if name not in allowed:
                raise ParameterError(f"{_spelled(name)} is for files, and {source} is {what}: leave it out.")

    def _note(self, notes: Iterable[str]) -> None:
        for note in map(with_options, notes):
            self.guessed.append(note)
            say(note)


# The groups of options that commands have together: a command's parameter `reading` is annotated with one.
COLUMNS = ("user", "item", "rating")
RATINGS = (*COLUMNS, "positive", "graded", "duplicates")
Columns = Annotated[Reading, COLUMNS]
MoreRows = Annotated[Reading, (*COLUMNS, "seen")]
Ratings = Annotated[Reading, RATINGS]
RatingsInTime = Annotated[Reading, (*RATINGS, "target", "time")]
Impressions = Annotated[Reading, (*RATINGS, "seen", "target")]
Everything = Annotated[Reading, (*COLUMNS, "positive", "graded", "seen", "target", "item_names")]


def is_model(source: str) -> bool:
    """Return whether the source is a folder of a model."""
    return (Path(source) / "model.json").is_file()


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


def _named_dataset(source: str) -> tuple[str, str] | None:
    """Return name and folder, if the source is of the form NAME:FOLDER; a file of that name goes first."""
    name, colon, folder = source.partition(":")
    if not colon or len(name) < 2 or "/" in name or "\\" in name or Path(source).exists():
        return None
    return name.replace("-", "_"), folder
