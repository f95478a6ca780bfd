"""Settings that no rule can tell: a short, seeded search on the hold-out, before the method is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit

from unskew.data.log import RatingLog
from unskew.errors import DivergedError, ParameterError
from unskew.methods.space import changed
from unskew.metrics.accuracy import PROBABILITY_FLOOR, log_loss
from unskew.metrics.pairwise import pairwise_log_loss
from unskew.progress import bar
from unskew.propensity.additive import Additive
from unskew.propensity.base import FittedPropensity
from unskew.training.history import Tried
from unskew.training.options import Training
from unskew.training.rules import by_rules

if TYPE_CHECKING:
    from unskew.methods.base import Method
    from unskew.recommender import Recommender

# What is tried, in multiples of what the rule says, and the role to which the rule says it.
GRIDS = {"l2": ((0.5, 0.71, 1.0, 1.41, 2.0), "prediction"), "clip": ((0.1, 0.3, 1.0, 2.0), "propensity")}
PARTS = 2  # of the log, held out one after the other


def settled(
    method: Method, log: RatingLog, *, seed: int, training: Training, unbiased: RatingLog | None
) -> tuple[Method, list[Tried]]:
    """The method with a number for every setting that is "auto", and what was tried to find it.

    One setting after the other, each value of its grid is fitted on the log without each of two disjoint parts and
    judged on the part left out by the sum of two losses: the log-loss of its ratings, and that of the order of two
    ratings of one user (`pairwise_log_loss`), because the former hardly sees interactions and the latter sees nothing
    of levels. Both weigh ratings by 1 / max(p, density), p an additive propensity, the same for all methods.
    """
    names = list(open_settings(method))
    if not names:
        return method, []
    if not training.group.alone:
        raise ParameterError(f'{names[0]}="auto" is not searched by several workers: give a number.')
    trials = Trials(log, seed, replace(training, checkpoint="", progress=False), unbiased)
    grids = {name: trials.candidates(method, name) for name in names}
    tried: list[Tried] = []
    for name in names:
        method = changed(method, name.split("."), None)  # at its rule, as long as another is searched
    with bar("auto", sum(map(len, grids.values())), "trial", shown=training.progress) as shown:
        for name, values in grids.items():
            found = []
            for value in values:
                found.append(trials.judged(changed(method, name.split("."), value), name, value))
                shown.advance()
            best = min(found, key=lambda one: one.score)
            if not np.isfinite(best.score):
                raise DivergedError(f'No value of {name} could be fitted; give a number instead of "auto".')
            method = changed(method, name.split("."), best.value)
            tried += [replace(one, chosen=one is best) for one in found]
    return method, tried


def open_settings(method: Any, prefix: str = "") -> Iterator[str]:
    """The settings that are "auto", by their names in the whole."""
    yield from (f"{prefix}{name}" for name in GRIDS if getattr(method, name, None) == "auto")
    if hasattr(method, "base"):
        yield from open_settings(method.base, f"{prefix}base.")


@dataclass(frozen=True, eq=False)
class Trials:
    """Fits of one log by which settings are judged."""

    log: RatingLog
    seed: int
    training: Training
    unbiased: RatingLog | None
    known: dict[Any, FittedPropensity] = field(default_factory=dict)

    def candidates(self, method: Method, name: str) -> list[float]:
        """The grid of a setting for this log; a clip is a probability."""
        setting = name.split(".")[-1]
        multiples, role = GRIDS[setting]
        facts = self.training.split(self.log, self.seed).facts
        usual = getattr(by_rules(method.plan(), facts).roles[role], setting)
        most = 1.0 if setting == "clip" else float("inf")
        return list(dict.fromkeys(min(float(f"{multiple * usual:.4g}"), most) for multiple in multiples))

    def judged(self, method: Method, name: str, value: float) -> Tried:
        from unskew.methods.remembering import remembering  # which knows of methods

        losses = []
        for part in range(self.training.part, self.training.part + PARTS):
            trial, training = remembering(method.alone, self.known), replace(self.training, part=part)
            try:
                model = trial.fit(self.log, seed=self.seed, training=training, unbiased=self.unbiased)
            except DivergedError:
                return Tried(name, value, float("inf"), float("inf"))
            losses.append(self.losses(model, model.holdout))
        return Tried(name, value, *np.mean(losses, axis=0).tolist())

    def losses(self, model: Recommender, held_out: RatingLog) -> tuple[float, float]:
        """Log-loss and pairwise log-loss on ratings that a model has not seen; 0 for order where there is none."""
        said = np.clip(model.predict_codes(held_out.users, held_out.items), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
        weights = 1 / np.maximum(self.propensity.pair(held_out.users, held_out.items), len(self.log) / self.log.n_pairs)
        pairs = pairwise_log_loss(held_out.ratings, logit(said), held_out.users, sample_weight=weights)
        return log_loss(held_out.ratings, said, sample_weight=weights), 0.0 if np.isnan(pairs) else pairs

    @cached_property
    def propensity(self) -> FittedPropensity:
        return Additive().fit(self.log)
