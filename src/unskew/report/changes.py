"""Which items, users and lists change most when the bias is removed; in samples of stated size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.model import Recommender
from unskew.report.figure import ACCENT, PLAIN, Figure, Table
from unskew.report.material import Material
from unskew.report.names import Level, isolated, shown
from unskew.report.rows import Row, Rows, dumbbells
from unskew.topk import TopItems, top_items

MOST = 20_000  # users, or items, that are looked at
OPPOSITE = 256  # of the other side, over which predictions of each are averaged
EACH_WAY = 5  # that change most, up and down
LIST, EXAMPLES = 10, 3
LIST_CELLS, LIST_USERS = 20_000_000, 1_000
NOTABLE = 1.5  # times what chance replaces
STREAM = 0x72657074

Codes = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Changed:
    """A user or an item: its id, how often it was rated and how, and its mean prediction of both models in [0, 1]."""

    id: str
    n_ratings: int
    rated: float | None
    naive: float
    debiased: float

    @property
    def change(self) -> float:
        return self.debiased - self.naive


@dataclass(frozen=True)
class Side:
    """All users or all items, or a sample of them: who rises most, who falls most, and what is usual."""

    name: str  # "items" or "users"
    n_all: int
    n_looked_at: int
    n_opposite: int
    mean_change: float
    size_of_change: float  # mean absolute deviation from that
    by_chance: float  # the same between two naive models
    up: tuple[Changed, ...]
    down: tuple[Changed, ...]

    def figure(self, level: Level) -> Figure:
        one, shown_first = self.name[:-1], (*self.up, *reversed(self.down))
        rows = [
            Row(entry.id, (level.value(entry.naive), level.value(entry.debiased)), level.change(entry.change))
            for entry in shown_first
        ]
        up, down = self.up[0], self.down[0]
        chart = Rows(
            f"changed-{self.name}",
            f"{self.name.capitalize()} whose predictions change most",
            f"From the naive to the debiased model the mean prediction of {one} {isolated(up.id)} changes by "
            f"{level.change(up.change)} and that of {one} {isolated(down.id)} by {level.change(down.change)}; on "
            f"average over all {self.name} it is {level.change(self.mean_change)}.",
            f"mean prediction ({level.name})",
            unit=level.unit,
            entries=(("naive", PLAIN), ("debiased", ACCENT)),
        )
        header = (one, "ratings", level.name, "naive says", "debiased says", "change")
        told = [_cells(entry, level) for entry in shown_first]
        return dumbbells(chart, rows, Table(f"{chart.title}, with their ratings in the log", header, told))


def _cells(entry: Changed, level: Level) -> tuple[str, ...]:
    rated = "–" if entry.rated is None else level(entry.rated)
    said = level(entry.naive), level(entry.debiased), level.change(entry.change)
    return entry.id, f"{entry.n_ratings:,}", rated, *said


@dataclass(frozen=True)
class Example:
    """One user's best items by both models; whatever only one of the two recommends is marked."""

    user: str
    n_ratings: int
    replaced: int
    naive: tuple[tuple[str, bool], ...]
    debiased: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Lists:
    """The best items of some users: which share of places goes to others, and the users whose lists change most."""

    k: int
    n_users: int
    n_all: int
    replaced: float
    by_chance: float
    n_items_naive: int  # that are in any of the lists
    n_items_debiased: int
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class Changes:
    items: Side
    users: Side
    lists: Lists

    def headline(self, level: Level) -> str:
        """What happens on average, and whether it is more than chance does."""
        change, lists = self.items.mean_change, self.lists
        words = f"{level.size(change)} {'more' if change > 0 else 'less'} than the naive one"
        much, less = lists.replaced > NOTABLE * lists.by_chance, lists.replaced <= lists.by_chance
        chance = f"{'well beyond' if much else 'no more than' if less else 'not much more than'} what chance does"
        return (
            f"The debiased model predicts {words} on average, and {lists.replaced:.0%} of the places in people's top "
            f"{lists.k} go to other items, {chance}."
        )


def changes_of(material: Material) -> Changes:
    generator = np.random.default_rng([material.model.seed, STREAM])
    return Changes(
        _side("items", material, generator), _side("users", material, generator), _lists(material, generator)
    )


def _drawn(n: int, most: int, generator: np.random.Generator) -> Codes:
    return np.arange(n) if n <= most else np.sort(generator.choice(n, most, replace=False))


