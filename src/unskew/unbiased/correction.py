"""What is said of seen pairs, put right for all: lines learned from random ratings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from unskew.unbiased.family import BINARY, Family, Values
from unskew.unbiased.lines import Codes, Lines

OF_RATINGS = ("prediction", "imputation")  # the roles that speak of ratings


@dataclass(frozen=True)
class Correction:
    """eta -> a eta + b in the natural parameter of the law of a rating: order is kept within each user."""

    family: Family = field(default_factory=lambda: BINARY)
    lines: Lines = field(default_factory=Lines.everybody)

    def __call__(self, means: ArrayLike, users: Codes) -> Values:
        said = np.asarray(means, np.float64)
        if self.lines.changes_nothing:
            return said
        return self.family.mean(self.lines(self.family.natural(said), users))

    def joined_by(self, count: int) -> Correction:
        """The same beside new users, who are corrected as everybody is."""
        return replace(self, lines=self.lines.joined_by(count))
