"""Findings as one HTML page of two printed sheets at most, and a benchmark as another."""

from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from unskew import charts
from unskew._version import __version__
from unskew.bench.protocol import Benchmark
from unskew.findings import Finding, Findings, Table, plain
from unskew.store.atomic import write_file

LONGEST = 60  # letters of a name in a table
KEYS = ("data", "bias", "gain", "calibration", "lists", "reach", "assumption")
QUESTIONS = {
    "data": "What does the log hold?",
    "bias": "Is the log biased?",
    "gain": "Is this model better than plain training?",
    "lists": "What will people notice?",
}
LIMITS = (
    "If the test's pairs were drawn at random, its figures are about all pairs; if it was set aside from the log, they "
    "are about what people choose to rate, and flatter whatever shares its bias.",
    "The spread over seeds is that of training, not over other logs: small differences may not carry over to other "
    "data, however small their p-values.",
)


@cache
def environment() -> jinja2.Environment:
    """Templates that escape whatever they are given, and fail where something is missing."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("unskew.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"coded": coded, "short": short}
    return found


def coded(words: str) -> Markup:
    """Return text with what stands between backticks as code."""
    parts = words.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else escape(part)
        for n, part in enumerate(parts)
    )


def short(table: Table) -> Table:
    """Return the table with names that are not too long to be shown, and nothing in them that a page would obey."""
    rows = [[_cut(cell) if isinstance(cell, str) else cell for cell in row] for row in table.rows]
    return Table(table.caption, [_cut(name) for name in table.header], rows, table.strong)


def _cut(words: str) -> str:
    known = plain(words)
    return known if len(known) <= LONGEST else known[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def rendered(template: str, **facts: Any) -> str:
    """Return a template with the style of all pages."""
    source, _, _ = jinja2.PackageLoader("unskew.report", "templates").get_source(environment(), "style.css")
    style = Markup(charts.palette(":root") + charts.STYLE + "\n" + source)
    return environment().get_template(template).render(style=style, version=__version__, **facts) + "\n"


def page(findings: Findings, *, command: str = "", log: str = "", seed: int = 0) -> str:
    """Return the page about a log or a model; `command` made it, `log` is the fingerprint of the log."""
    known: dict[str, Finding | None] = dict.fromkeys(KEYS) | {one.key: one for one in findings}
    asked = ((question, known[key]) for key, question in QUESTIONS.items())
    sections = [(question, one) for question, one in asked if one is not None and (one.key != "data" or one.chart)]
    stated = " ".join([one.meaning for _, one in sections] + [one.rests_on for one in findings])
    facts = {"headline": findings.label, "about": findings.about, "stated": stated, "findings": findings}
    made = {"command": command, "log": log, "seed": seed}
    return rendered("page.html", sections=sections, known=known, **facts, **made)


def benchmark_page(folder: Path) -> str:
    """Return the page about a benchmark by its record: who is best, is it chance, what fits took, what was tuned."""
    found = Benchmark.read(folder)
    sections = [
        ("What was found", [found.results()], found.charts(), found.notes),
        ("Is it more than chance?", found.tests(), [], ()),
        ("What a fit takes", [found.costs()], [], ()),
        ("How settings were chosen", [found.chosen()] if found.choices else [], [], ()),
    ]
    facts = [(name, _listed(value)) for name, value in found.facts.items() if value]
    about = f"{len(found.methods)} methods \N{MIDDLE DOT} {folder.name}"
    lead = " ".join(found.setting)
    return rendered(
        "benchmark.html", headline=found.headline, lead=lead, about=about, sections=sections, limits=LIMITS, facts=facts
    )


def _listed(value: Any) -> str:
    """Return a fact as words: a mapping by its entries."""
    return ", ".join(f"{name} {x}" for name, x in value.items()) if isinstance(value, dict) else str(value)


def write_page(about: Findings | Path, path: str | PathLike[str], **facts: Any) -> None:
    """Write the page of findings or of a benchmark's folder, whole or not at all; facts as those of `page`."""
    html = benchmark_page(about) if isinstance(about, Path) else page(about, **facts)
    write_file(Path(path), html.encode())
