"""Charts against two axes: lines, bands, histograms, bars and reliability diagrams."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from unskew.report.axes import NUMBER, Axis, Unit, linear, logarithmic
from unskew.report.figure import (
    ACCENT,
    BOTTOM,
    LEFT,
    PLAIN,
    RIGHT,
    SMALL,
    TOP,
    WIDTH,
    Figure,
    Style,
    Table,
    frame,
    legend,
)
from unskew.report.svg import element, joined, line, marker, path, text

Show = Callable[[float], str]
Point = tuple[float, float]


def four_digits(value: float) -> str:
    return f"{value:.4g}"


@dataclass(frozen=True)
class Series:
    """Points in order, and how they look."""

    name: str
    points: Sequence[Point]
    style: Style = ACCENT
    marked: bool = True


@dataclass(frozen=True)
class Plot:
    """What all charts against two axes share."""

    name: str
    title: str
    says: str
    x_name: str
    y_name: str
    small: bool = False
    x_unit: Unit = NUMBER
    y_unit: Unit = NUMBER
    show: Show = four_digits  # how values of the vertical axis are told in the table
    entries: Sequence[tuple[str, Style]] = ()

    @property
    def width(self) -> int:
        return SMALL if self.small else WIDTH

    @property
    def spans(self) -> tuple[Point, Point]:
        """From where to where the two axes go, below the legend."""
        top = TOP + self._legend[1]
        return (LEFT, self.width - RIGHT), (top + (150 if self.small else 190), top)

    @property
    def _legend(self) -> tuple[Markup, float]:
        return legend(self.entries, 0, self.width) if self.entries else (Markup(""), 0.0)

    def drawn(self, x: Axis, y: Axis, marks: Sequence[Markup], table: Table) -> Figure:
        head = self._legend[0]
        drawing = joined([head, frame(x, y, self.x_name, self.y_name), *marks])
        height = y.start + BOTTOM
        return Figure(self.name, self.title, self.says, self.width, height, drawing, table)


def lines(plot: Plot, series: Sequence[Series], *, zero: bool = False, at: float | None = None) -> Figure:
    """A line through each series' points; `at` is a place on the horizontal axis to be marked."""
    across, up = plot.spans
    xs, ys = ([point[k] for one in series for point in one.points] for k in (0, 1))
    x = linear(xs, *across, wanted=3 if plot.small else 5, unit=plot.x_unit)
    y = linear(ys, *up, wanted=4, zero=zero, unit=plot.y_unit)
    marks = [] if at is None else [line(x(at), up[0], x(at), up[1], "here")]
    for one in series:
        marks += _line(one, x, y)
    return plot.drawn(x, y, marks, _points_table(plot, series))


def _line(one: Series, x: Axis, y: Axis) -> list[Markup]:
    places = [(x(a), y(b)) for a, b in one.points if math.isfinite(b)]
    if not places:
        return []
    marks = [path(places, f"line {one.style.class_}")]
    if one.marked:
        marks += [marker(a, b, f"mark {one.style.class_}", one.style.shape, 3.6) for a, b in places]
    return marks


def band(plot: Plot, rows: Sequence[tuple[float, float, float]], at: float) -> Figure:
    """From lowest to highest over the horizontal axis; `at` is the value in the middle."""
    across, up = plot.spans
    x = linear([row[0] for row in rows], *across, unit=plot.x_unit)
    y = linear([value for row in rows for value in row[1:]], *up, wanted=4, unit=plot.y_unit)
    outline = [(x(a), y(low)) for a, low, _ in rows] + [(x(a), y(high)) for a, _, high in reversed(rows)]
    marks = [path(outline, "area accent", closed=True), line(across[0], y(at), across[1], y(at), "here")]
    told = [(f"{a:g}", plot.show(low), plot.show(high)) for a, low, high in rows]
    return plot.drawn(x, y, marks, Table(plot.title, (plot.x_name, "lowest", "highest"), told))


@dataclass(frozen=True)
class Heights:
    """A histogram's heights over the edges that it shares with others."""

    name: str
    heights: Sequence[float]
    style: Style


def histogram(plot: Plot, edges: Sequence[float], series: Sequence[Heights], *, log: bool = True) -> Figure:
    """Outlines over common bins; on a logarithmic axis, edges must be positive."""
    across, up = plot.spans
    x = logarithmic(edges, *across) if log else linear(edges, *across, unit=plot.x_unit)
    y = linear([h for one in series for h in one.heights], *up, wanted=4, zero=True, unit=plot.y_unit)
    marks = []
    for one in series:
        outline: list[Point] = [(x(edges[0]), y(0))]
        for (left, right), height in zip(pairwise(edges), one.heights, strict=True):
            outline += [(x(left), y(height)), (x(right), y(height))]
        marks.append(path([*outline, (x(edges[-1]), y(0))], f"area line {one.style.class_}"))
    rows = [
        (f"{left:.4g} to {right:.4g}", *(plot.show(one.heights[n]) for one in series))
        for n, (left, right) in enumerate(pairwise(edges))
    ]
    return plot.drawn(x, y, marks, Table(plot.title, (plot.x_name, *(one.name for one in series)), rows))


def bars(plot: Plot, labels: Sequence[str], values: Sequence[float]) -> Figure:
    """One bar a label, its value above it."""
    across, up = plot.spans
    y = linear(values, *up, wanted=4, zero=True, unit=plot.y_unit)
    wide = (across[1] - across[0]) / len(labels)
    x = Axis(0, len(labels), *across, ticks=tuple((n + 0.5, words) for n, words in enumerate(labels)))
    marks = []
    for n, value in enumerate(values):
        top, foot = y(max(value, 0)), y(min(value, 0))
        marks.append(
            element("rect", x=x(n + 0.14), y=top, width=0.72 * wide, height=max(foot - top, 0.5), class_="bar accent")
        )
        marks.append(text(x(n + 0.5), top - 5, plot.show(value), "middle"))
    rows = [(words, plot.show(value)) for words, value in zip(labels, values, strict=True)]
    return plot.drawn(x, y, marks, Table(plot.title, (plot.x_name, plot.y_name), rows))


def reliability(plot: Plot, before: Sequence[Point], after: Sequence[Point]) -> Figure:
    """What was said on average in each bin against what came true; what is right lies on the diagonal."""
    series = [Series("before calibration", before, PLAIN), Series("after calibration", after, ACCENT)]
    across, up = plot.spans
    every = [value for one in series for point in one.points for value in point]
    top = max(every, default=1.0) or 1.0
    x = linear([0, top], *across, wanted=3 if plot.small else 5, unit=plot.x_unit)
    y = linear([0, top], *up, wanted=4, unit=plot.y_unit)
    end = min(x.high, y.high)
    marks = [line(x(0), y(0), x(end), y(end), "here")]
    for one in series:
        marks += _line(one, x, y)
    return plot.drawn(x, y, marks, _points_table(plot, series))


def _points_table(plot: Plot, series: Sequence[Series]) -> Table:
    """Points below each other, each with the name of its series."""
    rows = [(one.name, f"{a:.4g}", plot.show(b)) for one in series for a, b in one.points]
    return Table(plot.title, ("series", plot.x_name, plot.y_name), rows)
