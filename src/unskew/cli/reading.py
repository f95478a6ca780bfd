"""Logs from what a command names: a file, or NAME:FOLDER for a published dataset."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import unskew
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.data.scale import Scale
    from unskew.data.sources.source import Dataset

SOURCE_HELP = (
    "A file (.csv, .tsv, .txt, .inter, also as .gz; .parquet), a folder of such files, or NAME:FOLDER for a "
    "dataset of `unskew datasets`."
)
_OF_DATASETS = ("positive", "graded", "accept_altered")
_THUMB = 3.0  # the threshold of files, as in read_log


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options by which logs are read; names are those of the command line."""

    user: str = "user_id"
    item: str = "item_id"
    rating: str = "rating"
    positive: float | None = None
    graded: tuple[float, float] | None = None
    duplicates: str = "error"
    delimiter: str | None = None
    user_features: Path | None = None
    item_features: Path | None = None
    cache: Path | None = None
    accept_altered: bool = False

    def __post_init__(self) -> None:
        if self.positive is not None and self.graded is not None:
            raise ParameterError("--positive makes ratings binary and --graded keeps them graded: give one of the two.")

    def log(self, source: str) -> RatingLog:
        """The log to learn from; of a dataset the part its users chose."""
        dataset = self.dataset(source)
        return self._file(source, _THUMB, None) if dataset is None else dataset.train

    def dataset(self, source: str) -> Dataset | None:
        """The dataset that NAME:FOLDER stands for; None if the source is a file."""
        return self._dataset(source, "usual")

    def test(self, source: str, scale: Scale) -> RatingLog:
        """The log to be judged by, on the model's scale unless options say otherwise; of a dataset the random part."""
        dataset = self._dataset(source, scale.positive)
        return self._file(source, scale.positive, (scale.low, scale.high)) if dataset is None else dataset.test

    def unbiased(self, source: str, log: RatingLog, *, known: bool = True) -> RatingLog:
        """A file of randomly collected ratings on the scale of the log it belongs to; with `known`, in its ids too."""
        if _named_dataset(source) is not None:
            raise ParameterError(
                f"--unbiased {source} is a dataset, whose random ratings are its test: give a file of other ones."
            )
        limits = (log.scale.low, log.scale.high)
        ids = {"user_ids": log.user_ids, "item_ids": log.item_ids} if known else {}
        return self._read(source, log.scale.positive, limits, **ids)

    @property
    def separator(self) -> str | None:
        return "\t" if self.delimiter == r"\t" else self.delimiter  # a shell leaves \t as it is

    def _file(self, source: str, positive: float | None, limits: tuple[float, float] | None) -> RatingLog:
        if self.accept_altered:
            raise ParameterError(f"--accept-altered is for datasets, and {source} is a file.")
        if self.positive is not None:
            positive, limits = self.positive, None
        elif self.graded is not None:
            positive, limits = None, self.graded
        features = {"user_features": self.user_features, "item_features": self.item_features}
        return self._read(source, positive, limits, **features)

    def _read(self, source: str, positive: float | None, limits: tuple[float, float] | None, **sides: Any) -> RatingLog:
        return unskew.read_log(
            source,
            self.user,
            self.item,
            self.rating,
            positive,
            rating_scale=limits,
            duplicates=self.duplicates,  # type: ignore[arg-type]
            delimiter=self.separator,
            cache=self.cache,
            **sides,
        )

    def _dataset(self, source: str, positive: Any) -> Dataset | None:
        """The dataset the source names, if it names one; `positive` is its threshold unless options give another."""
        named = _named_dataset(source)
        if named is None:
            return None
        for option in fields(self):
            if option.name not in _OF_DATASETS and getattr(self, option.name) != option.default:
                spelled = "--" + option.name.replace("_", "-")
                raise ParameterError(f"{spelled} is for files, and {source} is a dataset: leave it out.")
        if self.positive is not None or self.graded is not None:
            positive = self.positive
        dataset = unskew.datasets.load(*named, positive=positive, expect_original=not self.accept_altered)
        scale = dataset.train.scale
        if self.graded not in (None, (scale.low, scale.high)):
            raise ParameterError(
                f"the ratings of {named[0]} have another scale: give --graded {scale.low:g} {scale.high:g}."
            )
        for note in dataset.notes:
            typer.echo(f"{named[0]}: {note}", err=True)
        return dataset


def _named_dataset(source: str) -> tuple[str, str] | None:
    """Name and folder, if the source is of the form NAME:FOLDER; a file of that name goes first."""
    name, colon, folder = source.partition(":")
    if not colon or len(name) < 2 or "/" in name or "\\" in name or Path(source).exists():
        return None
    return name, folder
