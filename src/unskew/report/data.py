"""What the data is: how many ratings of whom and what, and how unevenly they are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.model import Recommender
from unskew.report.axes import PERCENT, short
from unskew.report.charts import Heights, Plot, histogram
from unskew.report.figure import ACCENT, Figure
from unskew.report.names import Level

BINS, GROWING_BINS = 24, 13
FEW = 5  # ratings of a user or an item, of whom little can be known


@dataclass(frozen=True)
class Spread:
    """How ratings are spread over users, or over items."""

    name: str
    n: int
    n_without: int
    n_few: int  # have at least one, but fewer than FEW
    median: float
    largest: int
    share_of_top_tenth: float
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, codes: NDArray[np.int32], n: int) -> Spread:
        counts = np.bincount(codes, minlength=n)
        tenth = max(1, n // 10)
        top = np.partition(counts, n - tenth)[n - tenth :].sum()
        few = int(((counts > 0) & (counts < FEW)).sum())
        share = float(top / max(counts.sum(), 1))
        return cls(name, n, int((counts == 0).sum()), few, float(np.median(counts)), int(counts.max()), share, counts)

    @property
    def even(self) -> bool:
        """Whether everybody has as many as everybody else, so that there is nothing to draw."""
        return self.n_without == 0 and float(self.median) == self.largest == self.counts.min(initial=self.largest)

    @property
    def figure(self) -> Figure:
        rated, one = self.counts[self.counts > 0], self.name[:-1]
        edges = _edges(rated)
        heights = np.histogram(rated, edges)[0] / self.n
        plot = Plot(
            f"ratings-per-{one}",
            f"Ratings per {one}",
            f"Half of the {self.name} have at most {self.median:g} ratings, the most-rated has {self.largest:,}; the "
            f"top tenth of the {self.name} have {self.share_of_top_tenth:.0%} of all ratings.",
            f"ratings of one {one}",
            f"share of the {self.name}",
            y_unit=PERCENT,
            show=lambda value: f"{value:.2%}",
        )
        log = edges[0] > 0 and edges[-1] / edges[0] > 30
        return histogram(
            plot, edges.tolist(), [Heights(f"share of the {self.name}", heights.tolist(), ACCENT)], log=log
        )


def _edges(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bins between whole numbers: equally wide, or growing where counts run over powers of ten."""
    low, high = (int(counts.min()), int(counts.max())) if len(counts) else (1, 1)
    if high / low <= 30:
        step = max(1, -(-(high - low + 1) // BINS))
        return np.arange(low, high + step + 1, step, dtype=np.float64) - 0.5
    grown: NDArray[np.float64] = np.unique(np.round(np.geomspace(low, high + 1, GROWING_BINS + 1)))
    return grown - 0.5


@dataclass(frozen=True)
class DataFacts:
    """The log in figures."""

    tiles: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    users: Spread
    items: Spread

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(side.figure for side in (self.users, self.items) if not side.even)


def data_of(model: Recommender) -> DataFacts:
    log, level = model.log, Level(model.log)
    density = len(log) / log.n_pairs
    tiles = (
        ("ratings", short(len(log)) if len(log) >= 1e6 else f"{len(log):,}"),
        ("users", short(log.n_users) if log.n_users >= 1e6 else f"{log.n_users:,}"),
        ("items", short(log.n_items) if log.n_items >= 1e6 else f"{log.n_items:,}"),
        ("of all pairs are rated", f"{density:.2%}" if density >= 1e-3 else f"{density:.1e}"),
        (level.name, level(log.positive_rate)),
    )
    users, items = Spread.of("users", log.users, log.n_users), Spread.of("items", log.items, log.n_items)
    return DataFacts(tiles, tuple(_sentences(model, users, items)), users, items)


def _sentences(model: Recommender, users: Spread, items: Spread) -> list[str]:
    log, split = model.log, model.split
    scale = (
        f"A rating of {log.scale.positive:g} or more counts as liked, anything below as not liked."
        if log.binary and log.scale.positive is not None
        else f"Ratings are kept as they are, on a scale from {log.scale.low:g} to {log.scale.high:g}."
    )
    said = [
        f"There are {log.n_users:,} × {log.n_items:,} = {log.n_pairs:,} pairs of a user and an item. {len(log):,} of "
        f"them have a rating; the other {log.n_pairs - len(log):,} do not, and those are what this page is about.",
        f"{scale} {len(split.train_rows):,} ratings were trained on; {len(split.holdout_rows):,} were held out to stop "
        "training, to calibrate and to judge.",
    ]
    more = []
    if log.duplicates_merged:
        more.append(f"{log.duplicates_merged:,} rows rated a pair that had been rated already and were merged into it.")
    for side in (users, items):
        if side.even:
            more.append(f"All {side.name} have {side.largest:,} ratings each.")
        if side.n_without:
            more.append(f"{side.n_without:,} {side.name} of the catalogue have no rating at all.")
    named = [(name, part) for name, part in (("user", log.user_features), ("item", log.item_features)) if part]
    if named:
        more.append(
            f"Known beside ratings: {' and '.join(f'{len(part.names)} {name} features' for name, part in named)}."
        )
    return [*said, " ".join(more)] if more else said
