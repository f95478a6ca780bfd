"""Methods from the command line: a name, and settings as NAME=VALUE."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import unskew
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.methods.base import Method
    from unskew.propensity.base import Propensity
    from unskew.store.recipe import FitRecipe
    from unskew.training.options import Training


def method_from(name: str, assignments: Sequence[str]) -> Method:
    """The method of this name, with these settings instead of its defaults."""
    return changed(unskew.make(name), assignments)


def recipe_from(name: str, assignments: Sequence[str]) -> FitRecipe:
    """What a method's name or a recipe file stands for, with these settings instead of its own.

    Settings called training.NAME are those of training.
    """
    from unskew.store.recipe import FitRecipe, from_plain, read_fit, to_plain

    found = read_fit(name) if name.endswith(".toml") else FitRecipe(unskew.make(name))
    of_training = [one.removeprefix("training.") for one in assignments if one.startswith("training.")]
    own = [one for one in assignments if not one.startswith("training.")]
    if of_training:
        plain = to_plain(found.training)
        _assign(plain, of_training)
        found = found._replace(training=from_plain(plain))
    return found._replace(method=changed(found.method, own)) if own else found


def limited(training: Training, epochs: int | None, batch_size: int | None, **more: Any) -> Training:
    """Training as it is but for what options say; an option that is None says nothing."""
    said: dict[str, Any] = {"max_epochs": epochs, "batch_size": batch_size, **more}
    return replace(training, **{name: value for name, value in said.items() if value is not None})


def changed(method: Method, assignments: Sequence[str]) -> Method:
    """The method with these settings instead of its own.

    The recipe is edited as plain data and read back, so that every name and every value is checked by the library.
    """
    from unskew.store.recipe import from_plain, to_plain

    recipe = to_plain(method)
    _assign(recipe, assignments)
    edited: Method = from_plain(recipe)
    return edited


def _assign(recipe: dict[str, Any], assignments: Sequence[str]) -> None:
    """Put settings into a recipe that is plain data."""
    done: set[str] = set()
    for assignment in assignments:
        setting, equals, text = assignment.partition("=")
        if not equals or not all(setting.split(".")):
            raise ParameterError(f"--set {assignment} is not of the form NAME=VALUE, such as clip=0.05.")
        if setting in done:
            raise ParameterError(f"--set {setting} is given twice: give it once.")
        done.add(setting)
        _put(recipe, setting.split("."), literal(text))


def propensity_from(name: str) -> Propensity:
    """The propensity of this name, with its default settings."""
    from unskew.propensity.base import Propensity
    from unskew.store.recipe import from_plain

    try:
        found = from_plain({"kind": _class_name(name)})
    except ParameterError as error:
        hint = str(error).partition("; ")[2] or "`unskew list` lists all parts."
        raise ParameterError(f"--propensity {name} is not known; {hint}") from error
    if not isinstance(found, Propensity):
        raise ParameterError(f"--propensity {name} is a {type(found).__name__}, which is no propensity.")
    return found


def literal(text: str) -> Any:
    """What a Python literal stands for; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _put(recipe: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    recipe = next((part for part in _wrapped(recipe) if path[0] in part), recipe)
    for parent in parents:
        recipe = recipe.setdefault(parent, {})  # a setting there is not: the library will say so
        if not isinstance(recipe, dict):
            raise ParameterError(f"--set {'.'.join(path)}: {parent} is {recipe!r}, which has no settings of its own.")
    part_by_name = isinstance(value, str) and isinstance(recipe.get(last), dict)
    recipe[last] = {"kind": _class_name(value)} if part_by_name else value


def _wrapped(recipe: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A recipe, and inside it its bases: a wrapper hands on what is its base's, as in `unskew.make`."""
    yield recipe
    if isinstance(base := recipe.get("base"), dict):
        yield from _wrapped(base)


def _class_name(name: str) -> str:
    """The class of this name in whatever case; if there is none, the name, for the library to refuse."""
    from unskew.store.recipe import kinds

    folded = name.casefold()
    return next((known for known in kinds() if folded in (known.casefold(), known.casefold().rpartition(":")[2])), name)
