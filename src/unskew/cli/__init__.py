"""The command line: one file per command. Whatever is slow to import is imported where it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from unskew import runtime
from unskew._version import __version__
from unskew.cli import (
    benchmark,
    compare,
    datasets,
    demo,
    diagnose,
    doctor,
    evaluate,
    export,
    fit,
    methods,
    options,
    predict,
    recommend,
    report,
    reproduce,
    similar,
    split,
    tune,
)
from unskew.cli.errors import OneSentenceErrors

COMMANDS = (
    *(demo, fit, predict, recommend, similar, split, evaluate, diagnose, compare, tune, benchmark, reproduce, report),
    *(datasets, methods, export, doctor),
)
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


def _with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option --quiet."""
    signature = inspect.signature(command, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.Quiet)

    @wraps(command)
    def run(quiet: bool, **given: Any) -> None:
        runtime.silence(quiet)
        try:
            command(**given)
        finally:
            runtime.silence(False)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), quiet])  # type: ignore[attr-defined]
    return run


for _module in COMMANDS:
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, epilog=f"\b\nExample:\n  {_module.EXAMPLE}")(_with_quiet(_module.command))


def main() -> None:
    """The entry point of the command `unskew`."""
    app(prog_name="unskew")
