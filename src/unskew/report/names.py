"""Ids and figures as people read them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from unskew.data.log import RatingLog
from unskew.metrics.intervals import Interval
from unskew.report.axes import NUMBER, PERCENT, Unit

LONGEST = 60
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # marks that turn the text after them


def shown(value: Any, most: int = LONGEST) -> str:
    """An external id as text: of a very long one the beginning, and nothing that would disturb the text around it."""
    head = str(value)[: most + 1]
    clean = "".join("\N{REPLACEMENT CHARACTER}" if _disturbs(character) else character for character in head)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _disturbs(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in DIRECTIONS


def isolated(words: str) -> str:
    """Inside a sentence: whatever way the words are written, the sentence goes its own."""
    return f"\N{FIRST STRONG ISOLATE}{words}\N{POP DIRECTIONAL ISOLATE}"


def signed(value: float, digits: int = 4) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def spread(interval: Interval, digits: int = 4, *, sign: bool = False) -> str:
    """The ends of an interval."""
    low, high = (signed(end, digits) if sign else f"{end:.{digits}f}" for end in interval[1:])
    return f"{low} to {high}"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


@dataclass(frozen=True)
class Level:
    """How ratings of a log are told: as the share that is liked, or on the log's own scale."""

    log: RatingLog

    @property
    def name(self) -> str:
        return "share liked" if self.log.binary else "mean rating"

    @property
    def unit(self) -> Unit:
        return PERCENT if self.log.binary else NUMBER

    def value(self, mean: float) -> float:
        """A mean of ratings in [0, 1] as figures have it: as it is, or on the log's own scale."""
        return mean if self.log.binary else float(self.log.scale.from_unit(mean))

    def told(self, value: float) -> str:
        return f"{value:.1%}" if self.log.binary else f"{value:.2f}"

    def __call__(self, mean: float) -> str:
        """A mean of ratings in [0, 1]."""
        return self.told(self.value(mean))

    def size(self, units: float) -> str:
        """A difference of such means, without its sign."""
        return self.change(abs(units)).removeprefix("+")

    def change(self, units: float) -> str:
        """A difference of such means."""
        if self.log.binary:
            return f"{100 * units:+.1f} points".replace("-", "−")
        return signed(units * (self.log.scale.high - self.log.scale.low), 2)

    def interval(self, interval: Interval) -> str:
        return f"{self(interval.low)} to {self(interval.high)}"
