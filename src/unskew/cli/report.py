"""unskew report"""

from __future__ import annotations

from pathlib import Path

from unskew.cli import options
from unskew.cli.diagnose import Out, RandomRatings, ShowIds, Source, run
from unskew.cli.reading import Reading, reads
from unskew.errors import ParameterError

EXAMPLE = "unskew report model --out report.html"
DEFAULT_OUT = Path("report.html")


@reads("columns", "log")
def command(
    source: Source,
    reading: Reading,
    out: Out = None,
    random_ratings: RandomRatings = None,
    show_ids: ShowIds = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Write what `unskew diagnose` finds as a page: the same command, with a page by default."""
    if out is None and DEFAULT_OUT.exists():
        raise ParameterError(f"{DEFAULT_OUT} is there already: name a file by --out, the same one to replace it.")
    run("diagnose", source, reading, out or DEFAULT_OUT, random_ratings, show_ids, seed, as_json)
