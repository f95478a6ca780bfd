"""unskew diagnose"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_file_path, print_json
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.findings import Findings

EXAMPLE = "unskew diagnose ratings.csv --json"
Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL|LOG|RESULTS",
        help=f"A folder that `unskew fit` or `unskew benchmark` wrote, or a log: {SOURCE_HELP}",
        show_default=False,
    ),
]
RandomRatings = Annotated[
    str | None,
    typer.Option("--random-ratings", metavar="FILE", help="Ratings of random pairs: they overrule the log."),
]
ShowIds = Annotated[bool, typer.Option("--show-ids", help="Name people by their ids, not as person A, B and C.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the findings as a page (.html) too.")]


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
    """Decide: use the model, test it or do not switch, and why; of a log, whether it must be corrected.

    A model's method and plain training are fitted without each of five folds of the log and judged there.

    \b
    unskew diagnose model --random-ratings random.csv --out report.html
    """
    run("diagnose", source, reading, out, random_ratings, show_ids, seed, as_json)


def run(
    name: str,
    source: str,
    reading: Reading,
    out: Path | None,
    random_ratings: str | None,
    show_ids: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Diagnose, print, and write a page if asked to."""
    check_file_path(out, (".html", ".htm"))
    if (Path(source) / "benchmark.json").is_file():
        _benchmark(source, out, as_json)
        return
    subject, log = _subject(source, reading)
    random = None if random_ratings is None else reading.random_ratings(random_ratings, log)
    found = unskew.diagnose(subject, random_ratings=random, show_ids=show_ids, called=source, seed=seed)
    if out is not None:
        from unskew.evaluation.kept import fingerprint
        from unskew.report.page import write_page

        given = [*([] if random_ratings is None else ["--random-ratings", random_ratings]), *reading.words]
        words = ["unskew", name, source, *given, "--out", str(out)]
        write_page(found, out, command=shlex.join(words), log=fingerprint(log), seed=seed)
    _show(found, out, as_json)


def _show(found: Findings, out: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(found.text(details=out is None))
    if out is not None:
        typer.echo(f"\nwrote the page to {out}; open it in a browser")


def _benchmark(source: str, out: Path | None, as_json: bool) -> None:
    from unskew.report.benchmark_page import write_benchmark_page

    if out is None:
        raise ParameterError(f"{source} holds results of a benchmark: name a page for them by --out.")
    write_benchmark_page(source, out)
    print_json({"page": str(out)}) if as_json else typer.echo(f"wrote the page to {out}; open it in a browser")


def _subject(source: str, reading: Reading) -> tuple[Any, Any]:
    """What is diagnosed, and its log: a model if the source is a folder of one, else a log."""
    if (Path(source) / "model.json").is_file():
        model = unskew.load(source)
        if reading.words:
            raise ParameterError(f"{reading.words[0]} is for logs; a model knows its own.")
        return model, model.log
    log = reading.log(source)
    return log, log
