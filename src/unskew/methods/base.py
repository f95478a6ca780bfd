"""What a method is: settings that turn into a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

from unskew.calibration.base import Calibrates
from unskew.calibration.report import report_of
from unskew.data.log import RatingLog
from unskew.data.room import within_memory
from unskew.data.split import Split
from unskew.group import ALONE
from unskew.methods.auto import settled
from unskew.methods.features import decided
from unskew.methods.space import CLIP, L2, Space, net_space
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.overlap import overlap_of
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.recommender import Recommender
from unskew.risk.errors import ERRORS
from unskew.seeds import checked_seed
from unskew.training.checks import check_auto, check_choice, check_number
from unskew.training.compiling import announced
from unskew.training.loop import Trained, train
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Role, Stage
from unskew.training.view import ErrorFunction, View
from unskew.unbiased.inform import informed
from unskew.unbiased.sample import sample_of

Setting = float | Literal["auto"] | None  # a number, a search, or the rule for this log


def number_or_rule(setting: Setting) -> float | None:
    """What a plan is told: a setting that is still to be searched for stands at its rule."""
    return None if setting == "auto" else setting


class Method(ABC):
    """A recipe: settings only, never changed by `fit`. Two methods with equal settings are equal."""

    @abstractmethod
    def plan(self) -> Plan:
        """Who learns what from which rows, in which order."""

    def space(self) -> Space:
        """Which settings a search tries, and where; nothing if there is nothing to tune."""
        return {}

    @property
    def alone(self) -> Method:
        """What is fitted once: of an ensemble, the method of its members."""
        return self

    def fit(
        self,
        log: RatingLog,
        *,
        seed: int = 0,
        training: Training | None = None,
        unbiased: RatingLog | None = None,
    ) -> Recommender:
        """Train on a log; `unbiased` is a slice of randomly collected ratings, see docs/slice.md.

        With `training.spread` the first worker gets the whole model, and every other one the model of its own users;
        of a slice only the first one's answers are corrected.
        """
        seed, training = checked_seed(seed), training or Training()
        with within_memory("The fit", "lower n_factors, pairs_per_row or batch_size"):
            method, tried = settled(self, log, seed=seed, training=training, unbiased=unbiased)
            model = method.fit_settled(log, seed=seed, training=training, unbiased=unbiased)
        model.history.tried.extend(tried)
        return model

    def fit_settled(
        self, log: RatingLog, *, seed: int, training: Training, unbiased: RatingLog | None = None
    ) -> Recommender:
        """`fit` with nothing left to be searched for."""
        known = None if unbiased is None else sample_of(log, unbiased).log
        method, notes = decided(self, log, seed=seed, training=training)
        model = method.fit_plan(method.plan(), log, seed=seed, training=training, unbiased=known)
        model.history.notes.extend(notes)
        return model if unbiased is None or training.group.rank else informed(model, unbiased, in_training=True)

    def fit_plan(
        self, plan: Plan, log: RatingLog, *, seed: int, training: Training, unbiased: RatingLog | None = None
    ) -> Recommender:
        """Carry out a plan of this method."""
        split = training.split(log, seed).spread(training.group)
        with announced(training.progress):
            trained = train(plan, split, seed=training.seed_of_member(seed), training=training, unbiased=unbiased)
        overlap = overlap_of(trained) if "propensity" in trained.cast.players else None
        calibrators = {name: role.net for name, role in plan.roles.items() if isinstance(role.net, Calibrates)}
        report = report_of(View(trained.cast, trained.feed.holdout), calibrators) if calibrators else None
        if not split.group.alone:
            log = gathered(trained, split, log)
        cast = replace(trained.cast, group=ALONE)
        return Recommender(self, log, cast, trained.history, seed, overlap, report, training)


def gathered(trained: Trained, split: Split, log: RatingLog) -> RatingLog:
    """Let the first worker's roles know everybody; the log of those that each worker's roles know."""
    for player in trained.cast.players.values():
        if hasattr(player, "gather"):
            player.gather(split.group)
    return log if split.group.rank == 0 else split.log


@dataclass(frozen=True, kw_only=True)
class NetMethod(Method):
    """A method made of nets of one architecture.

    `net` is that architecture, `learning_rate` the step of Adam, `l2` the weight of l2/2 |row|^2 a reading, `error`
    the error that is minimised: "log" (cross-entropy) or "squared". `l2=None` is what is usual for a log of this size
    and spread (`training.rules`), "auto" is searched on the hold-out (`methods.auto`).
    """

    net: NetRecipe = field(default_factory=MF)
    learning_rate: float = 0.01
    l2: Setting = None
    error: Literal["log", "squared"] = "log"

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", above=0)
        check_auto(self, "l2", least=0)
        check_choice(self, "error", ERRORS)

    @property
    def error_function(self) -> ErrorFunction:
        return ERRORS[self.error]

    def space(self) -> Space:
        return {"l2": L2, **net_space(self.net)}

    def learner(self) -> Role:
        """A role played by a fresh net of this method's architecture."""
        return Role(self.net, learning_rate=self.learning_rate, l2=number_or_rule(self.l2))


@dataclass(frozen=True, kw_only=True)
class PropensityMethod(NetMethod):
    """A method that weights seen pairs by 1 / max(p, clip).

    `clip=None` is the log's own density |O|/|D|: then no rating stands for more pairs than an average one does; "auto"
    is searched on the hold-out (`methods.auto`). What is clipped is counted and reported in `model.overlap`. A
    propensity that depends on the rating is clipped before the rating is taken into account.
    """

    propensity: Propensity = field(default_factory=Factors)
    clip: Setting = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_auto(self, "clip", least=0, most=1)

    def space(self) -> Space:
        return super().space() | {"clip": CLIP}

    def propensity_role(self) -> Role:
        return Role(self.propensity, clip=number_or_rule(self.clip))

    def propensity_stage(self) -> Stage:
        return Stage("propensity", fits=(Fit("propensity"),))
