"""The last stage: chosen recipes fitted on the whole log, for every seed, and then asked the test set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from unskew.bench.jobs import Job, Outcome, Runner
from unskew.bench.measure import measured_fit
from unskew.bench.records import Records, Values
from unskew.data.log import RatingLog
from unskew.data.world import World
from unskew.evaluation import Evaluation, evaluate
from unskew.files.logs import fingerprint
from unskew.methods.base import Method
from unskew.metrics.ranking import EmptyUsers
from unskew.metrics.table import log_loss
from unskew.model import OnUnknown, Recommender
from unskew.recipe import to_plain
from unskew.training.options import Training


@dataclass(frozen=True, eq=False, kw_only=True)
class Exam:
    """What fitted models are asked. `world`, if the log is simulated, tells the true risk over all pairs as well.

    `cutoffs` are the lengths of lists that ranking metrics look at.
    """

    log: RatingLog
    test: RatingLog
    training: Training
    empty_users: EmptyUsers = "skip"
    on_unknown: OnUnknown = "raise"
    world: World | None = None
    cutoffs: tuple[int, ...] = (5, 10)

    def sat(self, method: Method, seed: int) -> Values:
        """A fit, what it cost and its marks."""
        model, costs = measured_fit(method, self.log, seed, self.training)
        return costs | self.marks(model)

    def marks(self, model: Recommender) -> Values:
        """Those of validation and those of the test apart."""
        found = self._evaluated(model)
        truth = {} if self.world is None else {"true_risk": self.world.risk(model.predict_codes)}
        apart = {"validation": self._validated(model), "test": found.metrics | truth}
        return apart | {"notes": list(found.notes)}

    def _validated(self, model: Recommender) -> Values:
        """On the ratings that this fit held out, by which it stopped: a little too good, for all methods alike."""
        own = model.history.risk("prediction")
        return {"log_loss": _own_loss(model)} | ({"own_risk": own} if math.isfinite(own) else {})

    def _evaluated(self, model: Recommender) -> Evaluation:
        def answers(users: Any, items: Any) -> Any:
            return model.predict(users, items, on_unknown=self.on_unknown)

        return evaluate(answers, self.test, k=self.cutoffs, empty_users=self.empty_users)

    def facts(self) -> dict[str, Any]:
        """All that marks depend on beside method and seed."""
        return {
            "training": to_plain(self.training),
            "empty_users": self.empty_users,
            "cutoffs": list(self.cutoffs),
            "on_unknown": self.on_unknown,
            "log": fingerprint(self.log),
            "test": fingerprint(self.test),
            "world": None if self.world is None else repr(self.world),
        }


def _own_loss(fit: Recommender) -> float:
    held_out = fit.holdout
    return log_loss(held_out.ratings, fit.predict_codes(held_out.users, held_out.items))


def examine(
    exam: Exam, methods: Mapping[str, Method], seeds: int, facts: Mapping[str, Any], records: Records, workers: int
) -> Outcome:
    """Fit every method for every seed; `facts`, such as the criterion they were chosen by, go into the records."""
    known = exam.facts() | dict(facts)
    jobs = [
        Job(
            key(name, seed),
            {"method": to_plain(method), "seed": seed} | known,
            partial(_sat, method=method, seed=seed),
        )
        for seed in range(seeds)
        for name, method in methods.items()
    ]
    with Runner(records, len(jobs), workers, exam, "fit") as runner:
        return runner.run(jobs)


def _sat(exam: Exam, *, method: Method, seed: int) -> Values:
    return exam.sat(method, seed)


def key(method: str, seed: int) -> str:
    return f"fit/{method}/{seed}"
