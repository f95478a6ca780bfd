"""Logs from what a command names: a file, a model's folder, or NAME:FOLDER for a published dataset."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import unskew
from unskew.cli import options
from unskew.cli.errors import with_options
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.log import RatingLog
    from unskew.data.scale import Scale
    from unskew.datasets import Dataset
    from unskew.methods.base import Method

SOURCE_HELP = (
    "A file (CSV, TSV, u.data, .dat, .inter, JSON lines, Parquet; also .gz, .bz2, .zst, .zip), - for standard input, a "
    "folder of such files or of a model, or NAME:FOLDER for a dataset of `unskew list`."
)
GROUPS = {  # of options, which commands have together
    "columns": ("user", "item", "rating"),
    "log": ("positive", "graded", "duplicates"),
    "features": ("user_features", "item_features", "item_names"),
}
OF_PYTHON = re.compile(r" \((delimiter|header)= changes this\)")  # which is not set here
_OF_DATASETS = ("positive", "graded")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options by which logs are read, named as on the command line; `guessed` collects what logs note."""

    user: options.UserColumn = None
    item: options.ItemColumn = None
    rating: options.RatingColumn = None
    positive: options.Positive = None
    graded: options.Graded = None
    duplicates: options.DuplicatesOption = options.Duplicates.ERROR
    user_features: options.UserFeatures = None
    item_features: options.ItemFeatures = None
    item_names: options.ItemNames = None
    guessed: list[str] = field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.positive is not None and self.graded is not None:
            raise ParameterError("--positive makes ratings binary and --graded keeps them graded: give one of the two.")

    def log(self, source: str, scale: Scale | None = None) -> RatingLog:
        """The log to learn from, on this scale unless options say otherwise; of a dataset the part its users chose."""
        if _is_model(source):
            self._refuse_options(source, "the folder of a model", allowed=())
            return unskew.load(source).log
        dataset = self.dataset(source)
        if dataset is not None:
            return dataset.train
        return self._read(source, scale)

    def dataset(self, source: str) -> Dataset | None:
        """The dataset that NAME:FOLDER stands for; None if the source is a file."""
        return self._dataset(source, "usual")

    def test(self, source: str, scale: Scale) -> RatingLog:
        """The log to be judged by, on the model's scale unless options say otherwise; of a dataset the random part."""
        if _is_model(source):
            return self.log(source)
        dataset = self._dataset(source, scale.positive)
        return self._read(source, scale) if dataset is None else dataset.test

    def random_ratings(self, source: str, log: RatingLog, *, known: bool = True) -> RatingLog:
        """A file of randomly collected ratings on the scale of the log it belongs to; with `known`, in its ids too."""
        if _named_dataset(source) is not None:
            raise ParameterError(
                f"--random-ratings {source} is a dataset, whose random ratings are its test: give a file of other ones."
            )
        ids = {"user_ids": log.user_ids, "item_ids": log.item_ids} if known else {}
        return self._read(source, log.scale, **ids)

    def refuse_unread(self, methods: Mapping[str, Method]) -> None:
        """Refuse files of features that none of these methods would read."""
        given = [name for name in ("user_features", "item_features") if getattr(self, name) is not None]
        if given and not any(method.reads_features for method in methods.values()):
            option, name = given[0].replace("_", "-"), next(iter(methods))
            bayes = "--method dce-bayes or " if any(entry.name == "dce-bayes" for entry in unskew.registered()) else ""
            raise ParameterError(
                f"--{option}: the method {name!r} reads no features; use {bayes}--set propensity=logistic."
            )

    def table(self, path: Path, roles: Sequence[str]) -> tuple[pa.Table, dict[str, str]]:
        """A small file as it is, and the names of the columns that have these roles in it."""
        from unskew.data.features import missing_column
        from unskew.data.guess import columns_by_name, columns_by_place
        from unskew.data.read import read_frame

        given = {role: getattr(self, role) for role in roles}
        sides = [role for role in roles if role != "rating"]
        table = read_frame(path, [name for name in given.values() if name], sides=sides)
        for name in given.values():
            if name is not None and name not in table.column_names:
                raise missing_column(name, table.column_names, path.name)
        samples = {name: table[name][:100].to_pylist() for name in table.column_names}
        if table.column_names == [str(place + 1) for place in range(table.num_columns)]:
            rows = [list(map(str, row.values())) for row in table.slice(0, 100).to_pylist()]
            return table, columns_by_place(rows, given, path.name)
        names, guessed = columns_by_name(samples, given, path.name)
        self._tell(f"{path.name}: {note}" for note in guessed)
        return table, names

    @property
    def words(self) -> list[str]:
        """The options that were given, as one writes them: by them another command reads the same."""
        said: list[str] = []
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.init or value == option.default:
                continue
            name = option.name.replace("_", "-")
            if isinstance(value, bool):
                said.append(f"--{name}" if value else f"--no-{name}")
            else:
                values = value if isinstance(value, tuple) else (getattr(value, "value", value),)
                said += [f"--{name}", *(f"{one:g}" if isinstance(one, float) else str(one) for one in values)]
        return said

    def _read(self, source: str, scale: Scale | None, **sides: Any) -> RatingLog:
        """The log of a file, on this scale unless options give another."""
        settings: dict[str, Any] = {"duplicates": self.duplicates.value, **sides}
        if self.positive is not None:
            settings["positive"] = self.positive
        elif self.graded is not None:
            settings |= {"positive": None, "rating_scale": self.graded}
        elif scale is not None:
            settings |= {"positive": scale.positive, "rating_scale": (scale.low, scale.high)}
        if not sides:
            further = {name: getattr(self, name) for name in GROUPS["features"]}
            settings |= {name: value for name, value in further.items() if value is not None}
        log = unskew.read_log(source, self.user, self.item, self.rating, **settings)
        self._tell(log.notes)
        return log

    def _dataset(self, source: str, positive: Any) -> Dataset | None:
        """The dataset the source names, if it names one; `positive` is its threshold unless options give another."""
        named = _named_dataset(source)
        if named is None:
            return None
        self._refuse_options(source, "a dataset", allowed=_OF_DATASETS)
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

    def _refuse_options(self, source: str, what: str, allowed: Sequence[str]) -> None:
        for option in fields(self):
            if option.init and option.name not in allowed and getattr(self, option.name) != option.default:
                spelled = "--" + option.name.replace("_", "-")
                raise ParameterError(f"{spelled} is for files, and {source} is {what}: leave it out.")

    def _tell(self, notes: Iterable[str]) -> None:
        for note in (with_options(OF_PYTHON.sub("", note)) for note in notes):
            self.guessed.append(note)
            say(note)


