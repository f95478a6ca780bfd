"""What a method is: settings that turn into a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.calibration.base import Calibrates
from unskew.calibration.report import report_of
from unskew.data.log import RatingLog
from unskew.data.room import within_memory
from unskew.gone import called_otherwise
from unskew.methods.space import CLIP, L2, Space, net_space
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.overlap import overlap_of
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.recommender import Recommender
from unskew.risk.errors import ERRORS
from unskew.seeds import checked_seed
from unskew.selection.random_ratings import in_codes
from unskew.training.checks import check_choice, check_number, check_rule
from unskew.training.compiling import announced
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Role, Stage
from unskew.training.view import ErrorFunction, View


class Method(ABC):
    """A recipe: settings only, never changed by `fit`. Two methods with equal settings are equal."""

    @abstractmethod
    def plan(self) -> Plan:
        """Who learns what from which rows, in which order."""

    def space(self) -> Space:
        """Which settings a search tries, and where; nothing if there is nothing to tune."""
        return {}

    @property
    def reads_features(self) -> bool:
        """Whether some part of the method reads what a log knows of its users and items."""
        return any(_reads_features(role.net) for role in self.plan().roles.values())

    def fit(
        self,
        log: RatingLog,
        *,
        seed: int = 0,
        training: Training | None = None,
        random_ratings: RatingLog | None = None,
        unbiased: RatingLog | None = None,
    ) -> Recommender:
        """Train on a log; `random_ratings` are of random pairs (docs/slice.md), and were called `unbiased`."""
        random_ratings = called_otherwise(random_ratings, unbiased=unbiased)
        seed, training = checked_seed(seed), training or Training()
        with within_memory("The fit", "lower n_factors, pairs_per_row or batch_size"):
            known = None if random_ratings is None else in_codes(log, random_ratings)[0]
            model = self.fit_plan(self.plan(), log, seed=seed, training=training, random_ratings=known)
        if log.features != (None, None) and not self.reads_features:
            model.history.notes.append("The log has features, and no part of this method reads them.")
        return model if random_ratings is None else model.with_random_ratings(random_ratings)

    def fit_plan(
        self, plan: Plan, log: RatingLog, *, seed: int, training: Training, random_ratings: RatingLog | None = None
    ) -> Recommender:
        """Carry out a plan of this method."""
        split = training.split(log, seed)
        with announced(training.progress):
            trained = train(plan, split, seed=seed, training=training, random_ratings=random_ratings)
        overlap = overlap_of(trained) if "propensity" in trained.cast.players else None
        calibrators = {name: role.net for name, role in plan.roles.items() if isinstance(role.net, Calibrates)}
        report = report_of(View(trained.cast, trained.feed.holdout), calibrators) if calibrators else None
        return Recommender(self, log, trained.cast, trained.history, seed, overlap, report, training)


def _reads_features(part: Any) -> bool:
    """A part that does, or one over a base that does."""
    base = getattr(part, "base", None)
    return getattr(part, "reads_features", False) or (base is not None and _reads_features(base))


@dataclass(frozen=True, kw_only=True)
class NetMethod(Method):
    """A method made of nets of one architecture.

    `net` is that architecture, `learning_rate` the step of Adam, `l2` the weight of l2/2 |row|^2 a reading, `error`
    the error that is minimised: "log" (cross-entropy) or "squared". `l2=None` is what is usual for a log of this size
    and spread (`training.rules`).
    """

    net: NetRecipe = field(default_factory=MF)
    learning_rate: float = 0.01
    l2: float | None = None
    error: Literal["log", "squared"] = "log"

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", above=0)
        check_rule(self, "l2", least=0)
        check_choice(self, "error", ERRORS)

    @property
    def error_function(self) -> ErrorFunction:
        return ERRORS[self.error]

    def space(self) -> Space:
        return {"l2": L2, **net_space(self.net)}

    def learner(self) -> Role:
        """A role played by a fresh net of this method's architecture."""
        return Role(self.net, learning_rate=self.learning_rate, l2=self.l2)


@dataclass(frozen=True, kw_only=True)
class PropensityMethod(NetMethod):
    """A method that weights seen pairs by 1 / max(p, clip).

    `clip=None` is the log's own density |O|/|D|: then no rating stands for more pairs than an average one does.
    What is clipped is counted and reported in `model.overlap`. A
    propensity that depends on the rating is clipped before the rating is taken into account.
    """

    propensity: Propensity = field(default_factory=Factors)
    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rule(self, "clip", least=0, most=1)

    def space(self) -> Space:
        return super().space() | {"clip": CLIP}

    def propensity_role(self) -> Role:
        return Role(self.propensity, clip=self.clip)

    def propensity_stage(self) -> Stage:
        return Stage("propensity", fits=(Fit("propensity"),))
