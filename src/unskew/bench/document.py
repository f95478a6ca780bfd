"""A table as a document of paragraphs and grids, before it is written in any format."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unskew.bench.table import LOWER_IS_BETTER, NAIVE, SHOWN, Standing, Table, Versus


class Text(NamedTuple):
    """The text of a cell; the best and the second best are marked."""

    text: str
    place: int = 0


@dataclass(frozen=True)
class Grid:
    """A caption, a line of headings and lines of cells."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Text]]


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, and the name of the file beside the document that holds it."""

    caption: str
    file: str
    svg: str


@dataclass(frozen=True)
class Document:
    title: str
    blocks: tuple[str | Grid | Picture, ...]


def document_of(table: Table) -> Document:
    """How it was found, the means, who differs from whom, what was chosen, and what went wrong."""
    grids = [results(table), *(grid for standing in table.shown for grid in comparisons(standing))]
    return Document(table.title, (*table.setting, *grids, *chosen(table.choices), *table.notes))


def chosen(choices: Sequence[Sequence[str]]) -> list[Grid]:
    """What searches have chosen, if there were any."""
    return [Grid("What was chosen, by validation alone.", CHOICES, _plain(choices))] if choices else []


CHOICES = ("method", "best trial", "its score", "score of the defaults", "failed trials", "chosen")


def results(table: Table) -> Grid:
    """The means of every method by every metric that is shown."""
    rows = []
    for method in table.methods:
        found = (standing.cells.get(method) for standing in table.shown)
        rows.append(
            [Text(method), *(Text("failed") if cell is None else Text(str(cell), cell.place) for cell in found)]
        )
    header = ["method", *(_heading(standing.metric) for standing in table.shown)]
    return Grid("Mean ± standard deviation over seeds; the best and the runner-up are marked.", header, rows)


def comparisons(standing: Standing, said: str = "") -> Iterator[Grid]:
    """Who differs from the best competitor and from Naive by one metric, `said` so; nothing if nothing was compared."""
    if not standing.best_competitor:
        return
    tests, beside = ["p (t)", "p (Wilcoxon)"], bool(standing.naive)
    header = ["method", "best competitor", "minus it", *tests, *(["minus naive", *tests] if beside else [])]
    rows = []
    for method, rival in standing.best_competitor.items():
        naive = standing.naive.get(method)
        cells = [method, rival.other, *_tested(rival), *(["", "", ""] * beside if naive is None else _tested(naive))]
        rows.append([Text(cell) for cell in cells])
    caption = (
        f"{said or SHOWN.get(standing.metric, standing.metric)}: each method against the best of the others"
        f"{f' and against {NAIVE}' if beside else ''}, mean difference over seeds and p-values of paired tests, "
        "corrected by Holm over the pairs compared."
    )
    yield Grid(caption, header, rows)


def _tested(versus: Versus) -> list[str]:
    return [f"{versus.difference:+.4f}", f"{versus.t_holm:.2g}", f"{versus.wilcoxon_holm:.2g}"]


def _heading(metric: str) -> str:
    return f"{SHOWN[metric]} {'↓' if metric in LOWER_IS_BETTER else '↑'}"


def _plain(rows: Sequence[Sequence[str]]) -> list[list[Text]]:
    return [[Text(cell) for cell in row] for row in rows]


def as_csv(table: Table) -> str:
    """Every method by every metric, one to a line, with all p-values as they are and corrected."""
    tests = [f"{of}_{name}" for of in ("best_competitor", "naive") for name in Versus._fields if name != "other"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "metric", "mean", "sd", "place", "best_competitor", *tests])
    for method in table.methods:
        for standing in table.standings.values():
            cell, rival = standing.cells.get(method), standing.best_competitor.get(method)
            values = ["", "", ""] if cell is None else list(cell)
            blank = [""] * 5
            tested = [
                *(blank if rival is None else rival[1:]),
                *(standing.naive[method][1:] if method in standing.naive else blank),
            ]
            writer.writerow([method, standing.metric, *values, "" if rival is None else rival.other, *tested])
    return out.getvalue()
