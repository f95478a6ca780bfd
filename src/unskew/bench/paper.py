"""Tables and figures of the DCE paper (Kweon & Yu, WWW 2024, CC BY 4.0) made anew, its numbers next to ours.

What they compare are TOML files of `unskew/suites`: entries have a method, its settings, the paper's numbers and, in
`published`, what public code does instead.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from unskew.bench.protocol import RECORDS, Setup, made_folder, measured
from unskew.bench.run import opened
from unskew.bench.search import Validation
from unskew.bench.standings import Figure, Standing, standing
from unskew.charts import Chart, Point, Row, lines, rows
from unskew.data.log import RatingLog
from unskew.datasets.world import World
from unskew.errors import ParameterError, nearest
from unskew.findings import Interval, Table
from unskew.methods.base import Method
from unskew.methods.calibrated import DoublyCalibrated
from unskew.metrics.ranking import POSITIVE_FROM, EmptyUsers
from unskew.registry import make, registered, settings_of
from unskew.store.atomic import write_file
from unskew.store.recipe import from_plain
from unskew.training.options import Training

TARGETS = ("table1", "table2", "table3", "figure1", "figure2", "figure3")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """How a dataset is tested, what the paper counts in it, and how public code trains on it, by method."""

    name: str
    title: str
    cutoffs: tuple[int, int]
    empty_users: EmptyUsers
    paper: Mapping[str, float] = field(default_factory=dict)
    published_training: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def figure(self, of_suite: str) -> str:
        """Return the name with a cut-off of this dataset for the first and the second one."""
        return of_suite.replace("@first", f"@{self.cutoffs[0]}").replace("@second", f"@{self.cutoffs[1]}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a table or a point of a figure; `place` is where a chart has it."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Sequence[float]] = field(default_factory=dict)
    paper_sd: Mapping[str, Sequence[float]] = field(default_factory=dict)
    released: Mapping[str, Sequence[float]] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self, dataset: Dataset, common: Mapping[str, Any] | None) -> tuple[str, Method]:
        """Return a key by which equal recipes of several suites are one, and the method.

        `common`, given as published, are settings for every method that has them and no published form of its own. A
        published form has the dataset's own settings; `base_of` makes it the base of a calibrated one.
        """
        method, settings, calibrated = self.method, dict(self.settings), None
        if common is not None and self.published:
            method = self.published.get("method", method)
            calibrated = {**dataset.published.get(method, {}), **self.published}.get("base_of")
            method = calibrated or method
            own = settings_of(make(method))
            named = calibrated or "method" in self.published
            usual = {} if named else {key: value for key, value in common.items() if key in own}
            settings = usual | settings | dict(dataset.published.get(method, {})) | self.published.get("settings", {})
        plain = [json.dumps(settings, sort_keys=True)] if settings else []
        key = " ".join([f"base of {method}" if calibrated else method, *plain])
        made = make(method, **{setting: _part(value) for setting, value in settings.items()})
        return key, _uncorrected(made.base if calibrated and isinstance(made, DoublyCalibrated) else made)


def _part(value: Any) -> Any:
    """Return a setting as Python has it: a recipe for a table with a kind, and None, which TOML lacks."""
    return from_plain(value) if isinstance(value, dict) else None if value == "none" else value


def _uncorrected(method: Method) -> Method:
    """Return the method with calibrators that stand as they are fitted, as in the paper, and never step back."""
    if not isinstance(method, DoublyCalibrated):
        return method
    propensity, imputation = (
        part and replace(part, step_back=False) for part in (method.propensity, method.imputation)
    )
    return replace(method, propensity=propensity, imputation=imputation)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table or a figure: its entries, and the figures that are shown."""

    target: str
    title: str
    number: str
    quantities: tuple[str, ...]
    picture: str = "rows"
    panels: tuple[tuple[str, str], ...] = ()  # axes of pictures of points, the next for a simulated world alone
    world_panels: tuple[tuple[str, str], ...] = ()
    tested: bool = False
    published: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()

    def on(self, dataset: Dataset, only: Sequence[str] = ()) -> Suite:
        """Return the suite with a dataset's cut-offs and these entries alone, or all if none is named."""
        known = {entry.name: entry for entry in self.entries}
        for wanted in only:
            if wanted not in known:
                raise ParameterError(f"{self.number} has no entry {wanted!r}{nearest(wanted, known)}")
        in_world = dataset.name == "world"
        panels = (*self.panels, *(self.world_panels if in_world else ()))
        more = [figure for pair in (self.world_panels if in_world else ()) for figure in pair]
        truth = ["true_risk"] if in_world and "mse" in self.quantities else []
        return replace(
            self,
            quantities=tuple(dict.fromkeys(map(dataset.figure, (*self.quantities, *truth, *more)))),
            panels=tuple((x, dataset.figure(y)) for x, y in panels),
            entries=tuple(entry for entry in self.entries if not only or entry.name in only),
        )

    def recipes(self, dataset: Dataset, as_published: bool) -> dict[str, tuple[str, Method]]:
        """Return of each entry its key and its method."""
        if as_published:
            register_published()
        return {each.name: each.recipe(dataset, self.published if as_published else None) for each in self.entries}


