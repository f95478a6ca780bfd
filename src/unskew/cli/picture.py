"""The demo as a picture: for each method the error its log promises and the error it makes."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unskew.demo import Demo

CLAIMED, TRUE, GAP = "#7f7f7f", "#c44e2b", "#d9d9d9"


def as_png(demo: Demo) -> bytes:
    """Two dots a method, joined by what the method does not know about itself."""
    from matplotlib.figure import Figure

    rows = demo.rows
    places = range(len(rows))
    figure = Figure(figsize=(8, 1.8 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    claimed, true = [row.claimed_risk for row in rows], [row.true_risk for row in rows]
    axes.hlines(places, claimed, true, color=GAP, linewidth=5, zorder=1)
    axes.scatter(claimed, places, s=90, color=CLAIMED, label="error by its own log", zorder=2)
    axes.scatter(true, places, s=90, color=TRUE, marker="D", label="true error over all pairs", zorder=3)
    axes.set_yticks(places, [row.method for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.1, y=0.25)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"mean squared error (at best {demo.least_risk:.4f})")
    axes.set_title(
        f"{demo.liked_in_log:.0%} of the log is liked, {demo.liked_in_world:.0%} of the world", loc="left", fontsize=11
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=150)
    return stream.getvalue()
