"""The page about a benchmark, built from its records alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from unskew.bench.document import Grid, comparisons, results
from unskew.bench.table import LOWER_IS_BETTER, NAIVE, SHOWN, Standing, Versus
from unskew.bench.table import Table as Standings
from unskew.report.figure import Figure, Table
from unskew.report.fits import Fits, Tuned
from unskew.report.names import shown
from unskew.report.page import Page, Section
from unskew.report.rows import Row, Rows, beams, strips

SURE = 0.05  # of a p-value, after correction
MARKS = {1: " ¹", 2: " ²"}


class Head(NamedTuple):
    headline: str
    lede: str
    about: str


class CostFacts(NamedTuple):
    figures: tuple[Figure, ...]
    table: Table


class ResultFacts(NamedTuple):
    table: Table
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


class TuningFacts(NamedTuple):
    table: Table | None
    criterion: str


def records_page(file: Path) -> Page:
    """Means, spread, significance and cost of every method of a benchmark."""
    fits = Fits.read(file)
    table = fits.table
    pairs = tuple(as_table(grid) for standing in table.shown for grid in comparisons(standing))
    sections = (
        Section("results", "Results", "What was found", "results.html", _results(fits, table)),
        Section("significance", "Significance", "Is it more than chance?", "significance.html", pairs),
        Section("costs", "Costs", "Time and memory", "costs.html", _costs(fits)),
        Section("tuning", "Tuning", "How settings were chosen", "tuning.html", _tuning(fits.tuned)),
        Section("limits", "Limits", "Limits", "limits.html", _limits(fits)),
        Section("reproduce", "Reproduce", "How to reproduce it", "facts.html", _facts(fits)),
    )
    n_complete = len(fits.costs)
    about = f"{len(fits.methods)} methods · {fits.seeds} {'seed' if fits.seeds == 1 else 'seeds'} · {file.name}"
    head = Head(*_summary(table, n_complete), about)
    return Page(f"Report on a benchmark of {len(fits.methods)} methods", "benchmark.html", head, sections)


def as_table(grid: Grid) -> Table:
    """Places become marks that can be read aloud and printed."""
    rows = [[shown(cell.text) + MARKS.get(cell.place, "") for cell in row] for row in grid.rows]
    return Table(grid.caption, tuple(grid.header), rows)


def _summary(table: Standings, n_complete: int) -> tuple[str, str]:
    """Who is best by the first metric, and against whom that is more than chance."""
    if not table.shown or not table.shown[0].cells:
        return "No method has a result for every seed.", "Run the benchmark again: it goes on where it ended."
    first = table.shown[0]
    best = min(first.cells, key=lambda method: first.cells[method].place)
    way = "lowest" if first.metric in LOWER_IS_BETTER else "highest"
    headline = f"{shown(best)} has the {way} {SHOWN[first.metric]} of {n_complete} methods."
    lede = [f"It is {first.cells[best]}.", *_tested(first, best)]
    others = [_leader(standing) for standing in table.shown[1:] if standing.cells]
    return headline, " ".join([*lede, *others])


def _tested(standing: Standing, best: str) -> list[str]:
    said = []
    if (rival := standing.best_competitor.get(best)) is not None:
        said.append(f"The runner-up is {shown(rival.other)}, {abs(rival.difference):.4f} behind: {_sure(rival)}.")
    if (naive := standing.naive.get(best)) is not None:
        gain = f"it gains {abs(naive.difference):.4f}: {_sure(naive)}"
        said.append(f"Against the naive method, which ignores bias, {gain}.")
    return said


def _sure(versus: Versus) -> str:
    words = "beyond chance" if versus.t_holm < SURE else "that may be chance"
    return f"{words} (p = {versus.t_holm:.2g}, paired t-test, corrected)"


def _leader(standing: Standing) -> str:
    best = min(standing.cells, key=lambda method: standing.cells[method].place)
    return f"Best by {SHOWN[standing.metric]} is {shown(best)} ({standing.cells[best]})."


def _results(fits: Fits, table: Standings) -> ResultFacts:
    figures = tuple(_spread(fits, standing, number) for number, standing in enumerate(table.shown) if standing.cells)
    return ResultFacts(as_table(results(table)), figures, table.notes)


def _spread(fits: Fits, standing: Standing, number: int) -> Figure:
    """Every seed of every method, the best method first."""
    name, cells = SHOWN[standing.metric], standing.cells
    ordered = sorted(cells, key=lambda method: cells[method].place)
    rows = [
        Row(shown(method), (*fits.of(method, standing.metric), cells[method].mean), str(cells[method]), None, n == 0)
        for n, method in enumerate(ordered)
    ]
    way = "lower" if standing.metric in LOWER_IS_BETTER else "higher"
    chart = Rows(
        f"spread-{number}",
        f"{name} of every method and seed",
        f"A dot is a seed, a line the mean; {way} is better. {shown(ordered[0])} is best with {cells[ordered[0]]}, "
        f"{shown(ordered[-1])} last with {cells[ordered[-1]]}.",
        f"{name} ({way} is better)",
        reference=cells[NAIVE].mean if NAIVE in cells else None,
    )
    header = ("method", *(f"seed {seed}" for seed in range(fits.seeds)), "mean")
    return strips(chart, rows, header)


def _costs(fits: Fits) -> CostFacts:
    costs = fits.costs
    header = ("method", "seconds", "± over seeds", "peak megabytes", "parameters")
    rows = [
        (
            shown(method),
            f"{cost['mean_seconds']:.2f}",
            f"{cost['sd_seconds']:.2f}",
            f"{cost['peak_megabytes']:,.0f}",
            f"{cost['parameters']:,.0f}",
        )
        for method, cost in costs.items()
    ]
    figures = (
        _beams("seconds", "Seconds a fit takes", "mean_seconds", costs, lambda value: f"{value:.2f} s"),
        _beams("memory", "Peak memory", "peak_megabytes", costs, lambda value: f"{value:,.0f} MB"),
    )
    return CostFacts(figures if costs else (), Table("What a fit takes", header, rows))


def _beams(name: str, title: str, key: str, costs: dict[str, dict[str, float]], told: Callable[[float], str]) -> Figure:
    values = {shown(method): cost[key] for method, cost in costs.items()}
    ordered = sorted(values, key=lambda method: values[method])
    rows = [Row(method, (values[method],), told(values[method])) for method in ordered]
    says = ""
    if ordered:
        least, most = ordered[0], ordered[-1]
        says = f"From {told(values[least])} for {least} to {told(values[most])} for {most}."
    chart = Rows(f"cost-{name}", title, says, title.lower(), show=told, zero=True)
    return beams(chart, rows, ("method", title.lower()))


def _tuning(tuned: tuple[Tuned, ...]) -> TuningFacts:
    if not tuned:
        return TuningFacts(None, "")
    header = ("method", "trials", "failed", "score as it was", "best score")
    rows = [
        (shown(one.method), str(one.n_trials), str(one.n_failed), _told(one.first), _told(one.best)) for one in tuned
    ]
    return TuningFacts(Table("Trials of every method", header, rows), tuned[0].criterion)


def _told(score: float | None) -> str:
    return "failed" if score is None else f"{score:.4f}"


def _limits(fits: Fits) -> list[str]:
    said = [
        "The test decides what these figures mean. If its pairs were drawn at random, they speak about all pairs; if "
        "it was set aside from the log, they speak about what people choose to rate, and flatter "
        "whatever shares its bias.",
        "The spread over seeds is that of training: start, order of batches, held-out part. It is not the spread "
        "over other logs, so small differences may not carry over to other data, however small their p-values.",
        "Seconds depend on what else the machine did, and memory on what the process had loaded before.",
    ]
    if fits.n_replaced:
        said.append(f"{fits.n_replaced:,} fits were made again with other settings or versions; the last counts.")
    if fits.n_cut_short:
        said.append("The last line of the records was cut short; its fit is not on this page.")
    incomplete = [shown(method) for method in fits.methods if method not in fits.costs]
    if incomplete:
        said.append(f"Not all seeds are there of {', '.join(incomplete)}: left out of means and tests.")
    return said


def _facts(fits: Fits) -> list[tuple[str, str]]:
    known = [
        ("Versions", ", ".join(f"{name} {number}" for name, number in fits.versions.items())),
        ("Seeds", "0" if fits.seeds == 1 else f"0 to {fits.seeds - 1}"),
        ("Settings chosen by", str(fits.facts.get("criterion", "")) if fits.tuned else ""),
        ("Users without a liked test pair", str(fits.facts.get("empty_users", ""))),
        ("Fingerprint of the log", str(fits.facts.get("log", ""))),
        ("Fingerprint of the test", str(fits.facts.get("test", ""))),
        ("Simulated world", str(fits.facts.get("world") or "")),
        ("Training", _settings(fits.facts.get("training"))),
    ]
    return [(name, shown(value, 400)) for name, value in known if value]


def _settings(training: Any) -> str:
    if not isinstance(training, dict):
        return ""
    return ", ".join(f"{name} {value}" for name, value in training.items() if name not in ("kind", "progress"))
