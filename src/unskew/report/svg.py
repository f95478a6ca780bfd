"""SVG as text: elements whose contents are escaped, and numbers no longer than a screen can show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape


def element(name: str, *children: Any, **attributes: Any) -> Markup:
    """<name ...>children</name>; `class_` is class, `text_anchor` is text-anchor, and what is None is left out."""
    told = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), written(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), told, joined(children))


def joined(parts: Iterable[Any]) -> Markup:
    """Parts one after the other; whatever is no markup is escaped."""
    return Markup("").join(escape(part) for part in parts)


def written(value: Any) -> str:
    """A tenth of a pixel is all that can be seen."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: Any, anchor: str = "start", class_: str | None = None) -> Markup:
    return element("text", words, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str, *, closed: bool = False) -> Markup:
    """A line through points."""
    steps = " L".join(f"{written(float(x))} {written(float(y))}" for x, y in points)
    return element("path", d=f"M{steps}{' Z' if closed else ''}", class_=class_)


def marker(x: float, y: float, class_: str, shape: str = "round", size: float = 4.5) -> Markup:
    """A mark that differs by shape as well as by colour."""
    if shape == "round":
        return element("circle", cx=float(x), cy=float(y), r=size, class_=class_)
    side = 1.8 * size
    turned = None if shape == "square" else f"rotate(45 {written(float(x))} {written(float(y))})"
    return element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, transform=turned, class_=class_)
