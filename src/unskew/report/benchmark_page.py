"""A benchmark as one HTML page: who is best, whether that is more than chance, what it cost and how it was tuned."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from unskew.bench.protocol import Benchmark
from unskew.report.page import rendered
from unskew.store.atomic import write_file

LIMITS = (
    "If the test's pairs were drawn at random, its figures are about all pairs; if it was set aside from the log, they "
    "are about what people choose to rate, and flatter whatever shares its bias.",
    "The spread over seeds is that of training, not over other logs: small differences may not carry over to other "
    "data, however small their p-values.",
)


def benchmark_page(folder: Path) -> str:
    """Return the page about the results in a folder, by its record alone."""
    found = Benchmark.read(folder)
    sections = [
        ("What was found", [found.results()], found.charts(), found.notes),
        ("Is it more than chance?", found.tests(), [], ()),
        ("What a fit takes", [found.costs()], [], ()),
        ("How settings were chosen", [found.chosen()] if found.choices else [], [], ()),
    ]
    facts = [(name, str(value)) for name, value in found.facts.items() if value]
    about = f"{len(found.methods)} methods \N{MIDDLE DOT} {folder.name}"
    lead = " ".join(found.setting)
    return rendered(
        "benchmark.html", headline=found.headline, lead=lead, about=about, sections=sections, limits=LIMITS, facts=facts
    )


def write_benchmark_page(folder: str | PathLike[str], path: str | PathLike[str]) -> None:
    """Write the page, whole or not at all."""
    write_file(Path(path), benchmark_page(Path(folder)).encode())
