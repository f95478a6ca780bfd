"""What each seen pair stands for: propensities from whatever knows them, and a refusal where they cannot carry it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.estimation.calibrated import OfPairs, PlattMap, calibrated_to_seen
from unskew.estimation.holdout import Judging
from unskew.estimation.scores import Codes, Values, scores_of
from unskew.metrics.intervals import effective_sample_size
from unskew.model import Recommender
from unskew.propensity.base import FittedPropensity, Propensity
from unskew.propensity.counted import Known
from unskew.propensity.factors import Factors
from unskew.training.options import Training

Answer = tuple[Values, OfPairs | None]
Trouble = Literal["few", "out of reach", "too small"]

LEAST_COVERAGE, MOST_COVERAGE = 0.8, 1.25  # of all pairs, by the weights of the seen ones
LEAST_SAMPLE = 30.0  # effective ratings
NEVER = 1e-9  # a propensity that is as good as 0


@dataclass(frozen=True, eq=False)
class Weighing:
    """Propensities of the log's rows, each given its own rating where the model can tell, and of any pair.

    `pair` is None where only seen pairs are known. A propensity below `clip` counts as `clip`.
    """

    seen: Values
    pair: OfPairs | None
    n_pairs: int
    clip: float = 0.0
    platt: PlattMap = field(default_factory=PlattMap)  # by which they were calibrated here

    @property
    def weights(self) -> Values:
        return 1 / np.maximum(self.seen, self.clip)

    @property
    def n_clipped(self) -> int:
        return int((self.seen < self.clip).sum())

    @property
    def coverage(self) -> tuple[float, float]:
        """The share of all pairs that the seen ones stand for, (1/|D|) sum_O 1/p, and its standard error.

        Its expectation is the share of pairs that can be seen at all: 1 if there is overlap and the propensities are
        right, less if some pairs are out of reach, anything if the level of the propensities is wrong.
        """
        w = self.weights
        return float(w.sum() / self.n_pairs), float(np.sqrt((w * (w - 1)).sum()) / self.n_pairs)

    def of_pairs(self, users: Codes, items: Codes) -> Values:
        """1/p of any pairs."""
        if self.pair is None:
            raise DataError("These propensities are known of seen pairs only, and tdr needs those of all pairs.")
        p = np.maximum(self.pair(users, items), self.clip)
        if never := int((p < NEVER).sum()):
            raise DataError(
                f"{never:,} of {len(p):,} pairs of the catalogue have propensity 0 (such as pairs of items nobody "
                "rated), so tdr cannot weigh them; leave tdr out, or set a clip."
            )
        return 1 / p

    @property
    def trouble(self) -> Trouble | None:
        """Why these weights cannot speak for all pairs, None if they can."""
        share, error = self.coverage
        if effective_sample_size(self.weights) < min(LEAST_SAMPLE, len(self.seen) / 2):
            return "few"
        if share + 2 * error < LEAST_COVERAGE:
            return "out of reach"
        return "too small" if share - 2 * error > MOST_COVERAGE else None

    def refuse_trouble(self) -> None:
        """A DataError with one sentence if these weights cannot speak for all pairs."""
        share, w = self.coverage[0], self.weights
        if self.trouble == "few":
            raise DataError(
                f"Overlap fails: the weights 1/p leave an effective sample of {effective_sample_size(w):.1f} of "
                f"{len(w):,} ratings (the largest is {w.max() / w.sum():.0%} of their sum); set a clip, and say so."
            )
        if self.trouble == "out of reach":
            raise DataError(
                f"Overlap fails: the seen pairs, weighted by 1/p, stand for {share:.0%} of all pairs only, so the rest "
                "are out of reach or the propensities too large; evaluate on users and items that could be seen, or "
                "collect random ratings."
            )
        if self.trouble == "too small":
            raise DataError(
                f"The weights 1/p add up to {share:.3g} times the number of pairs, so the propensities are too small; "
                "calibrate them, or pass share= if the log is only a part of what was seen."
            )


def weighing_of(
    propensity: Any,
    judging: Judging,
    *,
    clip: float = 0.0,
    calibrate: bool = True,
    seed: int = 0,
    training: Training | None = None,
) -> Weighing:
    """Propensities of the judging log's pairs: from a recipe, a fitted one, a model, a function or a column.

    A recipe is fitted on the whole log and, with `calibrate`, calibrated to it, unless it is given knowledge (`Known`)
    or knows ratings. A function takes external ids (users, items), a column holds one value a row.
    """
    log, whole, share = judging
    if not 0 < share <= 1:
        raise ParameterError(f"share must lie above 0 and be at most 1, not {share!r}.")
    if not 0 <= clip <= 1:
        raise ParameterError(f"clip must lie between 0 and 1, not {clip!r}.")
    if isinstance(propensity, (Propensity, type(None))):
        if whole is log and share != 1:
            raise ParameterError("share is for propensities that are given; a recipe is fitted on the log itself.")
        recipe = propensity or Factors()
        propensity = recipe.fit(whole, seed=seed, training=training)
        calibrate = calibrate and not isinstance(recipe, Known)
    else:
        calibrate = False
    platt = PlattMap()
    if isinstance(propensity, Recommender):
        seen, pair = _of_model(propensity, log)
    elif isinstance(propensity, FittedPropensity):
        seen, pair = _of_fitted(propensity, log)
        if calibrate and pair is not None and not propensity.knows_ratings:
            platt = calibrated_to_seen(pair, whole, seed=seed)
            seen, pair = platt(seen), platt.after(pair)
    else:
        said = scores_of(propensity, whole, "the propensity", "propensity")
        seen, pair = said(log.users, log.items), said if said.complete else None
    _check(seen)
    return Weighing(share * seen, None if pair is None else _scaled(pair, share), log.n_pairs, clip, platt)


def _scaled(pair: OfPairs, share: float) -> OfPairs:
    return lambda users, items: share * pair(users, items)


def _of_fitted(fitted: FittedPropensity, log: RatingLog) -> Answer:
    seen = fitted.given_rating(log.users, log.items, log.ratings)
    return np.asarray(seen, np.float64), fitted.pair if fitted.answers_unseen else None


def _of_model(model: Recommender, log: RatingLog) -> Answer:
    users, items = model.log.user_ids.codes(log.user_ids.arrow), model.log.item_ids.codes(log.item_ids.arrow)
    if (users < 0).any() or (items < 0).any():
        raise DataError("The model does not know all users and items of the log; pass another propensity.")
    seen = model.scores("propensity", users[log.users], items[log.items], log.ratings)
    if not model.part("propensity").answers_unseen:
        return seen, None
    return seen, lambda u, i: model.scores("propensity", users[u], items[i])


def _check(p: NDArray[np.float64]) -> None:
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"The propensity of rating {row + 1} is {p[row]:g} ({int(bad.sum())} such ratings); that of a seen pair "
            "must lie above 0 and be at most 1."
        )
