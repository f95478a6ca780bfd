"""unskew demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli import options
from unskew.cli.output import check_file_path, print_json

EXAMPLE = "unskew demo --out demo.svg"


def command(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the picture, as .svg.")] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Show in a simulated world what ignoring selection costs.

    People mostly rate what they like. Methods that ignore this and methods that correct for it learn from such a log;
    what they believe stands next to what is true of the whole world, and so does the decision that the log alone
    allows.
    """
    check_file_path(out, (".svg",))
    from unskew.bench.demo import run

    found = run(seed)
    if out is not None:
        found.chart().save(out)
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(found.text())
    if out is not None:
        typer.echo(f"\nwrote {out}")
