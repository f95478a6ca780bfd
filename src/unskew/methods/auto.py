"""Settings that no rule can tell: a short, seeded search on the hold-out, before the method is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from unskew.data.log import RatingLog
from unskew.errors import DivergedError, ParameterError
from unskew.methods.space import changed
from unskew.metrics.accuracy import PROBABILITY_FLOOR, log_loss
from unskew.metrics.pairwise import pairwise_log_loss
from unskew.progress import bar
from unskew.propensity.base import FittedPropensity
from unskew.propensity.factors import Factors
from unskew.training.history import Tried
from unskew.training.options import Training
from unskew.training.rules import by_rules

if TYPE_CHECKING:
    from unskew.methods.base import Method
    from unskew.recommender import Recommender

# What is tried, in multiples of what the rule says, and the role to which the rule says it.
GRIDS = {"l2": ((0.5, 0.71, 1.0, 1.41, 2.0), "prediction"), "clip": ((0.1, 0.3, 1.0, 2.0), "propensity")}
PARTS = 2  # of the log, held out one after the other; a third changed no choice for the better
OF_JUDGE = 0x6A756467  # the stream of the propensity that weighs


def settled(
    method: Method, log: RatingLog, *, seed: int, training: Training, unbiased: RatingLog | None
) -> tuple[Method, list[Tried]]:
    """The method with a number for every setting that is "auto", and what was tried to find it.

    One setting after the other, each value of its grid is fitted on the log without each of two disjoint parts and
    judged on the part left out. It is judged by the sum of two means weighted by 1 / max(p, density), with p a
    cross-fitted propensity that no method trains: the log-loss of the ratings, and that of the order of ratings of one
    user (`pairwise_log_loss`), because the former hardly sees interactions and the latter sees nothing else.
    """
    names = list(open_settings(method))
    if not names:
        return method, []
    if not training.group.alone:
        raise ParameterError(f'{names[0]}="auto" is not searched by several workers: give a number.')
    trials = Trials(log, seed, replace(training, checkpoint="", progress=False), unbiased)
    grids = {name: trials.candidates(method, name) for name in names}
    at_rules = method
    for name in names:
        at_rules = changed(at_rules, name.split("."), None)
    tried: list[Tried] = []
    with bar("auto", sum(map(len, grids.values())), "trial", shown=training.progress) as shown:
        for name, values in grids.items():
            found = []
            for value in values:
                found.append(trials.judged(changed(at_rules, name.split("."), value), name, value))
                shown.advance()
            best = min(found, key=lambda one: one.score)
            if not np.isfinite(best.score):
                raise DivergedError(f'No value of {name} could be fitted; give a number instead of "auto".')
            at_rules = changed(at_rules, name.split("."), best.value)
            tried += [replace(one, chosen=one is best) for one in found]
    return at_rules, tried


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
    weights: dict[int, NDArray[np.float64]] = field(default_factory=dict)

    def candidates(self, method: Method, name: str) -> list[float]:
        multiples, role = GRIDS[name.split(".")[-1]]
        settled_role = by_rules(method.plan(), self.training.split(self.log, self.seed).facts).roles[role]
        usual = getattr(settled_role, name.split(".")[-1])
        values = [float(f"{multiple * usual:.4g}") for multiple in multiples]
        return list(dict.fromkeys(min(value, 1.0) for value in values)) if name.endswith("clip") else values

    def judged(self, method: Method, name: str, value: float) -> Tried:
        from unskew.methods.remembering import remembering  # which knows of methods

        losses = []
        for part in range(self.training.part, self.training.part + PARTS):
            training = replace(self.training, part=part)
            trial = remembering(method.alone, self.known)
            try:
                model = trial.fit(self.log, seed=self.seed, training=training, unbiased=self.unbiased)
            except DivergedError:
                return Tried(name, value, float("inf"), float("inf"))
            losses.append(self.losses(model, part))
        log_losses, pair_losses = zip(*losses, strict=True)
        return Tried(name, value, float(np.mean(log_losses)), float(np.mean(pair_losses)))

    def losses(self, model: Recommender, part: int) -> tuple[float, float]:
        """Log-loss and pairwise log-loss on what this fit held out."""
        held_out = model.holdout
        said = np.clip(model.predict_codes(held_out.users, held_out.items), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
        if part not in self.weights:
            self.weights[part] = self._weights(held_out)
        weight = self.weights[part]
        pairs = pairwise_log_loss(held_out.ratings, logit(said), held_out.users, sample_weight=weight)
        return log_loss(held_out.ratings, said, sample_weight=weight), 0.0 if np.isnan(pairs) else pairs

    def _weights(self, held_out: RatingLog) -> NDArray[np.float64]:
        if OF_JUDGE not in self.known:
            self.known[OF_JUDGE] = Factors().fit(self.log, seed=self.seed ^ OF_JUDGE, training=self.training)
        p = self.known[OF_JUDGE].pair(held_out.users, held_out.items)
        return np.asarray(1 / np.maximum(p, len(self.log) / self.log.n_pairs))