def register_published() -> None:
    """Register the variants of public code, which the package does not bring."""
    if any(entry.name == "drjl-published" for entry in registered()):
        return
    try:
        import_module("benchmarks.published")
    except ModuleNotFoundError as error:
        raise ParameterError(
            "What is as published needs the repository's benchmarks/published.py: give the command in a checkout, "
            "as `python -m unskew reproduce`."
        ) from error


def suite(target: str) -> Suite:
    """Read a table or figure of the paper."""
    if target not in TARGETS:
        raise ParameterError(f"There is no target {target!r}{nearest(target, TARGETS)}")
    data = _read(target)
    data["entries"] = tuple(Entry(**entry) for entry in data.get("entries", ()))
    pairs = {key: tuple((x, y) for x, y in data.get(key, ())) for key in ("panels", "world_panels")}
    return Suite(target=target, **data | pairs | {"quantities": tuple(data["quantities"])})


def dataset_of(name: str) -> Dataset:
    """Read what the suites know of a dataset."""
    data = _read("datasets")
    if name not in data:
        raise ParameterError(f"There is no dataset {name!r} in the suites{nearest(name, data)}")
    return Dataset(name=name, **data[name] | {"cutoffs": tuple(data[name]["cutoffs"])})


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files("unskew") / "suites" / f"{name}.toml").read_text(encoding="utf-8"))


PRINTED = ("paper", "paper_sd", "released")
PAPER = "W. Kweon and H. Yu, Doubly Calibrated Estimator for Recommendation on Data Missing Not At Random, WWW 2024"
NOTES = {
    "seconds": "Seconds are wall clock of one process on one thread, fit alone; the paper's are of a GTX Titan Xp.",
    "propensity_ece": "ECE has 15 bins: of the propensity, calibrated where the method calibrates and before any clip, "
    "against who was seen, over all pairs or 100,000 random ones; of the imputation against the test. Where few pairs "
    "are seen nearly all propensities share the first bin of equal width: bins of equal mass tell more.",
    "bias": "Bias is that of the method's own doubly robust risk by Lemma 1, over all pairs of the world; its bound is "
    "Theorem 2 in the form that is true, with the mean gap |p - p_hat| in place of the binned ECE.",
}


