"""How a fitted propensity weighs the seen pairs: what was clipped, and how many ratings the weights leave."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from unskew.group import Group
from unskew.training.loop import Trained
from unskew.training.view import View


@dataclass(frozen=True)
class Overlap:
    """Figures of the weights 1 / max(p, clip) on the training ratings, and of p over a sample of all pairs.

    Where p depends on the rating, weights do too; the clip and what it touched concern p whatever the rating.
    What concerns all pairs is None for propensities that are known of the seen pairs only.
    """

    base_rate: float
    mean_over_pairs: float | None
    spread_over_pairs: float | None
    smallest_seen: float
    clip: float
    clipped_seen: int
    clipped_share_of_seen: float
    clipped_share_of_pairs: float | None
    largest_weight: float
    effective_sample_size: float

    def __str__(self) -> str:
        over_pairs, clipped_pairs = f"known of seen pairs only (base rate {self.base_rate:.4f})", ""
        if self.mean_over_pairs is not None:
            over_pairs = f"mean {self.mean_over_pairs:.4f} over all pairs (base rate {self.base_rate:.4f})"
            over_pairs += f", spread {self.spread_over_pairs:.4f}"
            clipped_pairs = f" and {self.clipped_share_of_pairs:.1%} of all pairs"
        return (
            f"propensity: {over_pairs}; clip {self.clip:g} raised {self.clipped_seen:,} training ratings "
            f"({self.clipped_share_of_seen:.1%}){clipped_pairs}; "
            f"largest weight {self.largest_weight:.1f}, effective sample size {self.effective_sample_size:,.0f}"
        )


def overlap_of(trained: Trained, role: str = "propensity") -> Overlap:
    """Measured on the rows that were trained on and on the loop's own sample of pairs."""
    clip = trained.cast.clips[role]
    view = View(trained.cast, trained.feed.train, still=frozenset(trained.cast.players))
    answers = getattr(trained.cast.players[role], "answers_unseen", True)
    observed, pairs = view.observed, view.sampled.probability(role) if answers else None
    seen, group = observed.whatever_the_rating(role), trained.cast.group
    weight = (observed.inverse_propensity(role) if observed.is_tilted(role) else 1 / seen.clamp(min=clip)).double()
    sums = [len(seen), (seen < clip).sum().item(), weight.sum().item(), weight.square().sum().item()]
    n_seen, clipped, total, squares = group.total(sums).tolist()
    least, largest = (-group.largest(-seen.min().item())).item(), group.largest(weight.max().item()).item()
    mean, spread, clipped_pairs = (None, None, None) if pairs is None else _over_pairs(pairs.double(), clip, group)
    return Overlap(
        base_rate=trained.feed.facts.density,
        mean_over_pairs=mean,
        spread_over_pairs=spread,
        smallest_seen=least,
        clip=clip,
        clipped_seen=int(clipped),
        clipped_share_of_seen=clipped / n_seen,
        clipped_share_of_pairs=clipped_pairs,
        largest_weight=largest,
        effective_sample_size=total**2 / squares,
    )


def _over_pairs(pairs: Tensor, clip: float, group: Group) -> tuple[float, float, float]:
    """Mean and spread of propensities over sampled pairs, and the share of them below the clip."""
    n, total, clipped = group.total([len(pairs), pairs.sum().item(), (pairs < clip).sum().item()]).tolist()
    mean = total / n
    squares = group.total((pairs - mean).square().sum().item()).item()
    return mean, math.sqrt(squares / (n - 1)), clipped / n
