"""How to get the same model and the same page again."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version

from unskew._version import __version__
from unskew.errors import ParameterError
from unskew.files.logs import fingerprint
from unskew.model import Recommender
from unskew.recipe import FitRecipe
from unskew.training.options import Training

COMPUTING = ("numpy", "scipy", "numba")


@dataclass(frozen=True)
class ReproduceFacts:
    recipe: str  # a TOML file; empty if the method has parts that no file can hold
    commands: str
    fingerprint: str
    versions: str


def reproduce_of(model: Recommender) -> ReproduceFacts:
    versions = ", ".join([f"unskew {__version__}", f"Python {platform.python_version()}"])
    return ReproduceFacts(
        recipe=_recipe(model),
        commands=_commands(model),
        fingerprint=fingerprint(model.log),
        versions=", ".join([versions, *(f"{name} {version(name)}" for name in COMPUTING)]),
    )


def _recipe(model: Recommender) -> str:
    """What the model folder has as recipe.toml."""
    try:
        return FitRecipe(model.method, (model.training or Training()).lasting, model.seed, model.log.scale).as_text()
    except ParameterError:
        return ""


def _commands(model: Recommender) -> str:
    scale = model.log.scale
    reading = (
        f"--positive {scale.positive:g}" if scale.positive is not None else f"--graded {scale.low:g} {scale.high:g}"
    )
    return (
        f"unskew fit RATINGS.csv --recipe recipe.toml {reading} --seed {model.seed} --out model\n"
        "unskew report model --out report.html"
    )
