"""The table against naive: what each metric would be over all pairs, for both models, and whether they differ."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.data.log import RatingLog
from unskew.diagnosis.evidence import scores_from
from unskew.errors import DataError
from unskew.estimation.compare import Comparison, comparison
from unskew.estimation.evidence import Evidence
from unskew.estimation.quantities import Metric, metric_of
from unskew.estimation.terms import Judged
from unskew.report.axes import SIGNED
from unskew.report.figure import Figure, Table
from unskew.report.material import Material
from unskew.report.names import signed, spread
from unskew.report.rows import Row, Rows, intervals

DEBIASED, NAIVE = "debiased", "naive"
MEANINGS = {
    "mse": "mean squared error, how far predictions are from ratings; lower is better",
    "mae": "mean absolute error, how far predictions are from ratings; lower is better",
    "log_loss": "how surprised the model is by the ratings; punishes certainty that is wrong; lower is better",
    "auc": "how often a liked pair is ranked above a disliked one; 0.5 is a coin, higher is better",
    "ndcg": "how much of what people like stands at the top of their list; higher is better",
}
NAMES = {"mse": "MSE", "mae": "MAE", "log_loss": "log loss", "auc": "AUC", "ndcg": "nDCG"}
LONGEST_LIST = 5


@dataclass(frozen=True)
class Line:
    """One metric: both models over all pairs, their difference, and what the ratings as they are would say of it."""

    metric: str
    meaning: str
    found: Comparison

    @property
    def verdict(self) -> str:
        """Of the debiased model, in a word or two."""
        return {DEBIASED: "better", NAIVE: "worse", None: "cannot tell"}[self.found.better]

    @property
    def unweighted(self) -> str:
        naive = self.found.naive
        if naive.covers(0.0):
            return "cannot tell"
        return "better" if (naive.value < 0) == self.found.lower_is_better else "worse"


@dataclass(frozen=True)
class Versus:
    """All metrics by one estimator; `notes` are about metrics that the ratings say nothing of."""

    estimator: str
    n_ratings: int
    worth: float
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def __getitem__(self, metric: str) -> Line | None:
        return next((line for line in self.lines if line.found.metric == metric), None)

    @property
    def unweighted(self) -> bool:
        return self.estimator == "naive"

    @property
    def main(self) -> Line | None:
        """What the summary speaks of."""
        return self["mse"]

    def table(self, caption: str) -> Table:
        header = ("measure", "naive", "debiased", "difference (95% interval)", "debiased is")
        rows = [
            (
                line.metric,
                f"{line.found.second.value:.4f}",
                f"{line.found.first.value:.4f}",
                f"{signed(line.found.difference.value)} ({spread(line.found.difference, sign=True)})",
                line.verdict,
            )
            for line in self.lines
        ]
        return Table(caption, header, rows)

    def figure(self, name: str) -> Figure:
        """Every difference on one axis: in its own standard errors, the good side on the right."""
        rows = [_standardised(line) for line in self.lines]
        chart = Rows(
            name,
            "Debiased against naive, by every measure",
            "Differences in their own standard errors with 95% intervals; right of the dashed line the debiased model "
            f"is better. {'; '.join(f'{row.name}: {row.said}' for row in rows)}.",
            "← naive better · standard errors · debiased better →",
            show=lambda value: signed(value, 2),
            unit=SIGNED,
            reference=0.0,
        )
        return intervals(chart, rows, ("measure", "difference", "low", "high"))


def _standardised(line: Line) -> Row:
    found, sign = line.found, -1 if line.found.lower_is_better else 1
    value = sign * found.difference.value / found.standard_error if found.standard_error else 0.0
    reach = (found.difference.high - found.difference.value) / found.standard_error if found.standard_error else 0.0
    return Row(line.metric, (value,), line.verdict, (value - reach, value + reach), line.verdict != "cannot tell")


def versus(material: Material) -> Versus:
    """By the ratings that both models held out: doubly robust, or as they are where weights cannot be trusted."""
    evidence = material.evidence
    return _versus(material, evidence, "naive" if evidence.weighing is None else "dr")


def weighted(material: Material) -> Versus | None:
    """The same by weights alone, as a second opinion."""
    return None if material.evidence.weighing is None else _versus(material, material.evidence, "snips")


def on_random_ratings(material: Material) -> Versus | None:
    """By random ratings, which need no weights."""
    ratings = material.random
    if ratings is None or len(ratings) < 2:
        return None
    return _versus(material, Evidence(ratings, None, None, material.subject.seed, 1), "naive", lists=False)


def _versus(material: Material, evidence: Evidence, estimator: str, *, lists: bool = True) -> Versus:
    asked = _metrics(material.log, lists)
    judged = judged_by(evidence, material, asked)
    lines, notes = [], []
    for metric in asked:
        try:
            found = comparison(judged, metric, estimator, names=(DEBIASED, NAIVE))
        except DataError as error:
            notes.append(f"{_name(metric)} is left out: {error}")
            continue
        lines.append(Line(_name(metric), MEANINGS[metric.kind], found))
    worth = min((line.found.effective_sample_size for line in lines), default=float(len(evidence.log)))
    return Versus(estimator, len(evidence.log), worth, tuple(lines), tuple(notes))


def judged_by(evidence: Evidence, material: Material, asked: list[Metric]) -> list[Judged]:
    """The debiased model, then the naive one."""
    models = material.debiased, material.naive
    return [Judged(scores_from(model.predict_codes, evidence.log), evidence, asked) for model in models]


def _metrics(log: RatingLog, lists: bool) -> list[Metric]:
    names = ["mse", "log_loss", "auc"] if log.binary else ["mse", "mae"]
    if lists:
        names.append(f"ndcg@{min(LONGEST_LIST, log.n_items)}")
    return [metric_of(name) for name in names]


def _name(metric: Metric) -> str:
    return f"{NAMES[metric.kind]}@{metric.k}" if metric.k else NAMES[metric.kind]