def reads(*groups: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of `Reading`, those of some `GROUPS`, in the place of its parameter `reading`."""
    names = [name for group in groups for name in GROUPS[group]]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        kinds = get_type_hints(Reading, include_extras=True)
        shown = [option for option in fields(Reading) if option.name in names]
        signature = inspect.signature(command, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
        by_name = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option.name, by_name, default=option.default, annotation=kinds[option.name])
            for option in shown
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            command(reading=Reading(**{option.name: given.pop(option.name) for option in shown}), **given)

        own.sort(key=lambda parameter: parameter.name == "as_json")  # --json comes last, as everywhere
        last = [parameter.replace(kind=by_name) for parameter in own if parameter.name == "as_json"]
        together = [*own[: len(own) - len(last)], *added, *last]
        run.__signature__ = signature.replace(parameters=together)  # type: ignore[attr-defined]
        return run

    return decorated


def _is_model(source: str) -> bool:
    return (Path(source) / "model.json").is_file()


def _named_dataset(source: str) -> tuple[str, str] | None:
    """Name and folder, if the source is of the form NAME:FOLDER; a file of that name goes first."""
    name, colon, folder = source.partition(":")
    if not colon or len(name) < 2 or "/" in name or "\\" in name or Path(source).exists():
        return None
    return name, folder
