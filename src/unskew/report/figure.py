"""A figure: a drawing with its title and description, and the numbers behind it as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from unskew.report.axes import Axis
from unskew.report.svg import element, joined, line, marker, text

WIDTH, SMALL = 400, 270  # units of drawings; letters are 13 high, which a phone shows as 11 or 12 pixels
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 24, 42


class Style(NamedTuple):
    """How a series looks: by class, which has its colour, and by shape, for whoever cannot see colours."""

    class_: str
    shape: str = "round"


PLAIN, ACCENT, THIRD = Style("plain"), Style("accent", "diamond"), Style("third", "square")


@dataclass(frozen=True)
class Table:
    """What a figure is drawn from, or a table in its own right; the first column names the row."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """`name` is unique on its page; `says` tells in words what there is to see."""

    name: str
    title: str
    says: str
    width: int
    height: float
    drawing: Markup
    data: Table

    @property
    def svg(self) -> Markup:
        return element(
            "svg",
            element("title", self.title, id=f"{self.name}-title"),
            element("desc", self.says, id=f"{self.name}-desc"),
            self.drawing,
            viewBox=f"0 0 {self.width} {self.height:.0f}",
            role="img",
            aria_labelledby=f"{self.name}-title {self.name}-desc",
        )

    @property
    def small(self) -> bool:
        return self.width == SMALL


def frame(x: Axis, y: Axis, x_name: str, y_name: str) -> Markup:
    """Grid lines, ticks and names of two axes; the vertical one is named above it, to be read without turning."""
    bottom, middle = max(y.start, y.end), (x.start + x.end) / 2
    parts = []
    for value, words in y.ticks:
        parts += [line(x.start, y(value), x.end, y(value), "grid"), text(x.start - 6, y(value) + 4, words, "end")]
    for value, words in spaced(x):
        parts += [line(x(value), bottom, x(value), bottom + 4, "tick"), text(x(value), bottom + 18, words, "middle")]
    parts.append(line(x.start, bottom, x.end, bottom, "tick"))
    parts.append(text(middle, bottom + 36, x_name, "middle", "name"))
    parts.append(text(0, min(y.start, y.end) - 12, y_name, class_="name"))
    return joined(parts)


def spaced(x: Axis) -> Iterable[tuple[float, str]]:
    """The ticks whose words do not run into those before them."""
    free = float("-inf")
    for value, words in x.ticks:
        half = 4.0 * len(words)
        if x(value) - half >= free:
            free = x(value) + half + 4
            yield value, words


def legend(entries: Sequence[tuple[str, Style]], y: float, width: float = WIDTH) -> tuple[Markup, float]:
    """Names of series beside their marks, in as many lines as they need; and the height of these."""
    parts, x, top = [], 0.0, y
    for words, style in entries:
        needed = 24 + 7.2 * len(words)
        if x and x + needed > width:
            x, y = 0.0, y + 20
        parts.append(marker(x + 7, y + 8, f"mark {style.class_}", style.shape))
        parts.append(text(x + 18, y + 12.5, words))
        x += needed + 10
    return joined(parts), y + 24 - top
