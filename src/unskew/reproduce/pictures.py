"""How suites are drawn: dots for tables, points and lines for figures, bars for counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from unskew.reproduce.rows import Found, Row, heading
from unskew.reproduce.suite import DatasetFacts, Suite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, PAPER, GRID = "#c44e2b", "#7f7f7f", "#d9d9d9"
COLOURS = ("#c44e2b", "#2b6cc4", "#3a9a5b", "#8a5bb0", "#b08a2b")
MARKS = "osD^vPX*"
WIDE = frozenset({"seconds", "parameters"})  # on logarithmic axes
FORMATS: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 150}}


def drawn(suite: Suite, facts: DatasetFacts, rows: Sequence[Row]) -> tuple[bytes, bytes]:
    """The picture as SVG and as PNG."""
    import matplotlib

    panels = [(x, facts.quantity(y)) for x, y in suite.panels or [("entry", name) for name in suite.quantities]]
    with matplotlib.rc_context({"svg.hashsalt": "unskew", "font.size": 10}):
        figure = PICTURES[suite.picture](panels, rows)
        figure.suptitle(f"{suite.title} ({facts.title})", x=0.01, ha="left", fontsize=12)
        svg, png = (_saved(figure, kind) for kind in ("svg", "png"))
    return svg, png


def _saved(figure: Figure, kind: str) -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format=kind, **FORMATS[kind])
    return stream.getvalue()


def dots(panels: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Figure:
    """A panel a quantity, a line an entry: our mean with its spread, and the paper's."""
    figure, axes = _panels(len(panels), 1.5 + 2.3 * len(panels), 1.6 + 0.32 * len(rows), sharey=True)
    for at, (_, quantity) in zip(axes, panels, strict=True):
        found = [row.found[quantity] for row in rows]
        if quantity in WIDE:
            _logarithmic(at)
        at.hlines(range(len(rows)), 0, 1, transform=at.get_yaxis_transform(), color=GRID, linewidth=0.6, zorder=0)
        _markers(at, [f.paper for f in found], [f.paper_sd for f in found], color=PAPER, marker="D", label="paper")
        _markers(at, [f.mean for f in found], [f.sd for f in found], color=OURS, marker="o", label="ours")
        at.set_xlabel(heading(quantity))
        _tidy(at)
    axes[0].set_yticks(range(len(rows)), [row.name for row in rows])
    axes[0].invert_yaxis()
    _legend(figure, axes)
    return figure


def _markers(at: Any, means: Sequence[float | None], sds: Sequence[float | None], **style: Any) -> None:
    known = [number for number, mean in enumerate(means) if mean is not None]
    if known:
        spread = [sds[number] or 0.0 for number in known]
        at.errorbar([means[number] for number in known], known, xerr=spread, linestyle="", markersize=5, **style)


def scatter(panels: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Figure:
    """One quantity against another, a colour a series and a shape a mark."""
    figure, axes = _panels(len(panels), 4.8 * len(panels), 4.6)
    series, marks = (_places(rows, name) for name in ("series", "mark"))
    for at, (x, y) in zip(axes, panels, strict=True):
        for row in rows:
            one, other = row.found[x], row.found[y]
            if one.mean is None or other.mean is None:
                continue
            colour = COLOURS[series.index(row.place["series"]) % len(COLOURS)]
            marker = MARKS[marks.index(row.place["mark"]) % len(MARKS)]
            label = f"{row.place['series']}, {row.place['mark']}"
            style = {"color": colour, "marker": marker, "label": label, "linestyle": "", "markersize": 8}
            at.errorbar(one.mean, other.mean, xerr=one.sd or 0, yerr=other.sd or 0, elinewidth=0.8, **style)
        at.set(xlabel=heading(x), ylabel=heading(y))
        _tidy(at)
    _legend(figure, axes, columns=2)
    return figure


def lines(panels: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Figure:
    """A quantity over a place on a logarithmic axis, a line a series, with its spread."""
    figure, axes = _panels(len(panels), 3.6 * len(panels), 3.8)
    for at, (x, y) in zip(axes, panels, strict=True):
        ticks = sorted({row.place[x] for row in rows})
        for number, name in enumerate(_places(rows, "series")):
            own = [row for row in rows if row.place["series"] == name and row.found[y].mean is not None]
            means, sds = [row.found[y].mean for row in own], [row.found[y].sd or 0.0 for row in own]
            style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number], "elinewidth": 0.8, "label": name}
            aside = 1.04**number  # so that bars of two series do not hide each other
            at.errorbar([row.place[x] * aside for row in own], means, yerr=sds, capsize=2, **style)
        at.set_xscale("log")
        at.set_xticks(ticks, [str(tick) for tick in ticks])
        at.minorticks_off()
        at.set(xlabel=f"number of {x}", ylabel=heading(y))
        _tidy(at)
    _legend(figure, axes)
    return figure


def counts(panels: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Figure:
    """What was counted as bars on a logarithmic axis, beside shares as they are."""
    figure, axes = _panels(2, 9.0, 3.2)
    found = {y: rows[0].found[y] for _, y in panels}
    whole = {name: one for name, one in found.items() if one.mean is not None and one.mean > 1}
    _bars(axes[0], whole)
    _logarithmic(axes[0])
    axes[0].set_xlabel("count")
    _bars(axes[1], {name: one for name, one in found.items() if name not in whole})
    axes[1].set_xlabel("share")
    _legend(figure, axes)
    return figure


def _bars(at: Any, found: dict[str, Found]) -> None:
    found = {heading(name): one for name, one in found.items()}
    at.barh(list(found), [one.mean or 0.0 for one in found.values()], color=OURS, height=0.55, label="ours")
    stated = [(name, one.paper) for name, one in found.items() if one.paper is not None]
    if stated:
        at.plot([value for _, value in stated], [name for name, _ in stated], "D", color=PAPER, label="paper")
    for name, one in found.items():
        if one.mean is not None:
            at.annotate(
                f"{one.mean:,.4g}" if one.mean < 1 else f"{one.mean:,.0f}",
                (one.mean, name),
                (4, 7),
                textcoords="offset points",
                fontsize=9,
            )
    at.invert_yaxis()
    at.margins(x=0.25)
    _tidy(at)


def _panels(count: int, width: float, height: float, **shared: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False, **shared)[0]


def _logarithmic(at: Any) -> None:
    at.set_xscale("log")
    at.xaxis.set_minor_formatter("")  # whose labels run into each other


def _places(rows: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row.place[name] for row in rows))


def _tidy(at: Any) -> None:
    at.grid(alpha=0.3)
    at.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Any, columns: int = 4) -> None:
    """One for all panels, below them; of an error bar the mark alone."""
    named: dict[str, Any] = {}
    for at in axes:
        for handle, label in zip(*at.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle[0] if isinstance(handle, tuple) else handle)
    if len(named) > 1:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, frameon=False)


PICTURES: dict[str, Callable[[Sequence[tuple[str, str]], Sequence[Row]], Figure]] = {
    "dots": dots,
    "scatter": scatter,
    "lines": lines,
    "counts": counts,
}
