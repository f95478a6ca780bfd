"""A suite's findings as data, picture and page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from unskew.bench.document import Document, Grid, Picture, Text, comparisons
from unskew.bench.formats import markdown, page
from unskew.bench.table import NAIVE, standing
from unskew.files.atomic import write_file
from unskew.reproduce.pictures import drawn
from unskew.reproduce.rows import Found, Row, heading, places, shown
from unskew.reproduce.suite import DatasetFacts, Suite

PAPER = (
    "W. Kweon and H. Yu, Doubly Calibrated Estimator for Recommendation on Data Missing Not At Random, WWW 2024 "
    "(CC BY 4.0)"
)
ENDINGS = ("csv", "svg", "png", "md", "html")


def publish(
    suite: Suite,
    facts: DatasetFacts,
    rows: Sequence[Row],
    about: Sequence[str],
    notes: Sequence[str | Grid],
    stem: Path,
) -> list[Path]:
    """Write stem.csv, .svg, .png, .md and .html; the same to the byte whenever the same was found.

    On the page `about` comes before the findings and `notes` after them.
    """
    svg, png = drawn(suite, facts, rows)
    picture = Picture(f"{suite.number}: {suite.title}", stem.with_suffix(".svg").name, svg.decode())
    tests = _tests(rows) if suite.tested else ()
    document = Document(
        f"{suite.number} on {facts.title}: {suite.title}",
        (f"After {suite.number} of {PAPER}.", *about, results(rows), picture, *_released(rows), *tests, *notes),
    )
    contents = (as_csv(rows).encode(), svg, png, markdown(document).encode(), page(document).encode())
    paths = [stem.with_suffix(f".{ending}") for ending in ENDINGS]
    for path, content in zip(paths, contents, strict=True):
        write_file(path, content)
    return paths


def results(rows: Sequence[Row], beside_paper: bool = True) -> Grid:
    """Every entry by every quantity, and where the paper has a number, that too."""
    quantities = list(rows[0].found)
    ranks = {quantity: list(places(rows, quantity)) for quantity in quantities}
    with_paper = [q for q in quantities if beside_paper and any(row.found[q].paper is not None for row in rows)]
    header = ["entry", *(name for q in quantities for name in [heading(q), *(["paper"] if q in with_paper else [])])]
    lines = []
    for number, row in enumerate(rows):
        line = [Text(row.name)]
        for q in quantities:
            line.append(Text(_ours(q, row.found[q]), ranks[q][number]))
            if q in with_paper:
                line.append(Text(_spread(q, row.found[q].paper, row.found[q].paper_sd)))
        lines.append(line)
    several = "Mean ± standard deviation over seeds. " if any(len(row.scores) > 1 for row in rows) else ""
    ranked = "Best and runner-up are marked. " if any(rank for column in ranks.values() for rank in column) else ""
    return Grid(f"{several}{ranked}".strip() or "What was counted.", header, lines)


def _ours(quantity: str, found: Found) -> str:
    return "–" if found.mean is None else _spread(quantity, found.mean, found.sd)


def _spread(quantity: str, mean: float | None, sd: float | None) -> str:
    if mean is None:
        return ""
    constant = sd is None or (quantity == "parameters" and sd == 0)
    return shown(quantity, mean) + ("" if constant or sd is None else f" ± {shown(quantity, sd)}")


def _released(rows: Sequence[Row]) -> Iterator[Grid]:
    """How far we are from what the released code gives, where that is known."""
    lines = [
        [Text(f"{row.name}, {heading(quantity)}")]
        + [Text(f"{value:.4f}") for value in (found.released, found.mean)]
        + [Text(f"{found.mean - found.released:+.4f}")]
        for row in rows
        for quantity, found in row.found.items()
        if found.released is not None and found.mean is not None
    ]
    if lines:
        yield Grid("Against what the authors' released code gives.", ["", "released", "ours", "difference"], lines)


def _tests(rows: Sequence[Row]) -> Iterator[Grid]:
    """Who differs from whom by whatever can be better or worse, if there were several seeds."""
    scores = {NAIVE if row.name.lower() == NAIVE else row.name: row.scores for row in rows if row.scores}
    for quantity in rows[0].found:
        if any(places(rows, quantity)):
            yield from comparisons(standing(quantity, scores), said=heading(quantity).rstrip(" ↓↑"))


def as_csv(rows: Sequence[Row]) -> str:
    """A line for every entry and quantity; what is not known is left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["entry", "quantity", "seeds", *Found._fields])
    for row in rows:
        for quantity, found in row.found.items():
            writer.writerow([row.name, quantity, len(row.scores), *("" if v is None else v for v in found)])
    return out.getvalue()
