"""unskew odds"""

from __future__ import annotations

from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import check_file_path, print_json, write_file
from unskew.cli.settings import numbers

EXAMPLE = "unskew odds model --range 0.5,1,2,4 --plot odds.png"


def command(
    model: options.Model,
    range_: Annotated[
        str, typer.Option("--range", metavar="NUMBERS", help="The odds to assume, with commas.")
    ] = "0.5,0.7,1,1.4,2,2.8,4",
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the answers too (.png).")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a model's answers if liked items are so many times as likely to be rated, which no log can tell.

    It is about what the method does not allow for already: all influence of liking for naive, what remains for the
    others. A few random ratings can tell instead: see --unbiased of `unskew fit`. For predictions at some odds there is
    `unskew predict --odds`.
    """
    check_file_path(plot, (".png",))
    found = unskew.odds_sensitivity(unskew.load(model), numbers(range_, "--range"))
    if plot is not None:
        stream = BytesIO()
        found.plot().savefig(stream, format="png", dpi=150)
        write_file(plot, stream.getvalue())
    if as_json:
        print_json(asdict(found))
        return
    typer.echo(str(found))
    if plot is not None:
        typer.echo(f"wrote the picture to {plot}")
