"""Two kinds of chart as SVG, rows of dots with intervals and lines; a page colours them by its own CSS variables."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from unskew.findings import Interval, Table, plain
from unskew.store.atomic import write_file

WIDTH, ROW, PAD, LINE = 420, 40, 22, 18  # units of a drawing; letters are 13 high, which a phone shows as 11 or 12
TINY = 1e-300  # below which quotients of numbers underflow
LEFT, HEIGHT = 52, 190  # of the axes of lines
LONGEST = 36  # letters of a name
STYLES = ("accent", "plain", "third", "fourth")  # which differ by colour and by the shape of their marks
COLOURS = {  # light and dark
    "paper": ("#fcfbf9", "#131618"),
    "ink": ("#1c2024", "#e7e5e0"),
    "soft": ("#565d66", "#a7adb5"),
    "faint": ("#ece9e3", "#24292d"),
    "accent": ("#0b6b6b", "#5cc8bf"),
    "plain": ("#6b7280", "#9aa3ad"),
    "third": ("#8a5a00", "#d9a441"),
    "fourth": ("#7a3e8f", "#c99be0"),
}
STYLE = """.chart { display: block; width: 100%; max-width: 640px; height: auto; overflow: visible; }
.chart text { font: 13px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; fill: var(--ink); }
.chart .label { font-weight: 600; } .chart .soft { fill: var(--soft); }
.chart .grid { stroke: var(--faint); } .chart .here { stroke: var(--ink); stroke-dasharray: 4 4; opacity: .7; }
.chart .line { fill: none; stroke-width: 2; } .chart .way { stroke-width: 2.5; } .chart .dot { fill-opacity: .5; }
.chart .mark { stroke: var(--paper); } .chart .area { fill-opacity: .15; }
""" + "\n".join(
    f".chart .line.{name}, .chart .way.{name} {{ stroke: var(--{name}); }} "
    f".chart .mark.{name}, .chart .dot.{name}, .chart .area.{name} {{ fill: var(--{name}); }}"
    for name in STYLES
)


def palette(selector: str) -> str:
    """Return the colours of drawings as CSS variables of what is selected, for light and dark."""
    light, dark = (" ".join(f"--{name}: {each[n]};" for name, each in COLOURS.items()) for n in (0, 1))
    return f"{selector} {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}\n"


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, its meaning in words and the table behind it; notebooks show it."""

    title: str
    meaning: str
    height: float
    drawing: Markup
    table: Table

    @property
    def svg(self) -> Markup:
        """The drawing for a page that has `STYLE` and has the variables of `palette`."""
        return self._svg(Markup(""))

    def _svg(self, style: Markup) -> Markup:
        title, meaning = plain(self.title), plain(self.meaning)
        return Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">'
            "<title>{}</title><desc>{}</desc>{}{}</svg>"
        ).format(WIDTH, self.height, f"{title}. {meaning}", title, meaning, style, self.drawing)

    def _repr_svg_(self) -> str:
        return self._svg(Markup("<style>{}</style>").format(Markup(palette(".chart") + STYLE)))

    def save(self, path: str | Path) -> None:
        """Write an .svg that brings its colours, for light and dark."""
        write_file(Path(path), self._repr_svg_().encode() + b"\n")

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "meaning": self.meaning, **self.table.to_dict()}


class Row(NamedTuple):
    """A name and where its mark is; by choice a second mark, small dots (seeds), and what stands at the right."""

    name: str
    at: Interval
    style: str = "accent"
    other: Interval | None = None
    dots: Sequence[float] = ()
    note: str | None = None