def _side(name: str, material: Material, generator: np.random.Generator) -> Side:
    log, by_item = material.log, name == "items"
    n, others = (log.n_items, log.n_users) if by_item else (log.n_users, log.n_items)
    codes, opposite = _drawn(n, MOST, generator), _drawn(others, OPPOSITE, generator)
    naive, debiased, again = (
        _means(model, codes, opposite, by_item) for model in (material.naive, material.debiased, material.again)
    )
    change = debiased - naive
    usual = float(change.mean())
    order = np.argsort(change, kind="stable")
    of_each = _Facts(log, by_item)
    told = [of_each.changed(int(codes[k]), float(naive[k]), float(debiased[k])) for k in _extremes(order)]
    n_up = (len(told) + 1) // 2
    drift = again - naive
    return Side(
        name=name,
        n_all=n,
        n_looked_at=len(codes),
        n_opposite=len(opposite),
        mean_change=usual,
        size_of_change=float(np.abs(change - usual).mean()),
        by_chance=float(np.abs(drift - drift.mean()).mean()),
        up=tuple(told[:n_up]),
        down=tuple(told[n_up:]) or tuple(told[:1]),
    )


def _extremes(order: NDArray[Any]) -> list[int]:
    """The places of those that rise most, best first, then of those that fall most, worst first; nobody twice."""
    n_up = min(EACH_WAY, (len(order) + 1) // 2)
    n_down = min(EACH_WAY, len(order) - n_up)
    return [*order[::-1][:n_up].tolist(), *order[:n_down].tolist()]


def _means(model: Recommender, codes: Codes, opposite: Codes, by_item: bool) -> Values:
    """The mean prediction of each code over the sampled other side, a few hundred thousand pairs at a time."""
    means, at_once = np.empty(len(codes)), max(1, (1 << 20) // len(opposite))
    for start in range(0, len(codes), at_once):
        part = codes[start : start + at_once]
        own, other = np.repeat(part, len(opposite)), np.tile(opposite, len(part))
        said = model.predict_codes(other, own) if by_item else model.predict_codes(own, other)
        means[start : start + at_once] = said.reshape(len(part), len(opposite)).mean(1)
    return means


class _Facts:
    """What the log itself says of users or of items."""

    def __init__(self, log: RatingLog, by_item: bool) -> None:
        self.ids, codes = (log.item_ids, log.items) if by_item else (log.user_ids, log.users)
        self.counts = np.bincount(codes, minlength=len(self.ids))
        self.sums = np.bincount(codes, log.ratings, minlength=len(self.ids))

    def changed(self, code: int, naive: float, debiased: float) -> Changed:
        n = int(self.counts[code])
        return Changed(shown(self.ids[code]), n, float(self.sums[code]) / n if n else None, naive, debiased)


def _lists(material: Material, generator: np.random.Generator) -> Lists:
    log = material.log
    most = max(20, min(LIST_USERS, LIST_CELLS // log.n_items))
    counts, k = np.bincount(log.users, minlength=log.n_users), min(LIST, log.n_items)
    users = _drawn(log.n_users, most, generator)
    naive, debiased, again = (_best(model, users, k) for model in (material.naive, material.debiased, material.again))
    shares = _replaced(naive, debiased, len(users))
    known = np.flatnonzero(~np.isnan(shares))
    told = sorted(known.tolist(), key=lambda n: (-shares[n], -counts[users[n]], n))[:EXAMPLES]
    return Lists(
        k=k,
        n_users=len(users),
        n_all=log.n_users,
        replaced=float(np.mean(shares[known])) if len(known) else 0.0,
        by_chance=float(np.nanmean(_replaced(naive, again, len(users)))) if len(known) else 0.0,
        n_items_naive=len(np.unique(naive.items)),
        n_items_debiased=len(np.unique(debiased.items)),
        examples=tuple(_example(log, users, n, naive, debiased, int(counts[users[n]])) for n in told),
    )


def _best(model: Recommender, users: Codes, k: int) -> TopItems:
    return top_items(model.predict_codes, model.log, users, np.arange(model.log.n_items), k, exclude_seen=True)


def _replaced(before: TopItems, after: TopItems, n_users: int) -> Values:
    """The share of each user's list that the other list does not have; NaN for one who has rated everything."""
    wide = int(max(before.items.max(initial=0), after.items.max(initial=0))) + 1
    kept = np.isin(before.position * wide + before.items, after.position * wide + after.items)
    length = np.bincount(before.position, minlength=n_users)
    lost = np.bincount(before.position, ~kept, minlength=n_users)
    return np.where(length > 0, lost / np.maximum(length, 1), np.nan)


def _example(log: RatingLog, users: Codes, n: int, naive: TopItems, debiased: TopItems, n_ratings: int) -> Example:
    first, second = (found.items[found.position == n].tolist() for found in (naive, debiased))
    return Example(
        user=shown(log.user_ids[int(users[n])]),
        n_ratings=n_ratings,
        replaced=len(set(first) - set(second)),
        naive=tuple((shown(log.item_ids[item]), item not in second) for item in first),
        debiased=tuple((shown(log.item_ids[item]), item not in first) for item in second),
    )
