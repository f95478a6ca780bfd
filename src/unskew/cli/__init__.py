"""The command line: one file per command. Whatever is slow to import is imported where it is used."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Annotated, Any

import typer

from unskew import runtime
from unskew._version import __version__
from unskew.cli import (
    benchmark,
    compare,
    demo,
    diagnose,
    doctor,
    evaluate,
    export,
    fit,
    lists,
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
    *(export, lists, doctor),
)
app = typer.Typer(
    cls=OneSentenceErrors,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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


def _with_volume(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options --quiet and --verbose."""
    signature = inspect.signature(command, eval_str=True)
    kinds = {"quiet": options.Quiet, "verbose": options.Verbose}
    by_name = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, by_name, default=False, annotation=kind) for name, kind in kinds.items()]

    @wraps(command)
    def run(quiet: bool, verbose: bool, **given: Any) -> None:
        runtime.silence(quiet)
        with _logged() if verbose else nullcontext():
            try:
                command(**given)
            finally:
                runtime.silence(False)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return run


@contextmanager
def _logged() -> Iterator[None]:
    """What the library logs goes to standard error, but for the notes of logs, which commands print themselves."""
    logger, handler = logging.getLogger("unskew"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    handler.addFilter(lambda record: record.name != "unskew.data.log")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


for _module in COMMANDS:
    _name = {"lists": "list"}.get(_name := _module.__name__.rpartition(".")[2], _name)
    app.command(_name, epilog=f"\b\nExample:\n  {_module.EXAMPLE}")(_with_volume(_module.command))


def main() -> None:
    """The entry point of the command `unskew`."""
    app(prog_name="unskew")
