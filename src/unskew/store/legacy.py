"""Model folders and recipes of version 1: their names and arrays as they are called and shaped now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import pair_fold, pair_keys
from unskew.errors import ParameterError
from unskew.gone import refuse_gone
from unskew.registry import classes
from unskew.special import logit
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
BY_ROW = ("users", "items", "user_bias", "item_bias")  # tables with a row for each user or item
WIDEST = 60.0  # logits: farther out a sigmoid is 0 or 1


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


def upgraded(content: dict[str, Any], arrays: Arrays, log: RatingLog) -> tuple[dict[str, Any], Arrays]:
    """Return the contents and arrays of a version 1 model as version 2 keeps them."""
    content = dict(content) | {"method": renamed(content.get("method"))}
    weights = content.pop("overlap", None)
    if weights is not None:
        weights = {{"spread_over_pairs": "std_over_pairs"}.get(key, key): held for key, held in weights.items()}
    roles, clips = content.pop("players", []), content.get("clips", {})
    content |= {
        "weights": weights,
        "parts": [_role(role) for role in roles],
        "clips": {_role(role): clip for role, clip in clips.items()},
    }
    found = {name: array for name, array in arrays.items() if name.startswith(".recipe/")}
    shared = _vectors(under("trunk", arrays), log, None) if "trunk" in roles else None
    for role in roles:
        calibrates = next((of for of, by in content.get("calibrators", {}).items() if by == role), "")
        calibrated = _vectors(under(calibrates, arrays), log, shared)
        found |= prefixed(_role(role), _part(under(role, arrays), log, calibrated, role))
    return content, found


def _role(name: str) -> str:
    return "vectors" if name == "trunk" else name


def _part(own: Arrays, log: RatingLog, vectors: Array, role: str) -> Arrays:
    """Return the arrays of one part; `vectors` are those of the users in the role that it calibrates, if it does."""
    own = {name: array for name, array in own.items() if name != "compiled"}
    names = set(own)
    if any(name.startswith("nets/") for name in names):
        return _side_by_side(own, log)
    if any(name.endswith(".value") and not name.startswith("mixture.") for name in names):
        return _net(own, role)
    if "mixture.gate.value" in names:
        return _experts(own, vectors)
    if "base/of_item" in names or "ratio" in names:
        base = {f"base.{name}": array for name, array in _part(under("base", own), log, vectors, role).items()}
        return base | {"levels": own["ratings"].astype(np.float64), "ratio": own["ratio"].astype(np.float32)}
    if names == {"slope", "intercept"}:
        return _maps(own["slope"].reshape(1, 1), own["intercept"].reshape(1, 1), 2)
    if names == {"codes", "slopes", "intercepts", "common"}:
        maps = np.tile(own["common"], (log.n_users + 1, 1))
        maps[own["codes"], 0], maps[own["codes"], 1] = own["slopes"], own["intercepts"]
        return _maps(maps[:, :1], maps[:, 1:], 2 * len(own["codes"]))
    if names == {"seed", "slopes", "intercepts"}:
        k, users = len(own["slopes"]), np.append(np.arange(log.n_users), -1)
        chosen = pair_fold(int(own["seed"]), users, np.zeros_like(users), k)
        return _assigned(own, np.eye(k)[chosen], True, 2 * k, np.bincount(chosen, minlength=k) / len(users), 1.0)
    if names == {"of_user", "of_item"}:
        return {name: _with_mean(np.clip(array, -WIDEST, WIDEST)) for name, array in own.items()}
    if names == {"of_item"}:
        p = np.append(own["of_item"], own["of_item"].mean())
        return {"of_item": np.clip(logit(p), -WIDEST, WIDEST).astype(np.float32)}
    if names == {"user_table", "item_table", "weights"}:
        users, items = _with_mean(own["user_table"]), _with_mean(own["item_table"])
        return {"users": users, "items": items, "weights": own["weights"].astype(np.float32)}
    if names == {"column"}:
        keys = pair_keys(log.users, log.items, log.n_items)
        order = np.argsort(keys)
        return {"keys": keys[order], "p": own["column"][order], "n_items": np.array(log.n_items)}
    return own


def _with_mean(rows: Array) -> Array:
    """Return the rows, and their average behind them, which stands for somebody or something unknown."""
    return np.concatenate([rows, rows.mean(0, keepdims=True, dtype=np.float64)]).astype(np.float32)


def _net(own: Arrays, role: str) -> Arrays:
    if others := sorted(name for name in own if not name.endswith(".value") or "." in name.removesuffix(".value")):
        raise ParameterError(
            f"the {role} keeps {others[0]!r}, by which nets read features of users and items, and none does any more: "
            "fit again, without features or with a propensity that reads them, Logistic()."
        )
    tables = {name.removesuffix(".value"): array for name, array in own.items()}
    return {name: _with_mean(array) if name in BY_ROW else array for name, array in tables.items()}


def _side_by_side(own: Arrays, log: RatingLog) -> Arrays:
    """Return nets of folds in one: their rows one after another; what belongs to no row is the same in all of them."""
    n = 1 + max(int(name.split("/")[1]) for name in own if name.startswith("nets/"))
    nets = [{name: a for name, a in under(f"nets/{fold}", own).items() if name != "compiled"} for fold in range(n)]
    joined = {
        name: np.concatenate([net[name] for net in nets]) if name.removesuffix(".value") in BY_ROW else array
        for name, array in nets[0].items()
    }
    folds = np.array([n, int(own["seed"]), log.n_users, log.n_items], np.int64)
    return _net(joined, "propensity") | {"folds": folds}


def _vectors(own: Arrays, log: RatingLog, shared: Array | None) -> Array:
    """Return what a role of version 1 knows of each user, and of an unknown one."""
    nets = [name for name in sorted(own) if name.startswith("nets/") and name.endswith("/users.value")]
    if nets:
        return np.hstack([_with_mean(own[name]) for name in nets])
    if "user_bias.value" in own and shared is not None:
        return np.hstack([shared, _with_mean(own["user_bias.value"])])
    for name in ("users.value", "user_table"):
        if name in own:
            return _with_mean(own[name])
    if "of_user" in own:
        return _with_mean(np.clip(own["of_user"][:, None], -30.0, 30.0))
    inner = under("base", own)
    return _vectors(inner, log, shared) if inner else np.zeros((log.n_users + 1, 1), np.float32)


def _experts(own: Arrays, vectors: Array) -> Arrays:
    gate, centre, spread = (own[f"mixture.{name}"] for name in ("gate.value", "centre", "spread"))
    scores = np.hstack([(vectors - centre) / spread, np.ones((len(vectors), 1))]) @ gate.T
    alpha = np.exp(scores - scores.max(1, keepdims=True))
    alpha /= alpha.sum(1, keepdims=True)
    return _assigned(own, alpha, bool(own["hard"]), 2 * len(gate) + gate.size, own["usage"], float(own["entropy"]))


def _assigned(own: Arrays, alpha: Array, hard: bool, size: int, usage: Array, entropy: float) -> Arrays:
    """Maps of experts by the users' shares in them."""
    slopes, intercepts, chosen = own["slopes"], own["intercepts"], alpha.argmax(1)
    if hard:
        found = _maps(slopes[chosen, None], intercepts[chosen, None], size)
    else:
        found = _maps(slopes[None], intercepts[None], size) | {"weights": alpha.astype(np.float32)}
    return found | {"usage": np.asarray(usage), "entropy": np.array(entropy)}


def _maps(slopes: Array, intercepts: Array, size: int) -> Arrays:
    one = np.ones((1, 1), np.float32)
    slopes, intercepts = slopes.astype(np.float32), intercepts.astype(np.float32)
    return {"weights": one, "slopes": slopes, "intercepts": intercepts, "n_parameters": np.array(size)}
