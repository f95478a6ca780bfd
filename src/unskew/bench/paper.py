"""Tables and figures of the DCE paper (Kweon & Yu, WWW 2024, CC BY 4.0) made anew, its numbers next to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from unskew.bench.measure import Setup
from unskew.bench.protocol import RECORDS, made_folder, measured
from unskew.bench.run import opened
from unskew.bench.search import Validation
from unskew.bench.standings import Figure, Standing, standing
from unskew.bench.suite import Dataset, Entry, Suite, dataset_of, suite
from unskew.charts import Chart, Point, Row, lines, rows
from unskew.data.log import RatingLog
from unskew.datasets.world import World
from unskew.findings import Interval, Table
from unskew.metrics.ranking import POSITIVE_FROM
from unskew.store.atomic import write_file
from unskew.training.options import Training

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
        data = []
        for entry in (entry for entry in self.suite.entries if entry.name in each.means):
            mean, sd, paper = each.means[entry.name], each.sd(entry.name) or 0.0, self.stated(entry, place)
            other = None if paper is None else Interval(paper)
            data.append(Row(entry.name, Interval(mean, mean - sd, mean + sd, each.figure.form), other=other))
        log = each.key in ("seconds", "parameters")
        legend = {"accent": "ours ± standard deviation", "plain": "paper"} if any(r.other for r in data) else {}
        title = f"{self.suite.title} ({self.dataset.title})"
        return rows(title, each.figure.name, data, axis=each.figure.heading, log=log, legend=legend)

    def _points(self, x: str, y: str) -> Chart:
        across, up = ({s.key: s for s in self.standings}.get(figure) for figure in (x, y))
        series: dict[str, list[Point]] = {}
        for entry in self.suite.entries:
            at = entry.place.get(x) if across is None else across.means.get(entry.name)
            if at is None or up is None or entry.name not in up.means:
                continue
            mean, sd = up.means[entry.name], up.sd(entry.name) or 0.0
            point = Point(float(at), Interval(mean, mean - sd, mean + sd, ".4f"), entry.place.get("mark", ""))
            series.setdefault(entry.place["series"], []).append(point)
        title = f"{self.suite.title} ({self.dataset.title})"
        words = f"{Figure.of(y).name} against {Figure.of(x).name}, ± standard deviation over seeds."
        x_name = f"number of {x}" if across is None else Figure.of(x).heading
        joined = self.suite.picture == "lines"
        return lines(title, words, series, x=x_name, y=Figure.of(y).heading, log=joined, joined=joined)

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
