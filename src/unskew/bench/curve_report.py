"""The curve of what random ratings buy, as tables and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import unskew
from unskew.bench.curve import Curve
from unskew.bench.document import Document, Grid, Text
from unskew.bench.exam import Exam
from unskew.bench.formats import latex, markdown, page
from unskew.bench.report import empty_rule
from unskew.bench.table import LOWER_IS_BETTER, SHOWN
from unskew.files.atomic import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def document_of(curve: Curve, exam: Exam, about: Sequence[str] = ()) -> Document:
    """How it was found, and for every metric that is shown the means and what the random ratings changed."""
    setting = (
        f"unskew {unskew.__version__}. Learned from: {exam.log!r}, and from random ratings drawn out of the test, "
        f"{exam.test!r}. {curve.draws} draws, each with a fit of its own seed; every point of a draw is judged on the "
        f"same {curve.n_judged:,} test ratings, those left when the largest slice is taken. {empty_rule(exam)}"
    )
    grids = [grid for metric in SHOWN if metric in curve.points for grid in grids_of(curve, metric)]
    return Document("What random ratings buy", (*about, setting, *grids, *curve.notes))


def grids_of(curve: Curve, metric: str) -> list[Grid]:
    points = curve.points[metric]
    better = min if metric in LOWER_IS_BETTER else max
    best = {size: better(own[size].mean for own in points.values()) for size in curve.sizes}
    header = ["method", *(f"{size:,}" for size in curve.sizes)]
    means = [
        [Text(name), *(Text(str(own[size]), int(own[size].mean == best[size])) for size in curve.sizes)]
        for name, own in points.items()
    ]
    caption = f"{SHOWN[metric]} with so many random ratings: mean ± standard deviation over draws."
    grids = [Grid(caption, header, means)]
    if curve.sizes[0] == 0 and curve.draws > 1 and len(curve.sizes) > 1:
        rows = [
            [Text(name), *(Text(_change(own[size].against_none)) for size in curve.sizes[1:])]
            for name, own in points.items()
        ]
        why = f"{SHOWN[metric]} less that without random ratings, and the p-value of a paired t-test over draws."
        grids.append(Grid(why, ["method", *header[2:]], rows))
    return grids


def _change(test: object) -> str:
    difference, t = getattr(test, "difference", float("nan")), getattr(test, "t", float("nan"))
    return f"{difference:+.4f} (p {t:.1g})"


def as_csv(curve: Curve) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "metric", "random_ratings", "mean", "sd", "less_without", "p_t", "p_wilcoxon"])
    for metric, points in curve.points.items():
        for name, own in points.items():
            for size, point in own.items():
                tested = point.against_none or ("", "", "")
                writer.writerow([name, metric, size, point.mean, "" if point.sd is None else point.sd, *tested])
    return out.getvalue()


def figure_of(curve: Curve) -> Figure:
    """A panel for each metric that is shown, a line for each method, bars of a standard error over draws."""
    from matplotlib.figure import Figure

    shown = [metric for metric in SHOWN if metric in curve.points]
    figure = Figure(figsize=(0.5 + 3.6 * max(len(shown), 1), 3.6), layout="constrained")
    for axes, metric in zip(figure.subplots(1, max(len(shown), 1), squeeze=False)[0], shown, strict=False):
        for name, own in curve.points[metric].items():
            bars = [(point.sd or 0.0) / curve.draws**0.5 for point in own.values()]
            axes.errorbar(list(own), [point.mean for point in own.values()], bars, marker="o", capsize=2, label=name)
        axes.set_xscale("symlog", linthresh=max(curve.sizes[-1] / 20, 1))
        axes.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes])
        axes.set(xlabel="random ratings", title=SHOWN[metric])
        axes.grid(alpha=0.3)
    if shown:
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def publish(curve: Curve, exam: Exam, out: Path, about: Sequence[str] = ()) -> None:
    """curve.csv, .md, .tex, .html, .svg and .png in a folder."""
    document = document_of(curve, exam, about)
    files = {
        "curve.csv": as_csv(curve).encode(),
        "curve.md": markdown(document).encode(),
        "curve.tex": latex(document).encode(),
        "curve.html": page(document).encode(),
    }
    figure = figure_of(curve)
    for ending in ("svg", "png"):
        stream = io.BytesIO()
        figure.savefig(stream, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else None)
        files[f"curve.{ending}"] = stream.getvalue()
    for name, data in files.items():
        write_file(out / name, data)
