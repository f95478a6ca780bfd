"""Methods from the command line: a name, and settings as NAME=VALUE."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import unskew
from unskew.cli.reading import Reading
from unskew.errors import ParameterError
from unskew.registry import with_settings

if TYPE_CHECKING:
    from unskew.methods.base import Method
    from unskew.store.recipe import FitRecipe

PREFIXES = ("training", "validation", "log")


class Settings:
    """What --set was given: the settings of a method, and those of training, validation and the log by their prefix."""

    def __init__(self, assignments: Sequence[str] | None) -> None:
        self.of: dict[str, dict[str, Any]] = {prefix: {} for prefix in ("", *PREFIXES)}
        for assignment in assignments or ():
            name, equals, text = assignment.partition("=")
            if not equals or not all(name.split(".")):
                raise ParameterError(f"--set {assignment} is not of the form NAME=VALUE, such as clip=0.05.")
            first, _, rest = name.partition(".")
            prefix, name = (first, rest) if first in PREFIXES and rest else ("", name)
            if name in self.of[prefix]:
                raise ParameterError(f"--set {assignment.partition('=')[0]} is given twice: give it once.")
            self.of[prefix][name] = literal(text)

    def method(self, method: Method) -> Method:
        """Return the method with these settings instead of its own; the library checks every name and value."""
        return with_settings(method, self.of[""])  # type: ignore[no-any-return]

    def recipe(self, name: str) -> FitRecipe:
        """Return what a method's name or a recipe file stands for, with these settings instead of its own."""
        from unskew.store.recipe import FitRecipe, read_fit

        self.refuse("validation")
        found = read_fit(name) if name.endswith(".toml") else FitRecipe(unskew.make(name))
        return found._replace(
            method=self.method(found.method), training=with_settings(found.training, self.of["training"])
        )

    def validation(self, seed: int) -> Any:
        """Return how trials are judged, and how they are trained."""
        from unskew.bench import Validation

        training = with_settings(unskew.Training(), self.of["training"])
        return with_settings(Validation(seed=seed, training=training), self.of["validation"], "--set validation")

    def reading(self, reading: Reading) -> Reading:
        """Return how the log is read, by options and by settings."""
        return with_settings(reading, self.of["log"], "--set log")  # type: ignore[no-any-return]

    def refuse(self, prefix: str) -> None:
        """Refuse settings that a command has no use for."""
        for name in self.of[prefix]:
            raise ParameterError(f"--set {prefix}{'.' if prefix else ''}{name} has no meaning here: leave it out.")


def literal(text: str) -> Any:
    """Return what a Python literal, true or false stands for; anything else, also digits with underscores, is text."""
    try:
        return text if "_" in text else ast.literal_eval(text.title() if text in ("true", "false") else text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
