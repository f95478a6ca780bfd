"""Recipes as plain data and as TOML files: what was fitted, without the fit."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from unskew.data.scale import Scale
from unskew.errors import ParameterError, checked_seed, nearest
from unskew.methods.base import Method
from unskew.registry import classes, make
from unskew.store.atomic import PathLike, checked_path, reason, write_file
from unskew.store.legacy import renamed
from unskew.store.plain import Plain
from unskew.training.options import Training

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def kinds(outside: bool = False) -> dict[str, type]:
    """Return every class that a recipe may name, by that name; nothing else is ever built from a file."""
    return {**classes(outside), "Training": Training}


def plain(records: Collection[type] = (), arrays: dict[str, NDArray[Any]] | None = None) -> Plain:
    """Return what writes and reads recipes; installed packages are imported for names that are not ours."""
    return Plain(kinds(), records, arrays, more=lambda: kinds(outside=True))


def to_plain(recipe: Any) -> Any:
    """Return a recipe as dicts, lists, numbers and texts: {"kind": "IPS", "net": {"kind": "MF", ...}, ...}."""
    return plain().write(recipe)


def from_plain(data: Any) -> Any:
    """Return the recipe that `to_plain` wrote down; settings left out have their defaults, sequences are tuples."""
    return plain().read(object, data)


class FitRecipe(NamedTuple):
    """All of a fit but its log; seed and scale are None where a recipe leaves them open."""

    method: Method
    training: Training = Training()
    seed: int | None = None
    scale: Scale | None = None

    def as_text(self) -> str:
        """TOML that `read_fit` reads."""
        data: dict[str, Any] = {} if self.seed is None else {"seed": int(self.seed)}
        data["method"] = to_plain(self.method)
        if self.training != Training():
            data["training"] = to_plain(self.training)
        if self.scale is not None:
            data["scale"] = Plain({}, (Scale,)).write(self.scale)
        return as_toml(data)


def read_fit(path: PathLike) -> FitRecipe:
    """Read a TOML file's method, `method = "ips"` or a table [method] with its kind, perhaps [training], seed, [scale].

    [scale] says how ratings are read: `positive`, the lowest that counts as liked or "none", and `low` and `high`.
    """
    try:
        data = tomllib.loads(checked_path(path).read_bytes().decode())
    except OSError as error:
        raise ParameterError(f"The recipe {path} cannot be read: {reason(error)}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParameterError(f"The recipe {path} is not TOML: {error}.") from error
    return _parsed(data, str(path))


def write_recipe(path: PathLike, method: Method, training: Training | None = None) -> None:
    """Write a TOML file that `read_fit` reads, whole or not at all."""
    target, text = checked_path(path), FitRecipe(method, training or Training()).as_text()
    try:
        write_file(target, text.encode())
    except UnicodeEncodeError as error:
        raise ParameterError(f"The recipe {path} cannot be written: it holds text that is not Unicode.") from error


def _parsed(data: dict[str, Any], name: str) -> FitRecipe:
    for key in data:
        if key not in FitRecipe._fields:
            listed = ", ".join(map(repr, FitRecipe._fields))
            raise ParameterError(f"The recipe {name} may hold {listed}, not {key!r}{nearest(key, FitRecipe._fields)}")
    if "method" not in data:
        raise ParameterError(f'The recipe {name} names no method; write method = "ips" or a table [method].')
    held, method, training = plain((Scale,)), data["method"], data.get("training", {})
    if isinstance(training, dict):
        training = {"kind": "Training"} | training
    training = held.read(Training, training, "The training")
    seed = held.read(int | None, data.get("seed"), "The seed")
    return FitRecipe(
        make(method) if isinstance(method, str) else held.read(Method, renamed(method), "The method"),
        training,
        None if seed is None else checked_seed(seed),
        held.read(Scale | None, data.get("scale"), "The scale"),
    )


def as_toml(data: Mapping[str, Any]) -> str:
    """Return a table of texts, numbers, booleans, lists and tables; None, which TOML lacks, is written as "none"."""
    return "\n".join(_table(data, ())).strip() + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield a table's own values under its heading, then the tables inside it under theirs."""
    if path:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in data.items():
        if not isinstance(value, Mapping):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _table(value, (*path, key))


def _value(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(held)}" for key, held in value.items()) + "}"
    return "[" + ", ".join(map(_value, value)) + "]"


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # A JSON text is a TOML text but for the delete character, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
