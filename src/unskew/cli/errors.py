"""The one place where errors become words and exit codes."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from unskew.errors import UnskewError
from unskew.gone import about_words

BAD_INPUT, INTERRUPTED = 2, 130
UsageError: Any = typer.BadParameter.__bases__[0]

# What the library's sentences call a setting, name= or name='value', and the option that sets it here.
SETTINGS = {
    *("user", "item", "rating", "time", "positive", "duplicates", "on_unknown", "item_names", "user_features"),
    *("item_features", "random_ratings", "rating_scale", "seed", "seeds", "trials", "workers", "draws"),
    *("k", "target", "seen", "window"),
}
SPELLED = {"rating_scale": "--graded", "draws": "--seeds"}
BY_SET = ("duplicates", "user_features", "item_features", "context", "window")  # of `fit`, as --set log.NAME=VALUE
OF_LOG = {*BY_SET, "user", "item", "rating", "time", "seen", "target", "item_names"}  # where there is no option
ASSIGNED = re.compile(r"(?<!--set )\b([a-z_]+)(?:=(?:'([^']*)'|([\w-]+(?:\.\w+)*))?| (?=must))")
SENTENCES = (
    ("random_ratings=random_log to the fit", "--random-ratings FILE"),
    ("judge them by log=", "judge them by --log"),
    ("Choose another place", "Give another --out"),
    ("choose another place", "give another --out"),
    (" (time= changes this)", ""),  # most commands have no use for times
    (", time= change this)", " change this)"),
)
USAGE = (  # what the parser of options writes, and how we do
    ("Value error, ", ""),
    (". Choose from:", ": choose from"),
    ("Got unexpected extra argument(s)", "there are more arguments than it takes:"),
)


@contextmanager
def one_sentence(given: list[str], command: Any = None) -> Iterator[None]:
    """Print whatever is wrong with the input of a command as one line, and end with an exit code."""
    code = BAD_INPUT
    try:
        if "" in given or any(word.startswith("--") and word.endswith("=") for word in given):
            raise UnskewError("an option or argument is empty: give it a value, or leave it out.")
        yield
        return
    except UsageError as error:
        lines = [f"error: {_usage(error)}"]
    except UnskewError as error:
        lines = [f"error: {with_options(str(error), command)}"]
    except MemoryError:
        lines = ["error: there is not enough memory: give fewer ratings, or lower n_factors."]
    except BrokenPipeError:
        raise
    except OSError as error:  # a name that is too long, a folder that may not be entered
        named = "" if error.filename is None else f"{error.filename}: "
        lines = [f"error: {named}{(error.strerror or str(error)).lower()}."]
    except KeyboardInterrupt as interrupt:
        code, lines = INTERRUPTED, [str(interrupt) or "interrupted: no half-written file was left behind."]
        if str(interrupt):  # there is something to go on from
            lines.append(f"to go on: {shlex.join(['unskew', *given])}")
    for line in lines:
        typer.echo(re.sub(r"\S{200,}", lambda long: f"{long[0][:60]}...", line), err=True)
    raise typer.Exit(code) from None


def _usage(error: Any) -> str:
    """Return what is wrong with options and arguments, as everything else is written."""
    words = " ".join(error.format_message().split()).rstrip(".")
    if (gone := about_words(words)) is not None:
        return gone
    for theirs, ours in USAGE:
        words = words.replace(theirs, ours)
    where = f"unskew {error.ctx.info_name}" if error.ctx is not None and error.ctx.parent else "unskew"
    example = "" if words.endswith("?") else f"; `{where} --help` has an example."
    return f"{words[:1].lower()}{words[1:]}{example}"


def with_options(sentence: str, command: Any = None) -> str:
    """Return a sentence of the library in the words of the command line, if it is known which command in its own."""
    known = [] if command is None else [name for parameter in command.params for name in parameter.opts]
    for ours, theirs in SENTENCES:
        sentence = sentence.replace(ours, theirs)

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or found[3]
        if name not in SETTINGS:
            return found[0]
        spelled, joint = SPELLED.get(name, "--" + name.replace("_", "-")), " "
        if name in OF_LOG and "--set" in known and spelled not in known:
            spelled, joint = f"--set log.{name}", "="
        return f"{spelled}{' ' if found[0].endswith(' ') else ''}" if value is None else f"{spelled}{joint}{value}"

    return ASSIGNED.sub(option, sentence)