def rows(
    title: str,
    meaning: str,
    data: Sequence[Row],
    *,
    axis: str,
    here: float | None = None,
    log: bool = False,
    legend: Mapping[str, str] | None = None,
) -> Chart:
    """Draw a row for each thing: its name and number, marks, an interval; `here` is dashed, `legend` names styles."""
    marks = [mark for row in data for mark in (row.at, row.other) if mark is not None]
    scale = Scale(
        [v for mark in marks for v in mark[:3]]
        + [v for row in data for v in row.dots]
        + ([] if here is None else [here]),
        log=log,
    )
    head, top = _legend(legend or {})
    bottom = top + len(data) * ROW
    parts = [head]
    for value, words in scale.ticks(percent=bool(marks) and marks[0].form.endswith("%")):
        x = scale.between(value, PAD, WIDTH - PAD)
        parts += [_line(x, top, x, bottom, "grid"), _text(x, bottom + LINE, words, "middle")]
    if here is not None:
        x = scale.between(here, PAD, WIDTH - PAD)
        parts.append(_line(x, top, x, bottom, "here"))
    for n, row in enumerate(data):
        y = top + n * ROW + 27
        note = str(row.at) if row.note is None else row.note
        parts += [_text(0, y - 13, row.name, "start", "label"), _text(WIDTH, y - 13, note, "end")]
        for dot in (scale.between(value, PAD, WIDTH - PAD) for value in row.dots if math.isfinite(value)):
            parts.append(Markup("<circle cx='{:.1f}' cy='{:.1f}' r='3' class='dot {}'/>").format(dot, y, row.style))
        for mark, style in ((row.other, "plain"), (row.at, row.style)):
            value, low, high = (scale.between(end, PAD, WIDTH - PAD) for end in (mark or Interval(math.nan))[:3])
            parts += [_line(low, y, high, y, f"way {style}")] if math.isfinite(low + high) else []
            parts += [_mark(value, y, style)] if math.isfinite(value) else []
    parts.append(_text(WIDTH / 2, bottom + 2 * LINE, axis, "middle", "soft"))
    names = ("", "value", "low", "high")
    table = Table(title, names, [(row.name, *row.at[:3]) for row in data])
    if any(row.other for row in data):
        other = (legend or {}).get("plain", "other")
        table = Table(title, (*names, other), [(row.name, *row.at[:3], row.other and row.other.value) for row in data])
    return Chart(title, meaning, bottom + 2 * LINE + 8, Markup("").join(parts), table)


class Point(NamedTuple):
    """A place on two axes, with a band if the interval has ends, and a name if it has one."""

    x: float
    y: Interval
    name: str = ""


def lines(
    title: str,
    meaning: str,
    series: Mapping[str, Sequence[Point]],
    *,
    x: str,
    y: str,
    diagonal: bool = False,
    log: bool = False,
    joined: bool = True,
) -> Chart:
    """Draw each series through its points; `log` is of the horizontal axis, `diagonal` marks where both are equal."""
    points = [point for own in series.values() for point in own]
    origin = [0.0] if diagonal else []
    across = Scale([point.x for point in points] + origin, log=log)
    up = Scale([value for point in points for value in point.y[:3]] + origin)
    head, top = _legend({STYLES[n % len(STYLES)]: name for n, name in enumerate(series)} if len(series) > 1 else {})
    top += LINE
    right, bottom = WIDTH - PAD, top + HEIGHT

    def place(at: float, value: float) -> tuple[float, float]:
        return across.between(at, LEFT, right), up.between(value, bottom, top)

    parts = [head, _text(0, top - 8, y, "start", "soft")]
    for value, words in up.ticks():
        level = up.between(value, bottom, top)
        parts += [_line(LEFT, level, right, level, "grid"), _text(LEFT - 6, level + 4, words, "end")]
    for value, words in across.ticks():
        parts.append(_text(across.between(value, LEFT, right), bottom + LINE, words, "middle"))
    if diagonal:
        end = min(across.high, up.high)
        parts.append(_line(*place(0.0, 0.0), *place(end, end), "here"))
    for n, own in enumerate(series.values()):
        style, known = STYLES[n % len(STYLES)], [point for point in own if math.isfinite(point.y.value)]
        band = [point for point in known if math.isfinite(point.y.low + point.y.high)]
        edge = [place(p.x, p.y.low) for p in band] + [place(p.x, p.y.high) for p in reversed(band)]
        parts += [_path(edge, f"area {style}", " Z")] if len(band) > 1 and joined else []
        parts += [] if joined else [_line(*place(p.x, p.y.low), *place(p.x, p.y.high), f"way {style}") for p in band]
        parts += [_path([place(p.x, p.y.value) for p in known], f"line {style}")] if len(known) > 1 and joined else []
        for point in known:
            at, level = place(point.x, point.y.value)
            parts.append(_mark(at, level, style))
            anchor, shift = ("end", -8) if at > WIDTH / 2 else ("start", 8)
            parts += [_text(at + shift, level + 4, point.name, anchor)] if point.name else []
    parts.append(_text((LEFT + right) / 2, bottom + 2 * LINE, x, "middle", "soft"))
    cells = [(f"{name} {p.name}".strip(), p.x, *p.y[:3]) for name, own in series.items() for p in own]
    table = Table(title, ("series", x, y, "low", "high"), cells)
    return Chart(title, meaning, bottom + 2 * LINE + 8, Markup("").join(parts), table)


