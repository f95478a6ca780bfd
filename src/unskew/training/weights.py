"""How a fitted propensity weighs the seen pairs: what was clipped, and how many ratings the weights leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.losses.columns import value_of
from unskew.training.loop import Loop


@dataclass(frozen=True)
class WeightReport:
    """Figures of the weights 1 / max(p, clip) on the training ratings, and of p over a sample of all pairs.

    Where p depends on the rating, weights do too; the clip and what it touched concern p whatever the rating.
    What concerns all pairs is None for propensities that are known of the seen pairs only.
    """

    base_rate: float
    mean_over_pairs: float | None
    std_over_pairs: float | None
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
            over_pairs += f", standard deviation {self.std_over_pairs:.4f}"
            clipped_pairs = f" and {self.clipped_share_of_pairs:.1%} of all pairs"
        return (
            f"propensity: {over_pairs}; clip {self.clip:g} raised {self.clipped_seen:,} training ratings "
            f"({self.clipped_share_of_seen:.1%}){clipped_pairs}; "
            f"largest weight {self.largest_weight:.1f}, effective sample size {self.effective_sample_size:,.0f}"
        )


def weights_of(trained: Loop) -> WeightReport:
    """Measure on the rows that were trained on and on the loop's own sample of pairs."""
    role, view = "propensity", trained.view(trained.feed.train)
    clip = trained.parts.clips[role]
    seen, weight = value_of(view.observed.probability(role)), view.observed.inverse_propensity(role).astype(np.float64)
    pairs = None
    if trained.parts[role].answers_unseen:
        pairs = value_of(view.sampled.probability(role)).astype(np.float64)
    return WeightReport(
        base_rate=trained.feed.split.density,
        mean_over_pairs=None if pairs is None else float(pairs.mean()),
        std_over_pairs=None if pairs is None else float(pairs.std(ddof=1)),
        smallest_seen=float(seen.min()),
        clip=clip,
        clipped_seen=int((seen < clip).sum()),
        clipped_share_of_seen=float((seen < clip).mean()),
        clipped_share_of_pairs=None if pairs is None else float((pairs < clip).mean()),
        largest_weight=float(weight.max()),
        effective_sample_size=float(weight.sum() ** 2 / (weight * weight).sum()),
    )
