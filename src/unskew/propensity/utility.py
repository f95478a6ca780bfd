"""A propensity that depends on the rating itself, learned from the log alone: selection on utility."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import ParameterError
from unskew.group import Group
from unskew.nets.base import Net, NetRecipe
from unskew.nets.factors import MF
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values
from unskew.propensity.factors import Factors
from unskew.training.checks import check_number
from unskew.training.history import History
from unskew.training.options import Training
from unskew.training.plan import Role
from unskew.utility.crossfit import CrossFitted, cross_fit
from unskew.utility.estimate import estimate
from unskew.utility.selection import Selection

FEWEST_PER_FOLD = 10  # ratings; below, nothing can be learned about selection
FOLDS = ((20_000, 20), (200_000, 10))  # ratings up to which so many folds are worth their time; 5 beyond
SMALL_LOG = 20_000  # ratings up to which chance in dealing them matters, and they are dealt twice
LARGE_LOG, LARGE_PATIENCE = 500_000, 2  # ratings beyond which a fold's risk is so sure that so few epochs tell its best


class FittedUtility(FittedPropensity):
    """P(seen) of the base propensity, and P(seen given the rating) by selection on utility.

    A rating multiplies the *rate* at which a pair is seen by P(r | seen) / P(r), which the closed forms give from
    the calibrated, out-of-fold score of the pair. Without evidence this is the base, to the bit. `selection` holds
    what was found; its main figures can be read here too.
    """

    stored = ("base", "nets", "seed", "n_repeats", "selection")
    holds: ClassVar[dict[str, type]] = {"selection": Selection}

    def __init__(
        self,
        base: FittedPropensity,
        nets: list[Net],
        seed: int,
        n_repeats: int,
        selection: Selection,
        history: History | None = None,
    ) -> None:
        self.base, self.nets, self.seed, self.n_repeats = base, nets, seed, n_repeats
        self.selection, self.history = selection, history
        self.cross_fitted = CrossFitted(nets, seed, n_repeats)
        self.notes = (*base.notes, *selection.notes, *(history.notes if history else ()))
        self.answers_unseen = base.answers_unseen

    def pair(self, users: Codes, items: Codes) -> Values:
        return self.base.pair(users, items)

    def given_rating(self, users: Codes, items: Codes, ratings: ArrayLike) -> Values:
        """1 - exp(-rate of the pair * P(r | seen) / P(r))."""
        p = self.pair(users, items)
        if not self.knows_ratings:
            return p
        ratio = self.selection.ratio(self.score(users, items), ratings, users)
        with np.errstate(divide="ignore"):  # a pair that is certainly seen is seen whatever its rating
            return np.asarray(-np.expm1(np.log1p(-p) * ratio))

    def score(self, users: Codes, items: Codes) -> Values:
        """The calibrated logit of a positive rating given that the pair is seen, read out of fold."""
        return self.selection.score(self.cross_fitted.mean_parts(users, items))

    def population(self, logits: ArrayLike, users: Codes | None = None) -> Values:
        """What is said when seen, mapped to what holds for all: logits in, logits out, the order unchanged."""
        return self.selection.population(logits, users)

    def calibrated(self, logits: Tensor, users: Tensor, _: object = None) -> Tensor:
        """The same in the part of a calibrator: probabilities, by raw logits of seen pairs."""
        if not self.slope:
            return torch.sigmoid(logits)
        mapped = self.population(logits.double().numpy(), users.numpy())
        return torch.from_numpy(expit(mapped).astype(np.float32))

    @property
    def knows_ratings(self) -> bool:
        return bool(self.slope)

    @property
    def slope(self) -> float:
        """How strongly liking drives seeing: 0 without evidence."""
        return self.selection.slope

    @property
    def interval(self) -> tuple[float, float]:
        """95% for the slope of both traces, or that of interactions where they disagree, used or not."""
        return self.selection.interval

    @property
    def gain(self) -> float:
        """Of log-likelihood over slope 0."""
        return self.selection.gain

    @property
    def item_slope(self) -> float:
        """The independent estimate, from item counts."""
        return self.selection.numbers.item_slope

    @property
    def agreement(self) -> float:
        """By how many standard errors the slope exceeds that from item counts; within 1.96 they agree."""
        return self.selection.agreement

    @property
    def calibration(self) -> dict[str, tuple[float, float]]:
        """What user effects, item effects and interactions had to be multiplied by out of fold, and standard errors."""
        n = self.selection.numbers
        return {
            "user": (n.user_calibration, n.user_calibration_error),
            "item": (n.item_calibration, n.item_calibration_error),
            "interaction": (n.interaction_calibration, n.interaction_calibration_error),
        }

    @property
    def verdict(self) -> str:
        """In words: evidence, none, the two traces disagree, or a net without interactions."""
        return self.selection.verdict

    def joined_by(self, counts: NDArray[np.int64]) -> FittedUtility:
        nets = [net.joined_by(counts) for net in self.nets]
        selection = self.selection.joined_by(len(counts))
        return FittedUtility(self.base.joined_by(counts), nets, self.seed, self.n_repeats, selection, self.history)

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        return self.base.vectors(users)

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        return self.base(users, items)


@dataclass(frozen=True, kw_only=True)
class Utility(Propensity):
    """Selection on utility: people see and rate what they like, whatever the reason (docs/utility.md).

    Each pair has a utility z + e, explained and not; it is liked if that is above 0 and seen at a rate proportional to
    exp(slope (z + unexplained e)). The slope is estimated from the log alone: `n_folds` naive nets (`net`,
    `learning_rate`, `l2`) are read out of fold and calibrated, and the slope is the one under which the seen pairs
    are most likely given how many each user and each item has. `base` says how likely a pair is seen whatever its
    rating; without evidence for a slope it is all there is, to the bit.

    `unexplained` (k) is an assumption that no log can test: how much unexplained liking counts beside explained. A
    slice of random ratings, `fit(log, unbiased=...)`, estimates it. `largest_pairs` is the number of pairs up to which
    all of them are looked at, and beyond which so many are sampled. `n_folds=None` is 20, 10 or 5, fewer for larger
    logs, and `n_repeats=None` deals the pairs of a small log into folds twice, so that less depends on how they fall.
    In logs of more than 500,000 ratings nets stop two epochs after their best, whatever `training` says beyond that.
    `n_experts` above 1 lets so many kinds of users have slopes of their own, shrunk to the common one.
    """

    fitted = FittedUtility

    base: Propensity = field(default_factory=Factors)
    unexplained: float = 1.0
    net: NetRecipe = field(default_factory=lambda: MF(spread=0.1))
    learning_rate: float = 0.03
    l2: float = 0.08
    n_folds: int | None = None
    n_repeats: int | None = None
    n_experts: int = 1
    largest_pairs: int = 1 << 22

    def __post_init__(self) -> None:
        check_number(self, "unexplained", least=0)
        check_number(self, "learning_rate", above=0)
        check_number(self, "l2", least=0)
        check_number(self, "largest_pairs", least=1)
        check_number(self, "n_experts", least=1)
        if self.n_folds is not None:
            check_number(self, "n_folds", least=2)
        if self.n_repeats is not None:
            check_number(self, "n_repeats", least=1)

    def fit_split(self, split: Split, *, seed: int, training: Training, unbiased: RatingLog | None) -> FittedUtility:
        self.check_alone(split.group)
        log = split.log
        base = self.base.fit_split(split, seed=seed, training=training.inside("base"), unbiased=unbiased)
        if base.knows_ratings:
            name = type(self.base).__name__
            raise ParameterError(f"The base of Utility must not depend on the rating, as {name} does; use Factors().")
        n_folds = self.n_folds_for(len(log))
        if len(log) < FEWEST_PER_FOLD * n_folds or log.ratings.min() == log.ratings.max():
            return FittedUtility(base, [], seed, 1, Selection.nothing(self.unexplained))
        role, n_repeats = Role(self.net, learning_rate=self.learning_rate, l2=self.l2), self.n_repeats_for(len(log))
        patient = replace(training, patience=self.patience_for(len(log), training.patience))
        fitted, history = cross_fit(role, log, n_folds, n_repeats, seed=seed, training=patient)
        if patient.patience < training.patience:
            history.notes.append(
                f"Nets that tell of the slope stopped {patient.patience} epochs after their best instead of "
                f"{training.patience}, as in every log above {LARGE_LOG:,} ratings."
            )
        return FittedUtility(base, fitted.nets, seed, n_repeats, self.estimate(fitted, log, unbiased), history)

    def check_alone(self, group: Group) -> None:
        """Refuse several workers: pairs of one item are compared across all users."""
        if not group.alone:
            raise ParameterError(
                "Selection on utility is not estimated by several workers: fit in one process, or use Factors()."
            )

    def refitted(self, known: FittedUtility, log: RatingLog) -> FittedUtility:
        """A fit of before under this recipe's assumption: nets and base stay, the selection is estimated again."""
        nothing = Selection.nothing(self.unexplained)
        found = self.estimate(known.cross_fitted, log) if known.nets else nothing
        return FittedUtility(known.base, known.nets, known.seed, known.n_repeats, found, known.history)

    def estimate(self, fitted: CrossFitted, log: RatingLog, unbiased: RatingLog | None = None) -> Selection:
        """The selection that nets trained before give evidence of."""
        return estimate(
            fitted,
            log,
            unexplained=self.unexplained,
            largest=self.largest_pairs,
            n_experts=self.n_experts,
            unbiased=unbiased,
        )

    def n_folds_for(self, n_ratings: int) -> int:
        """More folds where ratings are few: there a net that misses a twentieth knows more than one missing a fifth."""
        if self.n_folds is not None:
            return self.n_folds
        return next((folds for most, folds in FOLDS if n_ratings <= most), 5)

    def n_repeats_for(self, n_ratings: int) -> int:
        return self.n_repeats or (2 if n_ratings <= SMALL_LOG else 1)

    @staticmethod
    def patience_for(n_ratings: int, asked: int) -> int:
        """Epochs without a lower risk after which a net stops: what is asked for, in a large log at most 2."""
        return min(asked, LARGE_PATIENCE) if n_ratings > LARGE_LOG else asked


@dataclass(frozen=True, eq=False)
class Refitted(Propensity):
    """A utility propensity whose nets and base are known: only what depends on its assumptions is estimated again."""

    recipe: Utility
    known: FittedUtility

    def fit_split(self, split: Split, *, seed: int, training: Training, unbiased: RatingLog | None) -> FittedUtility:
        return self.recipe.refitted(self.known, split.log)