@dataclass(frozen=True)
class Reproduced:
    """A target with what was found, and the files that were written."""

    suite: Suite
    dataset: Dataset
    scores: dict[str, list[dict[str, float]]]  # of each entry, what every seed found
    about: Sequence[str] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.suite.title} ({self.dataset.title})"

    @cached_property
    def standings(self) -> list[Standing]:
        return [standing(figure, self.scores) for figure in self.suite.quantities]

    def stated(self, entry: Entry, place: int, what: str = "paper") -> float | None:
        """Return the paper's number of an entry."""
        numbers = getattr(entry, what).get(self.dataset.name, ())
        return float(numbers[place]) if place < len(numbers) else None

    def table(self) -> Table:
        """Return every entry by every figure, and where the paper has a number, that too."""
        header, columns, strong = ["entry"], [[entry.name for entry in self.suite.entries]], set()
        for place, each in enumerate(self.standings):
            strong |= {(n, len(header)) for n, entry in enumerate(self.suite.entries) if each.is_best(entry.name)}
            header.append(each.figure.heading)
            columns.append([each.shown(entry.name, missing="–") for entry in self.suite.entries])
            paper = [(self.stated(e, place), self.stated(e, place, "paper_sd")) for e in self.suite.entries]
            if any(value is not None for value, _ in paper):
                header.append("paper")
                columns.append([each.figure.shown(value, sd) for value, sd in paper])
        return Table(
            "Mean ± standard deviation over seeds.", header, list(zip(*columns, strict=True)), frozenset(strong)
        )

    def tables(self) -> list[Table]:
        tests = (each.tests() for each in self.standings if self.suite.tested and each.order)
        return [self.table(), *(table for table in tests if table is not None)]

    def charts(self) -> dict[str, Chart]:
        """Return a chart a figure, or a panel; by name."""
        if self.suite.picture == "rows":
            return {each.key: self._rows(each, place) for place, each in enumerate(self.standings) if each.order}
        return {f"{y}-by-{x}": self._points(x, y) for x, y in self.suite.panels}

    def _rows(self, each: Standing, place: int) -> Chart:
        found = [entry for entry in self.suite.entries if entry.name in each.means]
        paper = {e.name: Interval(stated) for e in found if (stated := self.stated(e, place)) is not None}
        data = [Row(e.name, each.spread(e.name), other=paper.get(e.name)) for e in found]
        legend = {"accent": "ours ± standard deviation", "plain": "paper"} if paper else {}
        log = each.key in ("seconds", "parameters")
        return rows(self.title, each.figure.name, data, axis=each.figure.heading, log=log, legend=legend)

    def _points(self, x: str, y: str) -> Chart:
        across, up = ({s.key: s for s in self.standings}.get(figure) for figure in (x, y))
        series: dict[str, list[Point]] = {}
        for entry in self.suite.entries:
            at = entry.place.get(x) if across is None else across.means.get(entry.name)
            if at is None or up is None or entry.name not in up.means:
                continue
            point = Point(float(at), up.spread(entry.name), entry.place.get("mark", ""))
            series.setdefault(entry.place["series"], []).append(point)
        words = f"{Figure.of(y).name} against {Figure.of(x).name}, ± standard deviation over seeds."
        x_name = f"number of {x}" if across is None else Figure.of(x).heading
        joined = self.suite.picture == "lines"
        return lines(self.title, words, series, x=x_name, y=Figure.of(y).heading, log=joined, joined=joined)

    def to_dict(self) -> dict[str, Any]:
        facts = {"target": self.suite.target, "dataset": self.dataset.name, "files": [str(path) for path in self.files]}
        return facts | {"scores": self.scores, "failures": dict(self.failures), "table": self.table().to_dict()}

    def publish(self, stem: Path) -> Reproduced:
        """Write stem.csv, stem.md and a chart each as SVG; the same to the byte whenever the same was found."""
        charts = {stem.with_name(f"{stem.name}-{key.replace('@', '-')}.svg"): c for key, c in self.charts().items()}
        cells = [
            (e.name, s.key, s.means.get(e.name), s.sd(e.name), *(self.stated(e, place, what) for what in PRINTED))
            for e in self.suite.entries
            for place, s in enumerate(self.standings)
        ]
        header = ("entry", "figure", "mean", "sd", *PRINTED)
        failed = [f"Failed: {fit}: {sentence}" for fit, sentence in self.failures.items()]
        blocks = [f"# {self.suite.number} on {self.dataset.title}: {self.suite.title}", f"After {PAPER}.", *self.about]
        blocks += [part for table in self.tables() for part in (table.caption, table.markdown())]
        blocks += [f"![{chart.title}]({path.name})" for path, chart in charts.items()] + failed
        contents = {
            stem.with_suffix(".csv"): Table("", header, cells).csv(),
            stem.with_suffix(".md"): "\n\n".join(blocks) + "\n",
            **{path: f"{chart._repr_svg_()}\n" for path, chart in charts.items()},
        }
        for path, content in contents.items():
            write_file(path, content.encode())
        return replace(self, files=tuple(contents))


