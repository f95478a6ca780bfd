"""A small experiment in a simulated world: what methods believe of themselves, and what is true.

In the world the users mostly rate what they like, about as many ratings of as few items as in Coat. Every method is
fitted on their log with its default settings and judged three times: by its own estimate of its risk from the held-out
ratings of the log, by its true risk over all pairs, and by the usual metrics on ratings of uniformly random pairs.
The selection is strong, 60% of the log is liked but 35% of the world; at half the strength (49%) the log tells the
naive method about the truth, and there is little to correct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.world import World, simulate
from unskew.evaluation import evaluate
from unskew.methods.base import Method
from unskew.methods.bayesian import DCEBayes
from unskew.methods.calibrated import DoublyCalibrated
from unskew.methods.robust import DRJL, TDR
from unskew.methods.weighting import IPS, Naive
from unskew.model import Recommender
from unskew.propensity.base import FittedPropensity
from unskew.propensity.counted import Known
from unskew.runtime import each
from unskew.training.options import Training

WORLD_SETTINGS = {"n_users": 500, "n_items": 300, "density": 0.06, "strength": 1.0}
DIGITS = 4  # of risks, in tables and in words: what looks equal is called equal


@dataclass(frozen=True)
class Contestant:
    """A method under the name it has in the table; an oracle is told what nobody can know outside a simulation."""

    name: str
    method: Method
    is_oracle: bool = False


@dataclass(frozen=True)
class Row:
    """How one method did; risks and `mse` are mean squared errors, AUC and nDCG are of random pairs.

    `propensity_error` is the mean |p - p_hat| over all pairs, None for a method without propensities;
    `uncalibrated_propensity_error` is the same before calibration, None for a method that does not calibrate.
    """

    method: str
    claimed_risk: float
    true_risk: float
    mse: float
    auc: float
    ndcg_at_5: float
    propensity_error: float | None = None
    uncalibrated_propensity_error: float | None = None
    is_oracle: bool = False

    @property
    def misjudged_by(self) -> float:
        """How far the claimed risk is from the true one, as the two are shown."""
        return round(abs(round(self.claimed_risk, DIGITS) - round(self.true_risk, DIGITS)), DIGITS)


@dataclass(frozen=True)
class Demo:
    """What the experiment found; the first row is the method that ignores selection."""

    seed: int
    log: str  # the log in one line
    liked_in_log: float  # mean rating of the log
    liked_in_world: float  # mean rating over all pairs
    least_risk: float  # of a model that knows every preference
    rows: tuple[Row, ...]


def run(seed: int = 0, training: Training | None = None) -> Demo:
    """Simulate the world of this seed, fit every contestant on its log and judge them."""
    world = simulate(**WORLD_SETTINGS, selection="taste", seed=seed)  # type: ignore[arg-type]
    training = training or Training(progress=False)
    held_out = training.split(world.log, seed).holdout
    rows = []
    for contestant in each(contestants(world), "fitting", "method"):
        model = contestant.method.fit(world.log, seed=seed, training=training)
        rows.append(_judged(contestant, model, world, held_out))
    ratings = np.concatenate([world.rating(users, items) for users, items in world.pairs()])
    return Demo(
        seed=seed,
        log=repr(world.log),
        liked_in_log=world.log.positive_rate,
        liked_in_world=float(ratings.mean()),
        least_risk=world.risk(world.preference),
        rows=tuple(rows),
    )


def contestants(world: World) -> tuple[Contestant, ...]:
    """Who takes part, the method that ignores selection first."""
    return (
        Contestant("Naive", Naive()),
        Contestant("IPS", IPS()),
        Contestant("IPS with true propensities", IPS(propensity=Known(world.propensity)), is_oracle=True),
        Contestant("DR-JL", DRJL()),
        Contestant("DCE-DR", DoublyCalibrated(DRJL())),
        Contestant("DCE-TDR", DoublyCalibrated(TDR())),
        Contestant("DCE-Bayes", DCEBayes()),
    )


def _judged(contestant: Contestant, model: Recommender, world: World, held_out: RatingLog) -> Row:
    metrics = evaluate(model, world.test, k=5)
    error, uncalibrated = propensity_errors(model, world)
    return Row(
        method=contestant.name,
        claimed_risk=claimed_risk(model.for_judging(), held_out),
        true_risk=world.risk(model.predict_codes),
        mse=metrics["mse"],
        auc=metrics["auc"],
        ndcg_at_5=metrics["ndcg@5"],
        propensity_error=error,
        uncalibrated_propensity_error=uncalibrated,
        is_oracle=contestant.is_oracle,
    )


def claimed_risk(model: Recommender, held_out: RatingLog) -> float:
    """The method's own estimate of its squared error over all pairs, from seen ratings it was not trained on.

    The plain mean for a method without propensities, else the self-normalised sum_O (e / p) / sum_O (1 / p).
    Training stopped by these ratings, so the estimate is a little too good, for all methods alike.
    """
    error = (model.predict_codes(held_out.users, held_out.items) - held_out.ratings) ** 2
    if "propensity" not in model.parts:
        return float(error.mean())
    users, items = held_out.user_ids.take(held_out.users), held_out.item_ids.take(held_out.items)
    p = np.maximum(model.propensity(users, items), model.parts.clips["propensity"])
    return float(np.average(error, weights=1 / p))


def propensity_errors(model: Recommender, world: World) -> tuple[float | None, float | None]:
    """As used and before calibration; ids of a world are its codes."""
    if "propensity" not in model.parts:
        return None, None
    calibrated = "propensity" in model.parts.calibrators
    raw = world.propensity_error(cast(FittedPropensity, model.part("propensity")).pair) if calibrated else None
    return world.propensity_error(model.propensity), raw


def in_words(demo: Demo) -> str:
    """What happened, in one sentence made from the numbers as they are shown, whichever way they fell."""
    naive, *others = demo.rows
    corrected = [row for row in others if not row.is_oracle]
    best = min(corrected, key=lambda row: row.true_risk)
    name = best.method if len(corrected) == 1 else f"the best of {len(corrected)} corrections, {best.method},"
    parts = [
        f"From its own log {naive.method} expects an error of {_shown(naive.claimed_risk)}, and over the whole world "
        f"it is {_compared(naive.claimed_risk, naive.true_risk)}",
        f"{name} {_verdict(naive, best)} and, having expected {_shown(best.claimed_risk)}, is off by "
        f"{_shown(best.misjudged_by)} where {naive.method} was off by {_shown(naive.misjudged_by)}",
        f"it orders random pairs {_order(naive.auc, best.auc)} (AUC {_shown(best.auc)} against {_shown(naive.auc)})",
    ]
    parts += [f"the error of {row.method} is {_shown(row.true_risk)}" for row in others if row.is_oracle]
    return "; ".join(parts) + "."


def _shown(value: float) -> str:
    return f"{value:.{DIGITS}f}"


def _compared(before: float, after: float) -> str:
    if _shown(before) == _shown(after):
        return f"{_shown(after)} (the same)"
    return f"{_shown(after)} ({abs(after / before - 1):.1%} {'more' if after > before else 'less'})"


def _verdict(naive: Row, best: Row) -> str:
    compared = _compared(naive.true_risk, best.true_risk)
    if compared.endswith("less)"):
        return f"brings that down to {compared}"
    return f"does not beat it, with an error of {compared},"


def _order(before: float, after: float) -> str:
    if _shown(before) == _shown(after):
        return "equally well"
    return "better" if after > before else "worse"
