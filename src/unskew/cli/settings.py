"""Methods from the command line: a name, and settings as NAME=VALUE."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import unskew
from unskew.cli.reading import Reading
from unskew.errors import ParameterError, nearest

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
        edited: Method = _edited(method, self.of[""])
        return edited

    def recipe(self, name: str) -> FitRecipe:
        """Return what a method's name or a recipe file stands for, with these settings instead of its own."""
        from unskew.store.recipe import FitRecipe, read_fit

        self.refuse("validation")
        found = read_fit(name) if name.endswith(".toml") else FitRecipe(unskew.make(name))
        return found._replace(method=self.method(found.method), training=_edited(found.training, self.of["training"]))

    def validation(self, seed: int) -> Any:
        """Return how trials are judged, and how they are trained."""
        from unskew.bench import Validation

        training = _edited(unskew.Training(), self.of["training"])
        return _replaced(Validation(seed=seed, training=training), self.of["validation"], "validation")

    def reading(self, reading: Reading) -> Reading:
        """Return how the log is read, by options and by settings."""
        return _replaced(reading, self.of["log"], "log")  # type: ignore[no-any-return]

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


def _edited(recipe: Any, settings: dict[str, Any]) -> Any:
    """Return a recipe with other settings: it is edited as plain data and read back."""
    if not settings:
        return recipe
    from unskew.store.recipe import from_plain, to_plain

    plain = to_plain(recipe)
    for name, value in settings.items():
        _put(plain, name.split("."), value)
    return from_plain(plain)


def _replaced(record: Any, settings: dict[str, Any], prefix: str) -> Any:
    for name in settings:
        known = [each for each in vars(record) if each not in ("guessed", "training")]
        if name not in known:
            raise ParameterError(f"there is no --set {prefix}.{name}{nearest(name, known)}")
    return replace(record, **settings)


def _put(recipe: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    inner: Any = recipe  # a wrapper hands on what is its base's, as in `unskew.make`
    while isinstance(inner, dict) and path[0] not in inner:
        inner = inner.get("base", inner.get("factors"))
    recipe = inner if isinstance(inner, dict) else recipe
    for parent in parents:
        recipe = recipe.setdefault(parent, {})  # a setting that does not exist is refused by the library
        if not isinstance(recipe, dict):
            raise ParameterError(f"--set {'.'.join(path)}: {parent} is {recipe!r}, which has no settings of its own.")
    part_by_name = isinstance(value, str) and isinstance(recipe.get(last), dict)
    recipe[last] = {"kind": _class_name(value)} if part_by_name else value


def _class_name(name: str) -> str:
    """Return the class of this name in whatever case; if there is none, the name, for the library to refuse."""
    from unskew.store.recipe import kinds

    folded, every = name.casefold(), (known for outside in (False, True) for known in kinds(outside))
    return next((known for known in every if folded in (known.casefold(), known.casefold().rpartition(":")[2])), name)
