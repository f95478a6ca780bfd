"""What is said of seen pairs, put right for all: lines learned from random ratings, and an assumption about odds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from unskew.unbiased.family import BINARY, Family, Values
from unskew.unbiased.lines import Codes, Lines

OF_RATINGS = ("prediction", "imputation")  # the roles that speak of ratings


@dataclass(frozen=True)
class Correction:
    """eta -> a eta + b - log odds, in the natural parameter of the law of a rating: order is kept within each user.

    `odds` is how many times as likely a rating of 1 is assumed to be seen as a rating of 0 beyond what the model allows
    for already. For binary ratings logit P(r = 1) = logit P(r = 1 | seen) - log odds, exactly.
    """

    family: Family = field(default_factory=lambda: BINARY)
    lines: Lines = field(default_factory=Lines.everybody)
    odds: float = 1.0

    def __call__(self, means: ArrayLike, users: Codes) -> Values:
        said = np.asarray(means, np.float64)
        if self.odds == 1 and self.lines.changes_nothing:
            return said
        return self.family.mean(self.lines(self.family.natural(said), users) - np.log(self.odds))

    def joined_by(self, count: int) -> Correction:
        """The same beside new users, who are corrected as everybody is."""
        return replace(self, lines=self.lines.joined_by(count))

    def at_odds(self, odds: float) -> Correction:
        return replace(self, odds=odds)
