"""Charts with a row for each thing: its name above, so that long names fit on a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unskew.report.axes import NUMBER, Axis, Unit, linear
from unskew.report.figure import ACCENT, PLAIN, WIDTH, Figure, Style, Table, legend, spaced
from unskew.report.svg import joined, line, marker, text

ROW, PAD = 40, 22
LONGEST = 34  # letters of a name
Show = Callable[[float], str]


def four_decimals(value: float) -> str:
    return f"{value:.4f}"


@dataclass(frozen=True)
class Row:
    """A name, its marks from the first to the last, what is said at the right, and an interval around the last mark."""

    name: str
    values: Sequence[float]
    said: str
    interval: tuple[float, float] | None = None
    strong: bool = False


@dataclass(frozen=True)
class Rows:
    """What a chart of rows is called, and what its values are."""

    name: str
    title: str
    says: str
    x_name: str
    show: Show = four_decimals
    unit: Unit = NUMBER
    zero: bool = False
    reference: float | None = None
    entries: Sequence[tuple[str, Style]] = ()

    def axis(self, values: Sequence[float]) -> Axis:
        more = [] if self.reference is None else [self.reference]
        return linear([*values, *more], PAD, WIDTH - PAD, wanted=4, zero=self.zero, unit=self.unit)

    def drawn(self, x: Axis, rows: Sequence[Row], marks: Callable[[Row, float], list[Markup]], data: Table) -> Figure:
        head, top = legend(self.entries, 0) if self.entries else (Markup(""), 0.0)
        parts, bottom = [head], top + len(rows) * ROW
        for value, words in spaced(x):
            parts += [line(x(value), top, x(value), bottom, "grid"), text(x(value), bottom + 18, words, "middle")]
        if self.reference is not None:
            parts.append(line(x(self.reference), top, x(self.reference), bottom, "here"))
        for n, row in enumerate(rows):
            y = top + n * ROW
            parts += [text(0, y + 14, shortened(row.name), class_="label"), text(WIDTH, y + 14, row.said, "end")]
            parts += marks(row, y + 27)
        parts.append(text(WIDTH / 2, bottom + 36, self.x_name, "middle", "name"))
        return Figure(self.name, self.title, self.says, WIDTH, bottom + 44, joined(parts), data)


def dumbbells(chart: Rows, rows: Sequence[Row], data: Table) -> Figure:
    """From one value to another."""
    x = chart.axis([value for row in rows for value in row.values])

    def marks(row: Row, y: float) -> list[Markup]:
        (first, *_, last) = (x(value) for value in row.values)
        return [
            line(first, y, last, y, "way"),
            marker(first, y, f"mark {PLAIN.class_}", PLAIN.shape),
            marker(last, y, f"mark {ACCENT.class_}", ACCENT.shape),
        ]

    return chart.drawn(x, rows, marks, data)


def intervals(chart: Rows, rows: Sequence[Row], header: Sequence[str]) -> Figure:
    """A mark and the interval around it."""
    ends = [end for row in rows for end in row.interval or ()]
    x = chart.axis([*ends, *(value for row in rows for value in row.values)])

    def marks(row: Row, y: float) -> list[Markup]:
        style = ACCENT if row.strong else PLAIN
        low, high = row.interval or (row.values[-1], row.values[-1])
        return [
            line(x(low), y, x(high), y, f"way {style.class_}"),
            marker(x(row.values[-1]), y, f"mark {style.class_}", style.shape),
        ]

    return chart.drawn(x, rows, marks, _data(chart, rows, header))


def strips(chart: Rows, rows: Sequence[Row], header: Sequence[str]) -> Figure:
    """A dot for each of a row's values but the last, which is their mean."""
    x = chart.axis([value for row in rows for value in row.values])

    def marks(row: Row, y: float) -> list[Markup]:
        *dots, mean = row.values
        style = ACCENT if row.strong else PLAIN
        spots = [marker(x(dot), y, f"dot {style.class_}", size=3.2) for dot in dots]
        return [*spots, line(x(mean), y - 8, x(mean), y + 8, f"mean {style.class_}")]

    return chart.drawn(x, rows, marks, _data(chart, rows, header))


def beams(chart: Rows, rows: Sequence[Row], header: Sequence[str]) -> Figure:
    """A bar from 0 for each row."""
    x = chart.axis([0.0, *(row.values[0] for row in rows)])

    def marks(row: Row, y: float) -> list[Markup]:
        return [line(x(0), y, x(row.values[0]), y, f"beam {(ACCENT if row.strong else PLAIN).class_}")]

    return chart.drawn(x, rows, marks, _data(chart, rows, header))


def _data(chart: Rows, rows: Sequence[Row], header: Sequence[str]) -> Table:
    cells = [(row.name, *map(chart.show, row.values), *map(chart.show, row.interval or ())) for row in rows]
    return Table(chart.title, header, cells)


def shortened(name: str, most: int = LONGEST) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
