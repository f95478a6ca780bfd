"""The command line: one file per command. Whatever is slow to import is imported where it is used."""

from __future__ import annotations

from typing import Annotated

import typer

from unskew._version import __version__
from unskew.cli import (
    benchmark,
    compare,
    datasets,
    demo,
    diagnose,
    evaluate,
    fit,
    methods,
    odds,
    predict,
    recommend,
    report,
    reproduce,
    tune,
)
from unskew.cli.errors import OneSentenceErrors

app = typer.Typer(
    cls=OneSentenceErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: quick to show, and examples keep their lines
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unskew {__version__}")
        raise typer.Exit


@app.callback(epilog="\b\nExample:\n  unskew demo")
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Honest recommenders from dishonest data: learning from ratings that users chose to give."""


for _module in (
    *(demo, diagnose, fit, evaluate, compare, predict, recommend, odds, report, tune, benchmark, reproduce),
    *(methods, datasets),
):
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, epilog=f"\b\nExample:\n  {_module.EXAMPLE}")(_module.command)


def main() -> None:
    """The entry point of the command `unskew`."""
    app(prog_name="unskew")
