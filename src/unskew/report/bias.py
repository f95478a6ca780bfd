"""Is the log biased? What its mean rating is as it is and corrected, and what ratings go with."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.diagnosis.dependence import Dependence
from unskew.diagnosis.diagnosis import Diagnosis
from unskew.metrics.intervals import Interval
from unskew.report.charts import Plot, bars
from unskew.report.figure import Figure
from unskew.report.names import Level
from unskew.report.plain import Plain, plainly
from unskew.report.rows import Row, Rows, intervals

FIFTHS = ("lowest", "2nd", "3rd", "4th", "highest")
WORDS = {
    "popularity": ("popularity of the item", "how often the item was rated"),
    "propensity": ("estimated chance of being rated", "how likely the pair was to be rated"),
}


@dataclass(frozen=True)
class BiasFacts:
    verdict: Plain
    means: Figure
    dependences: tuple[Figure, ...]
    odds: Interval | None  # how many times as likely a liked pair is to be rated, if random ratings tell


def bias_of(diagnosis: Diagnosis, level: Level) -> BiasFacts:
    return BiasFacts(
        verdict=plainly("needed", diagnosis["needed"]),
        means=_means(diagnosis, level),
        dependences=tuple(_fifths(entry, level) for entry in reversed(diagnosis.dependences)),
        odds=diagnosis.rates.odds,
    )


def _means(diagnosis: Diagnosis, level: Level) -> Figure:
    rates = diagnosis.rates
    entries = [
        ("the log as it is", rates.log, False),
        ("weighted", rates.weighted, True),
        ("doubly robust", rates.doubly_robust, True),
    ]
    if rates.random is not None:
        entries.append(("random ratings", rates.random, False))
    value = level.value
    rows = [
        Row(name, (value(one.value),), level(one.value), (value(one.low), value(one.high)), strong)
        for name, one, strong in entries
    ]
    chart = Rows(
        "mean-rating",
        f"The {level.name}, as the log has it and corrected",
        f"The {level.name} is {level(rates.log.value)} among the ratings as they are; over all pairs it is "
        f"{level(rates.weighted.value)} if ratings are weighted, and {level(rates.doubly_robust.value)} doubly robust. "
        "Lines are 95% intervals.",
        level.name,
        show=level.told,
        unit=level.unit,
    )
    return intervals(chart, rows, ("which", level.name, "low", "high"))


def _fifths(entry: Dependence, level: Level) -> Figure:
    title, meaning = WORDS.get(entry.property, (entry.property, entry.property))
    names = FIFTHS if len(entry.by_fifth) == len(FIFTHS) else tuple(str(n + 1) for n in range(len(entry.by_fifth)))
    first, last = entry.by_fifth[0], entry.by_fifth[-1]
    plot = Plot(
        f"by-{entry.property}",
        f"The {level.name} by {title}",
        f"Ratings in five equal parts by {meaning}: the {level.name} is {level(first)} in the lowest part and "
        f"{level(last)} in the highest. Equal bars would mean that it does not matter.",
        f"ratings in fifths by {title}",
        level.name,
        y_unit=level.unit,
        show=level.told,
    )
    return bars(plot, names, [level.value(rate) for rate in entry.by_fifth])
