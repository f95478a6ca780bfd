"""A fit and what is found of it: on the test, over all pairs of a simulated world, of its propensity and imputation."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import unskew
from unskew.bench.records import Values
from unskew.bench.run import warm_up
from unskew.bench.search import Validation
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.datasets.world import World
from unskew.errors import whole
from unskew.evaluation import evaluate, positive_from
from unskew.methods.base import Method
from unskew.metrics.calibration import calibration_error
from unskew.metrics.ranking import EmptyUsers
from unskew.metrics.theory import bias, label_errors, theorem_2
from unskew.model import OnUnknown, Recommender
from unskew.store.model import fingerprint
from unskew.store.recipe import to_plain
from unskew.training.options import Training

WORLD_SETTINGS = {"n_users": 500, "n_items": 300, "density": 0.06, "strength": 1.0}  # of a simulated world
MOST_PAIRS, PAIRS_STREAM = 100_000, 0x70616972  # that a propensity is judged on


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """What is fitted and how it is measured; `world`, if the log is simulated, knows the truth over all pairs."""

    log: RatingLog
    test: RatingLog
    validation: Validation = field(default_factory=Validation)
    seeds: int = 10
    trials: int = 0  # of every method; 0 leaves settings as they are
    workers: int = 1
    empty_users: EmptyUsers = "skip"
    on_unknown: OnUnknown = "raise"
    world: World | None = None
    cutoffs: tuple[int, ...] = (5, 10)

    def __post_init__(self) -> None:
        for value, what in ((self.seeds, "seeds"), (self.workers, "workers"), (self.trials or 1, "trials")):
            whole(value, what, 1)

    @property
    def training(self) -> Training:
        return self.validation.training

    def fit_and_measure(self, method: Method, seed: int) -> Values:
        """Return seconds of the fit, the size of the model, and what is found of it."""
        warm_up()
        began = time.perf_counter()
        model = method.fit(self.log, seed=seed, training=replace(self.training, progress=False))
        seconds = round(time.perf_counter() - began, 3)
        figures, notes = self.measure(model)
        return {"seconds": seconds, "parameters": n_parameters(model), "test": figures, "notes": notes}

    def measure(self, model: Recommender) -> tuple[dict[str, float], list[str]]:
        """Return metrics on the test, how well propensity and imputation are calibrated, and in a world the truth."""

        def answers(users: Any, items: Any) -> Any:
            return model.predict(users, items, on_unknown=self.on_unknown)

        found = evaluate(answers, self.test, k=self.cutoffs, empty_users=self.empty_users)
        figures = dict(found.metrics)
        if "propensity" in model.parts and model.part("propensity").answers_unseen:
            n = self.log.n_users * self.log.n_items
            drawn = np.random.default_rng(PAIRS_STREAM).integers(n, size=MOST_PAIRS) if n > MOST_PAIRS else np.arange(n)
            users, items = np.divmod(drawn, self.log.n_items)
            seen, p_hat = SeenPairs(self.log)(users, items).astype(float), model.scores("propensity", users, items)
            figures["propensity_ece"] = calibration_error(seen, p_hat)
            figures["propensity_ece_mass"] = calibration_error(seen, p_hat, bins="mass")
            if self.world is not None:
                figures |= self._theory(model, users, items)
        if "imputation" in model.parts:
            users = self.log.user_ids.codes(self.test.user_ids.take(self.test.users))
            items = self.log.item_ids.codes(self.test.item_ids.take(self.test.items))
            known = (users >= 0) & (items >= 0)
            imputed = model.scores("imputation", users[known], items[known])
            figures["imputation_ece"] = calibration_error(self.test.ratings[known], imputed)
        if self.world is not None:
            figures["true_risk"] = self.world.risk(model.predict_codes)
        return figures, list(found.notes)

    def _theory(self, model: Recommender, users: Any, items: Any) -> dict[str, float]:
        """Return the exact bias of the model's own doubly robust risk, and what Theorem 2 allows in its true form."""
        assert self.world is not None
        p, q = self.world.propensity(users, items), self.world.preference(users, items)
        p_hat = np.maximum(model.scores("propensity", users, items), model.parts.clips["propensity"] or 0.0)
        e1, e0 = label_errors(np.clip(model.predict_codes(users, items), 0, 1))
        imputed = model.scores("imputation", users, items) if "imputation" in model.parts else None
        residual = q * e1 + (1 - q) * e0 if imputed is None else (q - imputed) * (e1 - e0)
        return {"bias": abs(bias(p, p_hat, residual)), "theorem_2": theorem_2(p, p_hat, residual).by_gap}

    def facts(self) -> dict[str, Any]:
        """Return all that figures depend on but method and seed."""
        return {
            "training": to_plain(self.training),
            "empty_users": self.empty_users,
            "cutoffs": list(self.cutoffs),
            "on_unknown": self.on_unknown,
            "log": fingerprint(self.log),
            "test": fingerprint(self.test),
            "world": None if self.world is None else repr(self.world),
        }

    def rules(self) -> list[str]:
        """Return by which rules figures are found, in words."""
        rule = {"skip": "are left out of", "one": "count as 1 in", "zero": "count as 0 in"}[self.empty_users]
        seeds, tuned = self.seeds, "Nothing was tuned: every method has the settings it was given."
        if self.trials:
            tuned = f"Tuned: {self.trials} trials for every method, the first as it is, by the log alone; then the "
            tuned += "test, once."
        return [
            f"unskew {unskew.__version__}. Learned from: {self.log!r}. Test: {self.test!r}.",
            f"Positive from a rating of {positive_from(self.test):g}; users without a positive test pair {rule} the "
            f"means over users. Fits with {'seed 0' if seeds == 1 else f'seeds 0 to {seeds - 1}'}, each of which holds "
            f"out {self.training.holdout:.0%} of the log for stopping and calibration.",
            tuned,
        ]


def n_parameters(model: Recommender) -> int:
    """Return how many real numbers the model holds, those of every role that helped it learn included."""
    held = (part.state() for part in model.parts.parts.values())
    return sum(array.size for arrays in held for array in arrays.values() if array.dtype.kind == "f")
