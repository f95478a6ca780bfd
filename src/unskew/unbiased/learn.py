"""What random ratings teach about a role that speaks of ratings: from "nothing" to lines of experts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import Examples
from unskew.unbiased.family import NEAREST, Family, Values
from unskew.unbiased.lines import OF_EXPERTS, Codes, Lines, fit_line
from unskew.unbiased.report import Use
from unskew.unbiased.trust import judge

FEWEST = 10  # ratings, below which nothing is learned
N_EXPERTS = 5
FEWEST_FOR_EXPERTS = 500 * N_EXPERTS
SHRINKAGE = 5.0  # of their assignment, a quarter of the usual one: what is learned by heart is found out of fold


@dataclass(frozen=True, eq=False)
class Said:
    """What a role says of random pairs, in the family's natural parameter, beside their ratings.

    `vectors` tell all users apart, one row each; None if there are none, or too few ratings for experts.
    """

    family: Family
    natural: Values
    ratings: Values
    users: Codes
    vectors: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.ratings)

    def take(self, rows: NDArray[Any]) -> Said:
        return Said(self.family, self.natural[rows], self.ratings[rows], self.users[rows], self.vectors)

    def log_likelihood(self, lines: Lines) -> Values:
        return self.family.log_likelihood(lines(self.natural, self.users), self.ratings)

    def line(self, *, slope: bool, **around: Any) -> tuple[float, float]:
        return fit_line(self.family, self.natural, self.ratings, slope=slope, **around)


def nothing(said: Said) -> Lines:
    return Lines.everybody()


def shift(said: Said) -> Lines:
    """The base rate: eta + b."""
    return Lines.everybody(*said.line(slope=False))


def line(said: Said) -> Lines:
    """The base rate, and how sure to be: a eta + b."""
    return Lines.everybody(*said.line(slope=True))


def experts(said: Said, *, seed: int) -> Lines:
    """A line for each of a few kinds of users, whom the assignment network of `ExpertPlatt` tells apart."""
    assert said.vectors is not None
    common = said.line(slope=True)
    codes, place = np.unique(said.users, return_inverse=True)
    logits = logit(np.clip(said.family.mean(said.natural), NEAREST, 1 - NEAREST))
    examples = Examples(logits, said.ratings, np.ones(len(said)), place, said.vectors[codes], codes.astype(np.int64))
    generator = np.random.default_rng([seed, 0x65787065])
    network: Any = ExpertPlatt(n_experts=N_EXPERTS, assignment="hard", shrinkage=SHRINKAGE).fit(
        examples, generator=generator
    )
    expert = 1 + network.assignment(said.vectors).argmax(1)
    own = (said.take(expert[said.users] == k) for k in range(1, N_EXPERTS + 1))
    lines = [common, *(part.line(slope=True, centre=common, narrower=OF_EXPERTS) for part in own)]
    slopes, intercepts = np.array(lines).T
    return Lines(slopes, intercepts, expert)


def learn(role: str, said: Said, seed: int) -> tuple[Lines, list[Use]]:
    """The mixture of rivals for a role, and what each of them is worth."""
    if len(said) < FEWEST:
        return Lines.everybody(), [Use(role, "shift", f"not tried: {FEWEST} ratings are needed")]
    rivals = {"nothing": nothing, "shift": shift, "line": line}
    if said.vectors is not None:
        rivals["experts"] = partial(experts, seed=seed)
    fitted, trust, uses = judge(rivals, said, Said.log_likelihood, str, role=role, seed=seed)
    if said.vectors is None:
        few = len(said) < FEWEST_FOR_EXPERTS
        why = f"{FEWEST_FOR_EXPERTS:,} ratings are needed" if few else f"the {role} does not tell users apart"
        uses.append(Use(role, "experts", f"not tried: {why}"))
    kept = np.flatnonzero(trust)
    return Lines.mixed([fitted[k] for k in kept], trust[kept]), uses
