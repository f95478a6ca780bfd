"""unskew diagnose"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_file
from unskew.cli.reading import SOURCE_HELP, Ratings, is_model
from unskew.errors import ParameterError

EXAMPLE = "unskew diagnose ratings.csv --json"
HELP = f"A folder that `unskew fit` or `unskew benchmark` wrote, or a log: {SOURCE_HELP}"


def command(
    source: Annotated[str, typer.Argument(metavar="MODEL|LOG|RESULTS", help=HELP, show_default=False)],
    reading: Ratings,
    out: Annotated[Path | None, options.file("--out", "Write the findings as a page (.html) too.")] = None,
    random_ratings: options.RandomRatings = None,
    show_ids: Annotated[
        bool, options.flag("--show-ids", "Name people by their ids, not as person A, B and C.")
    ] = False,
    seed: options.Seed = 0,
) -> Answer:
    """Decide: use the model, test it or do not switch, and why; of a log, whether it must be corrected.

    A model's method and plain training are fitted without each of five folds of the log and judged there.

    \b
    unskew diagnose model --random-ratings random.csv --out report.html
    """
    check_file(out, (".html", ".htm"))
    wrote = f"wrote the page to {out}; open it in a browser"
    if (Path(source) / "benchmark.json").is_file():
        from unskew.report.page import write_page

        if out is None:
            raise ParameterError(f"{source} holds results of a benchmark: name a page for them by --out.")
        write_page(Path(source), out)
        return Answer(wrote, {"page": str(out)})
    if is_model(source) and (words := reading.words()):
        raise ParameterError(f"{words[0]} is for logs; a model knows its own.")
    subject: Any = unskew.load(source) if is_model(source) else reading.log(source)
    log = subject.log if is_model(source) else subject
    random = reading.random_ratings(random_ratings, log)
    found = unskew.diagnose(subject, random_ratings=random, show_ids=show_ids, called=source, seed=seed)
    if out is None:
        return Answer(found.text(), found.to_dict())
    from unskew.evaluation.kept import fingerprint
    from unskew.report.page import write_page

    given = [*([] if random_ratings is None else ["--random-ratings", random_ratings]), *reading.words()]
    words = ["unskew", "diagnose", source, *given, "--out", str(out)]
    write_page(found, out, command=shlex.join(words), log=fingerprint(log), seed=seed)
    return Answer(f"{found.text(details=False)}\n\n{wrote}", found.to_dict())