class Scale:
    """Finite values between two round ends, linear or logarithmic, with four or so round ticks."""

    def __init__(self, values: Iterable[float], log: bool = False) -> None:
        known = [value for value in values if math.isfinite(value) and (value > TINY or not log)] or [1.0, 10.0]
        self.log, low, high = log, min(known), max(known)
        if log:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
            round_ = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
            self.low = max(value for value in round_ if value <= low * (1 + 1e-9))
            self.high = min(value for value in round_ if value >= high * (1 - 1e-9) and value > self.low)
            inside = [value for value in round_ if self.low <= value <= self.high]
            self.places = inside if len(inside) <= 7 else [10.0**power for power in powers if 10.0**power in inside]
            return
        if high - low <= max(1e-9 * max(abs(low), abs(high)), TINY):  # one value, and nothing to compare it with
            margin = abs(high) / 10 if abs(high) > TINY else 0.1
            low, high = low - margin, high + margin
        power = 10.0 ** math.floor(math.log10((high - low) / 4))
        self.step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= (high - low) / 4 * (1 - 1e-9))
        first, last = math.floor(low / self.step + 1e-9), math.ceil(high / self.step - 1e-9)
        self.places = [n * self.step for n in range(first, last + 1)]
        self.low, self.high = self.places[0], self.places[-1]

    def ticks(self, percent: bool = False) -> list[tuple[float, str]]:
        """Return places and what stands there, with as many digits as a step needs."""
        if self.log:
            return [(value, f"{value:,.6g}") for value in self.places]
        step = self.step * (100 if percent else 1)
        digits = next((n for n in range(12) if abs(step * 10**n - round(step * 10**n)) < 1e-6 * step * 10**n), 12)
        form = f",.{digits}{'%' if percent else 'f'}"
        return [(value, f"{value + 0.0:{form}}".replace("-", "\N{MINUS SIGN}")) for value in self.places]

    def between(self, value: float, start: float, end: float) -> float:
        """Return where a value is between two ends of an axis; NaN for what has no place there."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at) if at > TINY else math.nan
        return start + (at - low) / (high - low) * (end - start)


def _legend(names: Mapping[str, str]) -> tuple[Markup, float]:
    """Return what styles mean, two a line, and the height of that."""
    parts = []
    for n, (style, name) in enumerate(names.items()):
        x, y = 6 + WIDTH / 2 * (n % 2), 8 + LINE * (n // 2)
        parts += [_mark(x, y, style), _text(x + 12, y + 4, name)]
    return Markup("").join(parts), LINE * math.ceil(len(names) / 2) + (4 if names else 0)


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='{}'/>").format(x1, y1, x2, y2, style)


def _path(points: Sequence[tuple[float, float]], style: str, closing: str = "") -> Markup:
    steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return Markup("<path d='M{}{}' class='{}'/>").format(steps, closing, style)


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> Markup:
    whole = plain(words)
    short = whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
    full = "" if short == whole else Markup("<title>{}</title>").format(whole)
    frame = Markup("<text x='{:.1f}' y='{:.1f}' text-anchor='{}' class='{}'>{}{}</text>")
    return frame.format(x, y, anchor, style, short, full)


def _mark(x: float, y: float, style: str) -> Markup:
    shapes = {
        "accent": [(0, -6), (6, 0), (0, 6), (-6, 0)],
        "third": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
        "fourth": [(0, -5), (5, 4), (-5, 4)],
    }
    if style not in shapes:
        return Markup("<circle cx='{:.1f}' cy='{:.1f}' r='4.5' class='mark {}'/>").format(x, y, style)
    corners = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in shapes[style])
    return Markup("<polygon points='{}' class='mark {}'/>").format(corners, style)
