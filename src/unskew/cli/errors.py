"""The one place where errors become words and exit codes."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperGroup

from unskew.errors import CacheWarning, UnskewError
from unskew.gone import sentence_about_words

BAD_INPUT, INTERRUPTED = 2, 130
UsageError: Any = typer.BadParameter.__bases__[0]

# What the library's sentences call a setting, and the option that sets it here.
_OPTIONS = (
    ("duplicates='last'", "--duplicates last"),
    ("duplicates='mean'", "--duplicates mean"),
    ("on_unknown='fallback'", "--on-unknown fallback"),
    ("pass delimiter=", "pass --delimiter "),
    ("set positive to", "set --positive to"),
    ("widen rating_scale", "widen --graded, or say by --positive what is liked"),
    ("header=False is", "--no-header is"),
    ("rating_scale must", "--graded must"),
    ("as cache.", "as --cache."),
    ("expect_original=False", "--accept-altered"),
    ("pass user_features=", "pass --user-features"),
    ("pass item_features=", "pass --item-features"),
    ("pass random_ratings=random_log to the fit", "pass --random-ratings FILE"),
    ("the same positive= or rating_scale=", "the same --positive or --graded"),
    ("judge it by ratings it has not seen (log=None takes those it held out)", "give ratings it has not seen by --log"),
    ("log is missing", "--log is missing"),
    ("pass a log that neither has seen", "give --log LOG that neither has seen"),
    ("pass them as random_ratings= here", "pass them by --random-ratings here"),
    ("(random_ratings=)", "(--random-ratings)"),
    ("max_epochs must", "--epochs must"),
    ("batch_size must", "--batch-size must"),
    ("judges must", "--judges must"),
    ("workers must", "--workers must"),
    ("trials must", "--trials must"),
    ("unskew.registered() lists", "`unskew methods` lists"),
    ("seeds must", "--seeds must"),
    ("draws must", "--seeds must"),
    ("Choose another place", "Give another --out"),
    ("choose another place", "give another --out"),
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
            with warnings.catch_warnings():
                warnings.showwarning = partial(_say, warnings.showwarning)
                with _usage_in_a_sentence(self._words):
                    return super().invoke(ctx)
        except UnskewError as error:
            typer.echo(f"error: {with_options(str(error))}", err=True)
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


def _say(
    others: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    """A warning of ours as one sentence, any other as it comes."""
    if issubclass(category, CacheWarning):
        typer.echo(f"warning: {with_options(str(message))}", err=True)
    else:
        others(message, category, *where, **more)


def with_options(sentence: str) -> str:
    """A sentence of the library in the words of the command line."""
    for setting, option in _OPTIONS:
        sentence = sentence.replace(setting, option)
    return sentence
