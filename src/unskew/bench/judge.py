"""Who judges trials: held-out folds of the log, under propensities that no method trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unskew.bench.measure import measured_fit, quiet
from unskew.bench.records import Values
from unskew.data.log import RatingLog
from unskew.data.split import Split, folds
from unskew.errors import ParameterError, UnskewError, checked_seed
from unskew.methods.base import Method
from unskew.methods.settings import with_chosen
from unskew.metrics.checks import require_choice, require_count
from unskew.metrics.ranking import POSITIVE_FROM
from unskew.metrics.table import log_loss, roc_auc
from unskew.propensity.factors import Factors
from unskew.training.options import Training

Criterion = Literal["weighted_log_loss", "log_loss", "auc"]
OF_JUDGES = 1000  # where the seeds of the judges' own propensities begin, apart from those of fits


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How a trial is judged.

    The log is cut into `folds` random folds by `seed`. A trial is fitted on all but one of them and judged on that
    one, for each of the first `judges` folds, and its score is the mean. By default it is the self-normalised
    propensity-weighted log-loss sum_H e/p / sum_H 1/p over the held-out fold H, p = max(propensity, density): the
    propensity is `Factors()`, cross-fitted on the trial's training part alone and the same for all methods.
    "log_loss" and "auc" are those of the fold as it is.
    """

    criterion: Criterion = "weighted_log_loss"
    folds: int = 10
    judges: int = 5
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        require_choice(self.criterion, "criterion", get_args(Criterion))
        require_count(self.judges, "judges")
        object.__setattr__(self, "seed", checked_seed(self.seed))
        if self.folds < 2:
            raise ParameterError(f"There must be at least 2 folds, not {self.folds}.")
        if self.judges > self.folds:
            raise ParameterError(f"There cannot be {self.judges} judges of {self.folds} folds: give as many or fewer.")

    @property
    def higher_is_better(self) -> bool:
        return self.criterion == "auc"

    def score(self, verdicts: list[Values]) -> float:
        """Of a trial by what its judges say."""
        return float(np.mean([verdict["validation"][self.criterion] for verdict in verdicts]))


class Judge:
    """One fold: trials are fitted on the rest of the log and judged on the fold."""

    def __init__(self, number: int, split: Split, judging: Judging) -> None:
        self.number, self.judging = number, judging
        self.train, self.held_out = split.train, split.holdout

    def verdict(self, method: Method, chosen: Mapping[str, Any]) -> Values:
        """The metrics on the fold of the method with what was chosen from its space, or why it could not be fitted."""
        tried = with_chosen(method, method.space(), chosen, self.train)
        try:
            model, costs = measured_fit(tried, self.train, self.number, self.judging.training)
        except UnskewError as error:
            return {"failure": str(error)}
        said = model.predict_codes(self.held_out.users, self.held_out.items)
        return costs | {"validation": self.metrics(said)}

    def metrics(self, said: NDArray[np.float64]) -> Mapping[str, float]:
        ratings, positive = self.held_out.ratings, self.held_out.ratings >= POSITIVE_FROM
        found = {"log_loss": log_loss(ratings, said)}
        if self.judging.criterion == "auc" or (positive.any() and not positive.all()):
            found["auc"] = roc_auc(positive, said)
        if self.judging.criterion == "weighted_log_loss":
            found["weighted_log_loss"] = log_loss(ratings, said, sample_weight=self.weights)
        return found

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """1 / max(p, density) of the held-out ratings, under a propensity that knows the training part alone."""
        fitted = Factors().fit(self.train, seed=OF_JUDGES + self.number, training=quiet(self.judging.training))
        p = fitted.pair(self.held_out.users, self.held_out.items)
        return np.asarray(1 / np.maximum(p, len(self.train) / self.train.n_pairs))


class Panel:
    """All judges of a log, each made when it is first asked."""

    def __init__(self, log: RatingLog, judging: Judging) -> None:
        self.log, self.judging = log, judging
        self._judges: dict[int, Judge] = {}

    def judge(self, number: int) -> Judge:
        if number not in self._judges:
            self._judges[number] = Judge(number, self._splits[number], self.judging)
        return self._judges[number]

    @cached_property
    def _splits(self) -> tuple[Split, ...]:
        return folds(self.log, self.judging.folds, seed=self.judging.seed)
