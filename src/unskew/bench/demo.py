"""A small world in which people rate what they like: what methods believe of themselves, and what is true.

Every method learns from one log by its defaults. Then the judge, who knows the log alone, decides between plain
training and the default.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unskew.charts import Chart, rows
from unskew.charts import Row as ChartRow
from unskew.datasets.world import simulate
from unskew.evaluation.compare import compare
from unskew.evaluation.judge import gather
from unskew.evaluation.scores import judged
from unskew.findings import LABELS, Decision, Interval, Table
from unskew.methods.base import Method
from unskew.methods.bayesian import DCEBayes
from unskew.methods.calibrated import DoublyCalibrated
from unskew.methods.robust import DRJL, TDR
from unskew.methods.weighting import IPS, Naive
from unskew.metrics.ranking import POSITIVE_FROM, UserLists
from unskew.model import Recommender
from unskew.posterior.factors import BayesianFactors
from unskew.runtime import bar
from unskew.training.options import Training

WORLD: dict[str, Any] = {  # people rate what they turn out to like; their tastes differ along two directions
    **{"n_users": 180, "n_items": 80, "density": 0.2, "selection": "liking", "strength": 0.6},
    **{"n_factors": 2, "interaction": 1.5},
}
SWEEPS = 150  # of the default's 1,000, so that nobody waits: the true error falls by .19 in both
METHODS: dict[str, Method] = {
    "Naive": Naive(),
    "IPS": IPS(),
    "DR-JL": DRJL(),
    "DCE-DR": DoublyCalibrated(DRJL()),
    "DCE-TDR": DoublyCalibrated(TDR()),
    "DCE-Bayes": DCEBayes(factors=BayesianFactors(sweeps=SWEEPS)),
}


@dataclass(frozen=True)
class Row:
    """How one method did: squared errors, and how often a liked item of a user stands above a disliked one."""

    method: str
    believed: float
    true: float
    order: float


@dataclass(frozen=True)
class Demo:
    """What the experiment found; the first method is plain training, the last is the default."""

    seed: int
    log: str
    liked_in_log: float
    liked_in_world: float
    least_error: float  # of a model that knows every preference
    rows: tuple[Row, ...]
    decision: Decision
    verdict: str  # of the judge, by the log alone

    def table(self) -> Table:
        """Return a line a method, the best marked."""
        cells = [(row.method, *(f"{v:.4f}" for v in (row.believed, row.true)), f"{row.order:.1%}") for row in self.rows]
        best = [int(np.argmin([row.true for row in self.rows])), int(np.argmax([row.order for row in self.rows]))]
        header = ("method", "error it believes", "true error", "liked above disliked")
        return Table(f"Seed {self.seed}.", header, cells, frozenset({(best[0], 2), (best[1], 3)}))

    def chart(self) -> Chart:
        """Draw what each method believes and what is true."""
        data = [ChartRow(row.method, Interval(row.true, form=".4f"), other=Interval(row.believed)) for row in self.rows]
        legend = {"accent": "true error over all pairs", "plain": "error it believes"}
        words = f"{self.liked_in_log:.0%} of the log is liked, {self.liked_in_world:.0%} of the world."
        return rows("What methods believe and what is true", words, data, axis="mean squared error", legend=legend)

    def sentences(self) -> list[str]:
        """Return what happened in words made from the numbers, whichever way they fell."""
        first, last = self.rows[0], self.rows[-1]
        saved = (first.true - last.true) / (first.true - self.least_error)
        does = f"saves {saved:.0%} of the error that can be saved" if saved > 0 else "does not save any of it"
        better = f"{100 * (last.order - first.order):+.1f} points of liked items above disliked ones"
        return [
            f"{first.method} believes in an error of {first.believed:.4f} and makes one of {first.true:.4f}; "
            f"{last.method} believes in {last.believed:.4f} and makes {last.true:.4f}: it {does}.",
            f"The judge, by the log alone: {LABELS['model'][self.decision].upper()}. {self.verdict}",
            f"The truth: {better}, squared error {last.true - first.true:+.4f}.",
        ]

    def text(self) -> str:
        """Return all of it for a terminal."""
        head = f"People rate what they like: {self.liked_in_log:.0%} of the log is liked, {self.liked_in_world:.0%} of "
        return "\n\n".join([f"{head}all pairs. {self.log}", self.table().text(), *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sentences": self.sentences()}


def run(seed: int = 0) -> Demo:
    """Simulate the world of this seed, fit every method on its log and hold what it believes against the truth."""
    world, training = simulate(**WORLD, seed=seed), Training(progress=False)
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    ratings = world.rating(users, items)
    models, found = {}, []
    with bar("fitting", len(METHODS), "method") as shown:
        for name, method in METHODS.items():
            models[name] = model = method.fit(world.log, seed=seed, training=training)
            predicted = model.predict_codes(users, items)
            order = float(np.nanmean(UserLists.from_rows(ratings, predicted, users).auc()))
            found.append(Row(name, believed_error(model, seed), world.risk(model.predict_codes), order))
            shown.advance(name)
    first, *_, last = models
    judgement = compare(models[first], models[last], names=(first, last), seed=seed)
    return Demo(
        seed=seed,
        log=repr(world.log),
        liked_in_log=world.log.positive_rate,
        liked_in_world=float((ratings >= POSITIVE_FROM).mean()),
        least_error=world.risk(world.preference),
        rows=tuple(found),
        decision=judgement.decision,
        verdict=judgement.sentence(),
    )


def believed_error(model: Recommender, seed: int = 0) -> float:
    """Return the method's own estimate of its squared error over all pairs, from ratings it was not trained on.

    The plain mean for a method without propensities, else the self-normalised sum_O (e / p) / sum_O (1 / p). Training
    stopped by these ratings, so the estimate is a little too good; of a method that learns from all of its log they are
    the judge's, left out in turn.
    """
    if model.fitted_on == "train":
        left_out = model.split.holdout
        users, items = left_out.users, left_out.items
        error = (model.predict_codes(users, items) - left_out.ratings) ** 2
    else:
        evidence = gather(model.log, seed=seed)
        users, items = (codes[evidence.held].astype(np.int32) for codes in (evidence.users, evidence.items))
        error = (judged(model, evidence, "itself") - evidence.y)[evidence.held] ** 2
    if "propensity" not in model.parts:
        return float(error.mean())
    p = np.maximum(model.scores("propensity", users, items), model.parts.clips["propensity"] or 0.0)
    return float(np.average(error, weights=1 / p))
