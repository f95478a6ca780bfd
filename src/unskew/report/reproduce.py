"""How to get the same model and the same page again."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version

from unskew._version import __version__
from unskew.errors import UnskewError
from unskew.files.logs import fingerprint
from unskew.files.toml import as_toml
from unskew.recipe import to_plain
from unskew.recommender import Recommender
from unskew.training.options import OF_THE_RUN

COMPUTING = ("torch", "numpy", "numba")


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
    try:
        data = {"method": to_plain(model.method)}
        if model.training is not None:
            told = to_plain(model.training)
            data["training"] = {name: value for name, value in told.items() if name not in OF_THE_RUN}
        return as_toml(data)
    except UnskewError:
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
