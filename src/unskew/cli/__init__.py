"""The command line. Whatever is slow to import is imported where it is used."""

import atexit
import inspect
import json
import logging
import os
import sys
import threading
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields
from functools import cache, wraps
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from unskew import runtime
from unskew._version import __version__
from unskew.cli import options
from unskew.cli.errors import one_sentence
from unskew.cli.output import Answer
from unskew.cli.reading import Reading

# The function of each command, whose docstring ends with an example.
COMMANDS = {
    **{"demo": "about.demo", "fit": "learning.fit", "predict": "answers.predict", "recommend": "answers.recommend"},
    **{"similar": "answers.similar", "split": "learning.split", "evaluate": "judging.evaluate"},
    **{"diagnose": "judging.diagnose", "compare": "judging.compare", "tune": "learning.tune"},
    **{"benchmark": "benchmarks.benchmark", "reproduce": "benchmarks.reproduce", "export": "answers.export"},
    **{"serve": "answers.serve", "update": "learning.update", "list": "about.listed", "doctor": "about.doctor"},
}
HIDDEN = {"report": "judging.diagnose"}  # what `diagnose` was called in 0.1.0
STYLE: Any = {"rich_markup_mode": None}  # plain help: quick to show, and examples keep their lines
HELP = {"help_option_names": ["-h", "--help"]}


class Commands(UserDict[str, Any]):
    """Commands by name; each is imported and built when it is asked for, which takes longer than to run some."""

    def __getitem__(self, name: str) -> Any:
        return _built(name, super().__getitem__(name))


class Group(TyperGroup):
    """All commands: bad input is answered with one sentence; any other error is a defect and keeps its trace."""

    _words: list[str]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands(COMMANDS | HIDDEN)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._words = list(args)
        with one_sentence(self._words) if args else nullcontext():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with one_sentence(self._words, self.commands.get(self._words[0])):
            return super().invoke(ctx)


app = typer.Typer(cls=Group, no_args_is_help=True, context_settings=HELP, pretty_exceptions_enable=False, **STYLE)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unskew {__version__}")
        raise typer.Exit


@app.callback(epilog="\b\nExample:\n  unskew demo")
def commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Honest recommenders from dishonest data: learning from ratings that users chose to give."""


def _with_common_options(command: Callable[..., Answer]) -> Callable[..., None]:
    """Return the command with the options of its parameter `reading`, --json, --quiet and --verbose."""
    parameters = dict(inspect.signature(command, eval_str=True).parameters)
    names = parameters.pop("reading").annotation.__metadata__[0] if "reading" in parameters else ()
    kinds = get_type_hints(Reading, include_extras=True)
    common = {"as_json": options.AsJson, "quiet": options.Quiet, "verbose": options.Verbose}
    added = [(option.name, option.default, kinds[option.name]) for option in fields(Reading) if option.name in names]
    added += [(name, False, kind) for name, kind in common.items()]

    @wraps(command)
    def run(*, as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
        runtime.silence(quiet)
        try:
            with _logged() if verbose else nullcontext(), warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: runtime.say(f"warning: {message}")
                reading = {"reading": Reading(**{name: given.pop(name) for name in names})} if names else {}
                answer = command(**given, **reading)
                shown = answer.facts if as_json else answer.text
                shown = shown() if callable(shown) else shown
        finally:
            runtime.silence(False)
        typer.echo(json.dumps(shown, indent=2) if as_json else shown)
        if answer.code:
            raise typer.Exit(answer.code)

    by_name = inspect.Parameter.KEYWORD_ONLY
    own = [parameter.replace(kind=by_name) for parameter in parameters.values()]
    own += [inspect.Parameter(name, by_name, default=default, annotation=kind) for name, default, kind in added]
    for parameter in own:
        info = parameter.annotation.__metadata__[0]
        if isinstance(info, typer.models.OptionInfo):
            info.param_decls = info.param_decls or (f"--{parameter.name.replace('_', '-')}",)
            info.metavar = info.metavar or ("FILE" if "Path" in str(parameter.annotation) else None)
    run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return run


@contextmanager
def _logged() -> Iterator[None]:
    """Log to standard error all that the library logs but the notes of logs, which commands print themselves."""
    logger, handler = logging.getLogger("unskew"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    handler.addFilter(lambda record: record.name != "unskew.data.rows")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@cache
def _built(name: str, place: str) -> Any:
    """Return the command that a function of a module is."""
    module, _, function = place.partition(".")
    found, alone = getattr(import_module(f"unskew.cli.{module}"), function), typer.Typer(add_completion=False, **STYLE)
    text, _, example = (inspect.getdoc(found) or "").partition("\n\nExample:\n")
    epilog = f"\b\nExample:\n  {example.strip()}"
    alone.command(name, help=text, epilog=epilog, hidden=name in HIDDEN, context_settings=HELP)(
        _with_common_options(found)
    )
    return typer.main.get_command(alone)


class _NoPandas:
    """Finds everything but pandas. That it is None among modules would not do: pyarrow takes None for the module."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _leave_pandas_out() -> None:
    """Let pyarrow look for pandas in vain: it does so once, and to import pandas takes as long as all the rest."""
    import pyarrow as pa

    hidden: Any = _NoPandas()
    sys.meta_path.insert(0, hidden)
    pa.scalar(0)
    sys.meta_path.remove(hidden)


def main() -> None:
    """Run the command `unskew`."""
    command, *words = sys.argv[1:] or [""]
    if command in COMMANDS and "pandas" not in sys.modules and not {"-h", "--help"} & set(words):
        _leave_pandas_out()
    try:
        app(prog_name="unskew")
    except SystemExit as end:
        _end_at_once(end)
        raise


def _end_at_once(end: SystemExit) -> None:
    """End the process; to take all modules and kernels apart first takes as long as importing many of them.

    It does not where threads still work, or where somebody reads no longer what is written.
    """
    if threading.active_count() > 1 or not isinstance(end.code, int | None):
        return
    with suppress(OSError):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code or 0)
