"""unskew datasets"""

from __future__ import annotations

from dataclasses import asdict

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json

EXAMPLE = "unskew datasets"


def command(as_json: options.AsJson = False) -> None:
    """List the published datasets that can be read."""
    sources = unskew.datasets.available()
    if as_json:
        print_json([asdict(source) for source in sources])
        return
    for source in sources:
        typer.echo(f"{source.name}: {source.title}")
        for title, text in (
            ("where", source.where),
            ("terms", source.terms),
            ("files", ", ".join(source.files)),
            ("cite", source.citation),
            ("liked", f"a rating of at least {source.positive:g}, unless --positive says otherwise"),
        ):
            typer.echo(f"  {title:<6} {text}")
        typer.echo(f"  use    unskew fit {source.name}:FOLDER --method naive --out MODEL")
        typer.echo()
