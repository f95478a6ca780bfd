"""unskew report"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import options, settings
from unskew.cli.output import check_file_path, print_json
from unskew.cli.reading import Reading, reads
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.model import Recommender

EXAMPLE = "unskew report model --out report.html"
DEFAULT_OUT = Path("report.html")


@reads("columns", "log")
def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RECORDS",
            help="A folder that `unskew fit` or `unskew benchmark` wrote, or a benchmark's records.jsonl.",
            show_default=False,
        ),
    ],
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page to write; report.html, if there is none yet."),
    ] = None,
    random_ratings: Annotated[
        str | None,
        typer.Option("--random-ratings", metavar="FILE", help="Ratings of random pairs, as a test."),
    ] = None,
    propensity: options.PropensityName = "factors",
    as_json: options.AsJson = False,
) -> None:
    """Write one page for people: what the data is, whether it is biased, what the model does, what to trust.

    The page is a single file without scripts that loads nothing. What it needs beside a model, such as a naive model
    to compare with, is fitted on the model's own split and options. About a benchmark it shows the table, its
    significance, the spread over seeds, time and memory.

    \b
    unskew report model --random-ratings random.csv --out report.html
    unskew report results --out benchmark.html
    """
    page = _page_path(out)
    recipe = settings.propensity_from(propensity)
    from unskew.model import Recommender
    from unskew.report.report import opened, write_report

    found: Any = opened(source)
    random = None
    if random_ratings is not None:
        if not isinstance(found, Recommender):
            raise ParameterError("--random-ratings is for a report on a model; a benchmark has a test of its own.")
        random = _random_ratings(reading, random_ratings, found)
    write_report(found, page, random_ratings=random, propensity=recipe)
    if as_json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
        return
    typer.echo(f"wrote the report to {page} ({page.stat().st_size / 1e6:.2f} MB); open it in a browser")


def _page_path(out: Path | None) -> Path:
    """Where the page goes; one that is there is replaced only if it was named."""
    if out is None and DEFAULT_OUT.exists():
        raise ParameterError(f"{DEFAULT_OUT} is there already: name a file by --out, the same one to replace it.")
    check_file_path(out, (".html", ".htm"))
    return out or DEFAULT_OUT


def _random_ratings(reading: Reading, source: str, model: Recommender) -> RatingLog:
    ratings = reading.random_ratings(source, model.log)
    say(f"random ratings: {ratings!r}, {ratings.duplicates_merged:,} duplicates merged")
    return ratings
