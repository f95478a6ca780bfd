"""Logs from what a command names: a file, a model's folder, or NAME:FOLDER for a published dataset."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import unskew
from unskew.cli import options
from unskew.cli.columns import Columns, columns_of
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.log import RatingLog
    from unskew.data.scale import Scale
    from unskew.data.sources.source import Dataset
    from unskew.methods.base import Method

SOURCE_HELP = (
    "A file (.csv, .tsv, .txt, .inter, also as .gz; .parquet), a folder of such files, the folder of a model for the "
    "log it was fitted on, or NAME:FOLDER for a dataset of `unskew datasets`."
)
GROUPS = {  # of options, which commands have together
    "columns": ("user", "item", "rating", "delimiter", "header"),
    "log": ("positive", "graded", "duplicates", "accept_altered"),
    "features": ("user_features", "item_features"),
    "cache": ("cache",),
}
_OF_DATASETS = ("positive", "graded", "accept_altered")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options by which logs are read, named as on the command line; `guessed` says what nobody has told."""

    user: options.UserColumn = None
    item: options.ItemColumn = None
    rating: options.RatingColumn = None
    positive: options.Positive = None
    graded: options.Graded = None
    duplicates: options.DuplicatesOption = options.Duplicates.ERROR
    delimiter: options.Delimiter = None
    header: options.Header = None
    user_features: options.UserFeatures = None
    item_features: options.ItemFeatures = None
    cache: options.Cache = None
    accept_altered: options.AcceptAltered = False
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
        return self._file(source, None if scale is None else (scale.positive, (scale.low, scale.high)))

    def dataset(self, source: str) -> Dataset | None:
        """The dataset that NAME:FOLDER stands for; None if the source is a file."""
        return self._dataset(source, "usual")

    def test(self, source: str, scale: Scale) -> RatingLog:
        """The log to be judged by, on the model's scale unless options say otherwise; of a dataset the random part."""
        if _is_model(source):
            return self.log(source)
        dataset = self._dataset(source, scale.positive)
        return self._file(source, (scale.positive, (scale.low, scale.high))) if dataset is None else dataset.test

    def random_ratings(self, source: str, log: RatingLog, *, known: bool = True) -> RatingLog:
        """A file of randomly collected ratings on the scale of the log it belongs to; with `known`, in its ids too."""
        if _named_dataset(source) is not None:
            raise ParameterError(
                f"--random-ratings {source} is a dataset, whose random ratings are its test: give a file of other ones."
            )
        limits = (log.scale.low, log.scale.high)
        ids = {"user_ids": log.user_ids, "item_ids": log.item_ids} if known else {}
        return self._read(source, self.columns(source), log.scale.positive, limits, **ids)

    def refuse_unread(self, methods: Mapping[str, Method]) -> None:
        """Refuse files of features that none of these methods would read."""
        given = [name for name in ("user_features", "item_features") if getattr(self, name) is not None]
        if given and not any(method.reads_features for method in methods.values()):
            option, name = given[0].replace("_", "-"), next(iter(methods))
            bayes = "--method dce-bayes or " if any(entry.name == "dce-bayes" for entry in unskew.registered()) else ""
            raise ParameterError(
                f"--{option}: the method {name!r} reads no features; use {bayes}--set propensity=logistic."
            )

    def columns(self, source: str | Path, roles: Sequence[str] = ("user", "item", "rating")) -> Columns:
        """Which columns of a file hold what; what had to be guessed is said."""
        found = columns_of(source, {role: getattr(self, role) for role in roles}, self.separator, self.header)
        if found.guessed:
            self._tell(f"{Path(source).name}: {'; '.join(found.guessed)}")
        return found

    def table(self, path: Path, roles: Sequence[str]) -> tuple[pa.Table, dict[str, str]]:
        """A small file as it is, and the names of the columns that play these roles in it."""
        from unskew.data.features import missing_column
        from unskew.data.read import read_frame

        columns = self.columns(path, roles)
        ids = [columns.names[role] for role in roles if role != "rating"]
        table = read_frame(path, ids, delimiter=columns.delimiter, header=columns.header)
        for name in columns.names.values():
            if name not in table.column_names:
                raise missing_column(name, table.column_names, path.name)
        return table, columns.names

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

    @property
    def separator(self) -> str | None:
        return "\t" if self.delimiter == r"\t" else self.delimiter  # a shell leaves \t as it is

    def _file(self, source: str, told: tuple[float | None, tuple[float, float]] | None) -> RatingLog:
        if self.accept_altered:
            raise ParameterError(f"--accept-altered is for datasets, and {source} is a file.")
        columns = self.columns(source)
        positive: float | None
        limits: tuple[float, float] | None
        if self.positive is not None:
            positive, limits = self.positive, None
        elif self.graded is not None:
            positive, limits = None, self.graded
        else:
            positive, limits = told or self._guessed_scale(source, columns)
        features = {"user_features": self.user_features, "item_features": self.item_features}
        return self._read(source, columns, positive, limits, **features)

    def _guessed_scale(self, source: str, columns: Columns) -> tuple[float, tuple[float, float]]:
        from unskew.cli.scale import first_ratings, guessed_scale

        found = guessed_scale(first_ratings(source, columns), Path(source).name)
        self._tell(f"{Path(source).name}: {found.guessed}")
        return found.positive, (found.low, found.high)

    def _read(
        self, source: str, columns: Columns, positive: float | None, limits: tuple[float, float] | None, **sides: Any
    ) -> RatingLog:
        return unskew.read_log(
            source,
            **columns.names,
            positive=positive,
            rating_scale=limits,
            duplicates=self.duplicates.value,
            delimiter=columns.delimiter,
            header=columns.header,
            cache=self.cache,
            **sides,
        )

    def _dataset(self, source: str, positive: Any) -> Dataset | None:
        """The dataset the source names, if it names one; `positive` is its threshold unless options give another."""
        named = _named_dataset(source)
        if named is None:
            return None
        self._refuse_options(source, "a dataset", allowed=_OF_DATASETS)
        if self.positive is not None or self.graded is not None:
            positive = self.positive
        dataset = unskew.datasets.load(*named, positive=positive, expect_original=not self.accept_altered)
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

    def _tell(self, sentence: str) -> None:
        self.guessed.append(sentence)
        say(f"guessed of {sentence}")


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
