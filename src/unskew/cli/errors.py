"""The one place where errors become words and exit codes."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from unskew.errors import UnskewError

BAD_INPUT, INTERRUPTED = 2, 130

# What the library's sentences call a setting, and the option that sets it here.
_OPTIONS = (
    ("duplicates='last'", "--duplicates last"),
    ("duplicates='mean'", "--duplicates mean"),
    ("on_unknown='fallback'", "--on-unknown fallback"),
    ("pass delimiter=", "pass --delimiter "),
    ("set positive to", "set --positive to"),
    ("widen rating_scale", "widen --graded"),
    ("rating_scale must", "--graded must"),
    ("expect_original=False", "--accept-altered"),
    ("pass user_features=", "pass --user-features"),
    ("pass item_features=", "pass --item-features"),
    ("fit(log, unbiased=random_log)", "--unbiased FILE"),
    ("max_epochs must", "--epochs must"),
    ("batch_size must", "--batch-size must"),
    ("judges must", "--judges must"),
    ("workers must", "--workers must"),
    ("seeds must", "--seeds must"),
    ("Choose another place", "Give another --out"),
    ("choose another place", "give another --out"),
)


class OneSentenceErrors(TyperGroup):
    """A group of commands that answers bad input with one sentence; any other error is a defect and keeps its trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UnskewError as error:
            typer.echo(f"error: {with_options(str(error))}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as interrupt:  # which may say how to go on
            typer.echo(str(interrupt) or "interrupted: no half-written file was left behind.", err=True)
            raise typer.Exit(INTERRUPTED) from None


def with_options(sentence: str) -> str:
    """A sentence of the library in the words of the command line."""
    for setting, option in _OPTIONS:
        sentence = sentence.replace(setting, option)
    return sentence
