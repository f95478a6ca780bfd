"""Recipes as plain data and as TOML files: what was fitted, without the fit."""

from __future__ import annotations

import tomllib
from typing import Any, TypeVar

from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.maps import GlobalPlatt, UserPlatt
from unskew.calibration.published import PublishedExperts
from unskew.errors import ParameterError
from unskew.files.atomic import PathLike, checked_path, reason, replace_file
from unskew.files.plain import Plain
from unskew.files.toml import as_toml
from unskew.methods.base import Method
from unskew.methods.registry import make, methods
from unskew.nets.factors import MF, NCF
from unskew.nets.scalar import Scalar
from unskew.nets.towers import Trunk
from unskew.propensity.additive import Additive
from unskew.propensity.bayes import NaiveBayes
from unskew.propensity.factors import Factors
from unskew.propensity.logistic import Logistic
from unskew.propensity.tables import Known, Popularity, Uniform
from unskew.propensity.utility import Utility
from unskew.training.options import Training
from unskew.words import nearest

RecipeClass = TypeVar("RecipeClass", bound=type)

# The parts of methods, by whose class names recipes may call them. Methods come from their own registry.
PARTS: tuple[type, ...] = (
    MF,
    NCF,
    Scalar,
    Trunk,
    Uniform,
    Popularity,
    NaiveBayes,
    Known,
    Additive,
    Factors,
    Logistic,
    Utility,
    GlobalPlatt,
    UserPlatt,
    ExpertPlatt,
    PublishedExperts,
    Training,
)
_registered: dict[str, type] = {}


def kinds() -> dict[str, type]:
    """Every class that a recipe may name, by that name; nothing else is ever built from a file."""
    classes = (*(type(entry.build()) for entry in methods()), *PARTS)
    return {cls.__name__: cls for cls in classes} | _registered


def register(cls: RecipeClass) -> RecipeClass:
    """Class decorator: let recipes name your own method, net, propensity or calibrator (a dataclass)."""
    name = cls.__name__
    taken = kinds().get(name, cls)
    if taken.__module__ != cls.__module__:  # the same module again is a notebook cell run twice
        raise ParameterError(f"There is a recipe called {name!r} in {taken.__module__}; choose another name.")
    _registered[name] = cls
    return cls


def to_plain(recipe: Any) -> Any:
    """A recipe as dicts, lists, numbers and texts: {"kind": "IPS", "net": {"kind": "MF", ...}, ...}."""
    return Plain(kinds()).write(recipe)


def from_plain(data: Any) -> Any:
    """The recipe that `to_plain` wrote down; settings left out have their defaults, sequences are tuples."""
    return Plain(kinds()).read(object, data)


def read_recipe(path: PathLike) -> tuple[Method, Training]:
    """A TOML file's method, `method = "ips"` or a table [method] with its kind, and optional [training]."""
    try:
        text = checked_path(path).read_bytes().decode()
        data = tomllib.loads(text)
    except OSError as error:
        raise ParameterError(f"The recipe {path} cannot be read: {reason(error)}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParameterError(f"The recipe {path} is not TOML: {error}.") from error
    return _parsed(data, str(path))


def write_recipe(path: PathLike, method: Method, training: Training | None = None) -> None:
    """Write a TOML file that `read_recipe` reads, whole or not at all."""
    target = checked_path(path)
    data = {"method": to_plain(method)} | ({} if training is None else {"training": to_plain(training)})
    text = as_toml(data)
    again = dict(zip(("method", "training"), map(to_plain, _parsed(tomllib.loads(text), str(path))), strict=True))
    if again | data != again:
        raise ParameterError(f"TOML cannot tell this {type(method).__name__} from another; use to_plain and JSON.")
    try:
        replace_file(target, text.encode())
    except OSError as error:
        raise ParameterError(f"The recipe {path} cannot be written: {reason(error)}.") from error
    except UnicodeEncodeError as error:
        raise ParameterError(f"The recipe {path} cannot be written: it holds text that is not Unicode.") from error


def _parsed(data: dict[str, Any], name: str) -> tuple[Method, Training]:
    wanted = {"method", "training"}
    for key in data:
        if key not in wanted:
            meant = nearest(key, wanted)
            raise ParameterError(f"The recipe {name} may hold 'method' and 'training', not {key!r}{meant}")
    if "method" not in data:
        raise ParameterError(f'The recipe {name} names no method; write method = "ips" or a table [method].')
    plain, method, training = Plain(kinds()), data["method"], data.get("training", {})
    if isinstance(training, dict):
        training = {"kind": "Training"} | training
    return (
        make(method) if isinstance(method, str) else plain.read(Method, method, "The method"),
        plain.read(Training, training, "The training"),
    )
