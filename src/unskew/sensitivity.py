"""What an answer owes to an assumption: a model under every assumption about unexplained liking, or about odds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.propensity.utility import FittedUtility
from unskew.recommender import Recommender

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOME_PAIRS, SOME_USERS = 1 << 17, 500
TOP = 10
ODDS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)


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
        panels = {
            "positive rate over all pairs": {"": self.positive_rate},
            "mean squared error, estimated": {"": self.mse},
            "share of the top ten replaced": {"": self.top_changed},
        }
        return _drawn(panels, self.unexplained, "unexplained liking, k", self.assumed)


@dataclass(frozen=True)
class OddsSensitivity:
    """One entry for each assumed `odds`, rho: how many times as likely the best rating is to be seen as the worst.

    It is about influence of liking beyond what the method allows for; `assumed` is the model's own. `positive_rate` is
    the mean answer over all pairs (for graded ratings, the mean rating in [0, 1]), `mse` the squared error over all
    pairs of the model at these odds and `mse_as_is` that of the model as it is, both as the held-out ratings tell them
    when each is weighted by rho^-r / P(seen); nan for a model that has nothing held out. No order of items changes.
    """

    odds: tuple[float, ...]
    positive_rate: tuple[float, ...]
    mse: tuple[float, ...]
    mse_as_is: tuple[float, ...]
    assumed: float

    def __str__(self) -> str:
        columns = zip(self.odds, self.positive_rate, self.mse, self.mse_as_is, strict=True)
        rows = (f"{rho:7.2f} {rate:14.3f} {mse:12.4f} {as_is:13.4f}" for rho, rate, mse, as_is in columns)
        return "\n".join(["   odds  positive rate  mse at odds  mse as it is", *rows])

    def plot(self) -> Figure:
        """Both answers over rho, which is drawn in logarithms, with the model's own marked."""
        panels = {
            "positive rate over all pairs": {"": self.positive_rate},
            "mean squared error, estimated": {"at these odds": self.mse, "as it is": self.mse_as_is},
        }
        figure = _drawn(panels, self.odds, "odds of being seen, liked to disliked", self.assumed)
        for axes in figure.axes:
            axes.set_xscale("log")
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
    pairs = _some_pairs(model, rng)
    users = rng.permutation(model.log.n_users)[:SOME_USERS]
    best = _top(model, users)
    return Sensitivity(
        unexplained=candidates,
        slope=tuple(moved.selection.slope if moved.selection else 0.0 for moved in models.values()),
        positive_rate=tuple(float(moved.predict_codes(*pairs).mean()) for moved in models.values()),
        mse=tuple(_mse(moved) for moved in models.values()),
        top_changed=tuple(_changed(best, _top(moved, users)) for moved in models.values()),
        assumed=own.numbers.unexplained,
    )


def odds_sensitivity(model: Recommender, odds: Sequence[float] = ODDS) -> OddsSensitivity:
    """The model at every one of these odds; no net is trained."""
    if not len(odds):
        raise ParameterError("There are no odds to look at: name at least one, such as 2.")
    models = {float(rho): model.at_odds(rho) for rho in odds}
    pairs = _some_pairs(model, np.random.default_rng([model.seed, 0x6F646473]))
    return OddsSensitivity(
        odds=tuple(models),
        positive_rate=tuple(float(moved.predict_codes(*pairs).mean()) for moved in models.values()),
        mse=tuple(_mse_at(moved, rho) for rho, moved in models.items()),
        mse_as_is=tuple(_mse_at(model, rho) for rho in models),
        assumed=model.odds,
    )


def _drawn(
    panels: Mapping[str, Mapping[str, Sequence[float]]], over: Sequence[float], label: str, assumed: float
) -> Figure:
    """A panel for each title, with named curves, and the model's own assumption marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.5 + 3.2 * len(panels), 3.2), layout="constrained")
    for axes, (title, curves) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for name, values in curves.items():
            axes.plot(over, values, marker="o", label=name)
        axes.axvline(assumed, color="grey", linewidth=1, linestyle="--")
        axes.set(xlabel=label, title=title)
        if len(curves) > 1:
            axes.legend(frameon=False)
    return figure


def _some_pairs(model: Recommender, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    log = model.log
    return np.divmod(rng.integers(log.n_pairs, size=min(SOME_PAIRS, log.n_pairs)), log.n_items)


def _mse_at(model: Recommender, rho: float) -> float:
    """The self-normalised weighted squared error on the ratings held out, if liking drives seeing by these odds."""
    if model.members:  # who held out different ratings
        return float("nan")
    log, held = model.log, model.holdout
    weight = rho ** -held.ratings.astype(np.float64)
    if "propensity" in model.cast.players:
        p = model.said_codes("propensity", held.users, held.items, held.ratings)
        weight = weight / np.maximum(p, len(log) / log.n_pairs)
    return _weighted_error(model, held, weight)


def _weighted_error(model: Recommender, held: RatingLog, weight: NDArray[np.float64]) -> float:
    error = (held.ratings - model.predict_codes(held.users, held.items)) ** 2
    return float(np.average(error, weights=weight))


def _found(model: Recommender) -> FittedUtility:
    return next(player for player in model.cast.players.values() if isinstance(player, FittedUtility))


def _mse(model: Recommender) -> float:
    """The self-normalised weighted squared error on the ratings that stopped the training."""
    if model.members:  # who held out different ratings
        return float("nan")
    found, log, held = _found(model), model.log, model.holdout
    p, given = found.pair(held.users, held.items), found.given_rating(held.users, held.items, held.ratings)
    weight = 1 / (np.maximum(p, len(log) / log.n_pairs) * given / np.maximum(p, 1e-12))
    return _weighted_error(model, held, weight)


def _top(model: Recommender, users: NDArray[np.int64]) -> list[set[Any]]:
    table = model.recommend(model.log.user_ids.take(users), TOP)
    best: dict[Any, set[Any]] = {}
    for user, item in zip(table["user_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
        best.setdefault(user, set()).add(item)
    return [best[user] for user in sorted(best, key=str)]


def _changed(before: list[set[Any]], after: list[set[Any]]) -> float:
    """The mean share of a list's items that are not in its counterpart."""
    return float(np.mean([len(one - other) / len(one) for one, other in zip(before, after, strict=True)]))
