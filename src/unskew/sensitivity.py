"""What an answer owes to an assumption: a model under every assumption about unexplained liking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ParameterError
from unskew.propensity.utility import FittedUtility
from unskew.recommender import Recommender

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOME_PAIRS, SOME_USERS = 1 << 17, 500
TOP = 10


@dataclass(frozen=True)
class Sensitivity:
    """One entry for each assumed k, `unexplained`; `assumed` is the model's own.

    `positive_rate` is the mean prediction over all pairs (for graded ratings, the mean rating in [0, 1]), `mse` the
    squared error over all pairs as the held-out ratings tell it when each is weighted by 1 / P(seen given its rating)
    under that k, nan for a model that has nothing held out, and `top_changed` the share of a user's best ten items
    that others have replaced.
    """

    unexplained: tuple[float, ...]
    slope: tuple[float, ...]
    positive_rate: tuple[float, ...]
    mse: tuple[float, ...]
    top_changed: tuple[float, ...]
    assumed: float

    def __str__(self) -> str:
        head = "unexplained   slope  positive rate     mse  top ten changed"
        columns = zip(self.unexplained, self.slope, self.positive_rate, self.mse, self.top_changed, strict=True)
        rows = (f"{k:11.2f} {s:7.3f} {rate:14.3f} {mse:7.4f} {top:16.1%}" for k, s, rate, mse, top in columns)
        return "\n".join([head, *rows])

    def plot(self) -> Figure:
        """The three answers over k, one panel each, with the model's own assumption marked."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 3.2), layout="constrained")
        panels = (
            (self.positive_rate, "positive rate over all pairs"),
            (self.mse, "mean squared error, estimated"),
            (self.top_changed, "share of the top ten replaced"),
        )
        for axes, (values, title) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            axes.plot(self.unexplained, values, marker="o")
            axes.axvline(self.assumed, color="grey", linewidth=1, linestyle="--")
            axes.set(xlabel="unexplained liking, k", title=title)
        return figure


def sensitivity(model: Recommender, unexplained: Sequence[float] = tuple(np.linspace(0, 2, 9))) -> Sensitivity:
    """The model under every assumption about k: fitted again for each, but for nets that do not depend on it."""
    own = model.selection
    if own is None:
        raise ParameterError(
            f"{type(model.method).__name__} assumes nothing about unexplained liking; use a method over Utility()."
        )
    candidates = tuple(float(k) for k in unexplained)
    models = {k: model.at(unexplained=k) for k in candidates}
    rng = np.random.default_rng([model.seed, 0x73656E73])
    log = model.log
    pairs = np.divmod(rng.integers(log.n_pairs, size=min(SOME_PAIRS, log.n_pairs)), log.n_items)
    users = rng.permutation(log.n_users)[:SOME_USERS]
    best = _top(model, users)
    return Sensitivity(
        unexplained=candidates,
        slope=tuple(moved.selection.slope if moved.selection else 0.0 for moved in models.values()),
        positive_rate=tuple(float(moved.predict_codes(*pairs).mean()) for moved in models.values()),
        mse=tuple(_mse(moved) for moved in models.values()),
        top_changed=tuple(_changed(best, _top(moved, users)) for moved in models.values()),
        assumed=own.numbers.unexplained,
    )


def _found(model: Recommender) -> FittedUtility:
    return next(player for player in model.cast.players.values() if isinstance(player, FittedUtility))


def _mse(model: Recommender) -> float:
    """The self-normalised weighted squared error on the ratings that stopped the training."""
    if model.members:  # who held out different ratings
        return float("nan")
    found, log, held = _found(model), model.log, model.holdout
    p, given = found.pair(held.users, held.items), found.given_rating(held.users, held.items, held.ratings)
    weight = 1 / (np.maximum(p, len(log) / log.n_pairs) * given / np.maximum(p, 1e-12))
    error = (held.ratings - model.predict_codes(held.users, held.items)) ** 2
    return float(np.average(error, weights=weight))


def _top(model: Recommender, users: NDArray[np.int64]) -> list[set[Any]]:
    table = model.recommend(model.log.user_ids.take(users), TOP)
    best: dict[Any, set[Any]] = {}
    for user, item in zip(table["user_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
        best.setdefault(user, set()).add(item)
    return [best[user] for user in sorted(best, key=str)]


def _changed(before: list[set[Any]], after: list[set[Any]]) -> float:
    """The mean share of a list's items that are not in its counterpart."""
    return float(np.mean([len(one - other) / len(one) for one, other in zip(before, after, strict=True)]))
