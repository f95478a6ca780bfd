"""Model folders and recipes of version 1: their names and arrays as they are called and shaped now."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ParameterError
from unskew.gone import refuse_gone
from unskew.registry import classes
from unskew.store.plain import Arrays, prefixed, under

Array = NDArray[Any]
SETTINGS = {
    "MF": {"spread": "init_std"},
    "NCF": {"spread": "init_std"},
    "StableDR": {"imputation": "weighting"},
}
KINDS: dict[str, dict[str, Any]] = {
    "SharedEmbedding": {"kind": "MF", "biases": False},
    "Trunk": {"kind": "MF", "biases": False},
    "RandomPlatt": {"kind": "ExpertPlatt", "assignment": "random"},
}
BY_ROW = {"users", "items", "user_bias", "item_bias"}  # tables with a row for each user or item
CALLED = {"prediction": "prediction", "trunk": "vectors"}  # roles that are read, by today's names


def renamed(data: Any) -> Any:
    """Give a recipe today's names of kinds and settings; a kind that is gone is refused with what replaces it."""
    if isinstance(data, list):
        return [renamed(held) for held in data]
    if not isinstance(data, dict):
        return data
    data = {key: renamed(held) for key, held in data.items()}
    kind = data.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        data |= KINDS[kind]
    elif isinstance(kind, str) and kind not in classes():
        refuse_gone("name", kind)
    if data.get("kind") == "ExpertPlatt" and data.get("assignment") == "auto":
        data.pop("assignment")  # experts always end with one for each user
    names = SETTINGS.get(data["kind"], {}) if isinstance(kind, str) else {}
    return {names.get(key, key): held for key, held in data.items()}


def upgraded(content: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return the contents and arrays of a version 1 model as later ones keep them.

    What it predicts is read. Propensity, imputation and their maps, which training needed, are not: a note says so.
    """
    content = dict(content) | {"method": renamed(content.get("method"))}
    weights = content.pop("overlap", None)
    if weights is not None:
        weights = {{"spread_over_pairs": "std_over_pairs"}.get(key, key): held for key, held in weights.items()}
    roles, found = content.pop("players", []), dict[str, Array]()
    kept = [role for role in roles if role in CALLED]
    history = dict(content["history"])
    if lost := [role for role in roles if role not in CALLED]:
        note = f"This model of version 1 was read without {', '.join(lost)}: fit again where they are needed."
        history["notes"] = [*history["notes"], note]
    content |= {"weights": weights, "parts": [CALLED[role] for role in kept], "history": history}
    content |= {"clips": {}, "calibrators": {}}
    for role in kept:
        found |= prefixed(CALLED[role], _net(under(role, arrays), role))
    return content, found | {name: array for name, array in arrays.items() if name.startswith(".recipe/")}


def _net(own: Arrays, role: str) -> Arrays:
    """Return the tables of a net; behind the rows of users and items their average, which stands for unknown ones."""
    tables = {name.removesuffix(".value"): array for name, array in own.items() if name != "compiled"}
    if others := sorted(name for name in tables if f"{name}.value" not in own or "." in name):
        raise ParameterError(
            f"the {role} keeps {others[0]!r}, by which nets read features of users and items, and none does any more: "
            "fit again, without features or with a propensity that reads them, Logistic()."
        )
    for name in BY_ROW & tables.keys():
        rows = tables[name]
        tables[name] = np.concatenate([rows, rows.mean(0, keepdims=True, dtype=np.float64)]).astype(np.float32)
    return tables
