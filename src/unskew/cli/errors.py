"""The one place where errors become words and exit codes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperGroup

from unskew.errors import UnskewError
from unskew.gone import sentence_about_words

BAD_INPUT, INTERRUPTED = 2, 130
UsageError: Any = typer.BadParameter.__bases__[0]

# What the library's sentences call a setting, name= or name='value', and the option that sets it here.
SETTINGS = {
    *("user", "item", "rating", "time", "positive", "duplicates", "on_unknown", "item_names", "user_features"),
    *("item_features", "random_ratings", "rating_scale", "propensity", "seed", "seeds", "trials", "workers"),
    *("draws", "judges", "k"),
}
SPELLED = {"rating_scale": "--graded", "draws": "--seeds"}
ASSIGNED = re.compile(r"(?<!--set )\b([a-z_]+)(?:=(?:'([^']*)'|([\w.-]+))?| (?=must))")
_SENTENCES = (
    ("judge it by ratings it has not seen (log=None takes those it held out)", "give ratings it has not seen by --log"),
    ("log is missing", "--log is missing"),
    ("pass a log that neither has seen", "give --log LOG that neither has seen"),
    ("pass random_ratings=random_log to the fit", "pass --random-ratings FILE"),
    ("unskew.registered() lists", "`unskew list` lists"),
    ("hoose another place", "ive another --out"),
)

# What the parser of options says, and how we say it.
WHOLE_OR_NOT = ("must be a whole number", "must be a number")
_USAGE = (
    ("Value error, ", ""),
    (". Choose from:", ": choose from"),
    ("Input should be a valid integer, unable to parse string as an integer", WHOLE_OR_NOT[0]),
    ("Input should be a valid number, unable to parse string as a number", WHOLE_OR_NOT[1]),
    ("Got unexpected extra argument(s)", "there are more arguments than it takes:"),
)


class OneSentenceErrors(TyperGroup):
    """A group of commands that answers bad input with one sentence; any other error is a defect and keeps its trace."""

    _words: list[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = [_renamed(word) for word in args]
        self._words = list(args)
        with _usage_in_a_sentence(args) if args else nullcontext():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _usage_in_a_sentence(self._words):
                return super().invoke(ctx)
        except UnskewError as error:
            typer.echo(f"error: {with_options(str(error))}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except MemoryError:
            typer.echo("error: there is not enough memory: give fewer ratings, or lower n_factors.", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as interrupt:
            typer.echo(str(interrupt) or "interrupted: no half-written file was left behind.", err=True)
            if str(interrupt):  # there is something to go on from
                typer.echo(f"to go on: {shlex.join(['unskew', *self._words])}", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _renamed(word: str) -> str:
    """An option by its old name becomes the new one, which is said."""
    option, equals, value = word.partition("=")
    if option != "--unbiased":
        return word
    typer.echo("warning: --unbiased is called --random-ratings now.", err=True)
    return f"--random-ratings{equals}{value}"


@contextmanager
def _usage_in_a_sentence(given: list[str]) -> Iterator[None]:
    """Options and arguments that are wrong are told as everything else is."""
    try:
        yield
    except UsageError as error:
        words = " ".join(error.format_message().split()).rstrip(".")
        gone = sentence_about_words(words)
        if gone is not None:
            typer.echo(f"error: {gone}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        for theirs, ours in _USAGE:
            words = words.replace(theirs, ours)
        if words.endswith(WHOLE_OR_NOT):
            names = getattr(getattr(error, "param", None), "opts", ())
            words += "".join(f", not {value!r}" for name, value in pairwise(given) if name in names)
        where = f"unskew {error.ctx.info_name}" if error.ctx is not None and error.ctx.parent else "unskew"
        example = "" if words.endswith("?") else f"; `{where} --help` has an example."
        typer.echo(f"error: {words[:1].lower()}{words[1:]}{example}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def with_options(sentence: str) -> str:
    """A sentence of the library in the words of the command line."""
    for ours, theirs in _SENTENCES:
        sentence = sentence.replace(ours, theirs)

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or found[3]
        if name not in SETTINGS:
            return found[0]
        spelled = SPELLED.get(name, "--" + name.replace("_", "-"))
        return f"{spelled}{' ' if found[0].endswith(' ') else ''}" if value is None else f"{spelled} {value}"

    return ASSIGNED.sub(option, sentence)