def reproduce(
    target: str,
    log: RatingLog,
    test: RatingLog,
    out: Path,
    *,
    dataset: str,
    seeds: int = 10,
    trials: int = 0,
    workers: int = 1,
    as_published: bool = False,
    only: Sequence[str] = (),
    max_epochs: int | None = None,
    world: World | None = None,
    about: Sequence[str] = (),
) -> Reproduced:
    """Make a table or figure of the paper anew, in the folder `out`.

    `dataset` names what the log is: it decides cut-offs, the paper's numbers and how public code trains. Every recipe
    is fitted for each seed and measured on the test; with `trials` it is tuned first, as in `benchmark`. Fits are kept
    in OUT/records.jsonl: targets that share a recipe share its fits, and a run that was stopped goes on.
    """
    facts = dataset_of(dataset)
    asked = suite(target).on(facts, only)
    stem = made_folder(out) / (f"{target}-as-published" if as_published else target)
    if not asked.entries:
        return _statistics(asked, facts, log, test, about).publish(stem)
    training = Training(**facts.published_training) if as_published else Training()
    validation = Validation(training=training if max_epochs is None else replace(training, max_epochs=max_epochs))
    rules: dict[str, Any] = {"empty_users": facts.empty_users, "cutoffs": facts.cutoffs, "world": world}
    rules |= {"seeds": seeds, "trials": trials, "workers": workers}
    setup = Setup(log=log, test=test, validation=validation, **rules)
    recipes = asked.recipes(facts, as_published)
    with opened(out / RECORDS) as records:
        runs = measured(setup, dict(recipes.values()), out, records)
    scores = {entry: runs.of_every_seed(key) for entry, (key, _) in recipes.items()}
    notes = [note for figure, note in NOTES.items() if figure in asked.quantities]
    chosen = [", ".join(each.choice()) for each in runs.searches]
    if as_published:
        options = ", ".join(f"{option}={value!r}" for option, value in facts.published_training.items())
        notes.append(
            f"As published: what public code does where we have it, otherwise our losses; trained with {options}."
        )
    words = [*about, *setup.rules(), *notes, *chosen]
    return Reproduced(asked, facts, scores, words, runs.outcome.failures).publish(stem)


def _statistics(asked: Suite, facts: Dataset, log: RatingLog, test: RatingLog, about: Sequence[str]) -> Reproduced:
    """Return the table of data, an entry a count."""
    counts: dict[str, float] = {"users": log.n_users, "items": log.n_items, "train": len(log), "test": len(test)}
    counts["density"] = len(log) / log.n_pairs
    for part, of in (("train", log), ("test", test)):
        counts[f"liked_in_{part}"] = float((of.ratings >= POSITIVE_FROM).mean())
    paper = {facts.name: [facts.paper[figure] for figure in asked.quantities if figure in facts.paper]}
    entry = Entry(name=facts.title, method="", paper=paper)
    return Reproduced(replace(asked, entries=(entry,)), facts, {facts.title: [counts]}, about)
