"""A report on whatever it is about: a fitted model, a folder that holds one, or the records of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unskew.bench.protocol import RECORDS
from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.files.atomic import PathLike, checked_path, reason, replace_file
from unskew.files.manifest import MANIFEST
from unskew.files.model import load
from unskew.gone import called_otherwise
from unskew.model import Recommender
from unskew.propensity.base import Propensity
from unskew.report.model import model_page
from unskew.report.page import Page, rendered
from unskew.report.records import records_page


def write_report(
    source: Recommender | PathLike,
    path: PathLike,
    *,
    random_ratings: RatingLog | None = None,
    unbiased: RatingLog | None = None,
    propensity: Propensity | None = None,
) -> None:
    """Write one self-contained HTML page about a model, or about a benchmark, whole or not at all.

    `source` is a fitted model, the folder of one, or the folder or records.jsonl of a benchmark. What a page about a
    model needs beside it, such as a naive model to compare with, is fitted on the same split and options.
    `random_ratings`, once called `unbiased`, are ratings of random pairs in the log's ids; `propensity` is the recipe
    by whose propensities both models are judged, by default `Factors()`.
    """
    random_ratings = called_otherwise(random_ratings, unbiased=unbiased)
    target = checked_path(path)
    page = page_of(source, random_ratings=random_ratings, propensity=propensity)
    try:
        replace_file(target, rendered(page).encode())
    except OSError as error:
        raise ParameterError(f"The report {path} cannot be written: {reason(error)}.") from error


def page_of(source: Recommender | PathLike, **settings: Any) -> Page:
    """The page about a source; settings, as those of `write_report`, are for models only."""
    found = opened(source)
    if isinstance(found, Recommender):
        return model_page(found, **settings)
    if settings.get("random_ratings") is not None:
        raise ParameterError("random_ratings= is for a report on a model; a benchmark has a test of its own.")
    return records_page(found)


def opened(source: Recommender | PathLike) -> Recommender | Path:
    """A model, or the file of a benchmark's records."""
    if isinstance(source, Recommender):
        return source
    path = checked_path(source)
    if path.is_dir():
        if (path / MANIFEST).exists():
            return load(path)
        if (path / RECORDS).is_file():
            return path / RECORDS
    elif path.is_file() and path.suffix == ".jsonl":
        return path
    problem = "is neither a model nor the records of a benchmark" if path.exists() else "does not exist"
    raise ParameterError(
        f"{source} {problem}: give a folder that `unskew fit` or `unskew benchmark` wrote, or a {RECORDS}."
    )
