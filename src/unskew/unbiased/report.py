"""What a slice of random ratings was used for, and what each use was worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """Something a slice could teach, of a role.

    `gain` is of the log-likelihood of ratings left out over learning nothing, `error` its standard error, and `trust`
    how far it is followed, from 0 to 1. Gain is None where nothing was tried, which `found` then explains.
    """

    role: str
    what: str
    found: str
    gain: float | None = None
    error: float | None = None
    trust: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.role}: {self.what}"

    @property
    def cells(self) -> tuple[str, str, str, str]:
        gain = "" if self.gain is None else f"{self.gain:+.1f}"
        gain += "" if self.error is None else f" ± {self.error:.1f}"
        return self.name, self.found, gain, f"{self.trust:.0%}" if gain else ""


@dataclass(frozen=True)
class Slice:
    """The random ratings that a model has learned from beside its log, and their uses.

    `n_unknown` were left out because the log does not know their user or item; `n_in_log` are of pairs that the log has
    a rating of too.
    """

    n_ratings: int
    n_unknown: int
    n_in_log: int
    mean: float
    uses: tuple[Use, ...]

    def __str__(self) -> str:
        head = [f"{self.n_ratings:,} random ratings with a mean of {self.mean:.3f} in [0, 1]"]
        if self.n_unknown:
            head.append(f"{self.n_unknown:,} more are of users or items that the log does not know, and were left out")
        if self.n_in_log:
            head.append(f"{self.n_in_log:,} are of pairs that the log holds too")
        rows = [("use", "found", "gain", "trust"), *(use.cells for use in self.uses)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join([*head, *(line.rstrip() for line in lines)])
