"""Is a diagnosis right about who is better? In worlds whose truth is known, with and without the model's clip.

    python benchmarks/judge.py --worlds 12

In every world (those of docs/ten-minutes.md) a model is diagnosed against the naive model fitted beside it. The
table says how often the 95% interval of the difference in mean squared error, and that of the model's own error, cover
what is true of all pairs. `diagnose` compares by the first judge and tells the model's own error by the second.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import unskew
from unskew.bench.formats import markdown_grid
from unskew.diagnosis.evidence import judged_evidence, scores_from
from unskew.diagnosis.rival import naive_beside
from unskew.diagnosis.subject import Subject, subject_of
from unskew.estimation.evidence import Evidence
from unskew.estimation.quantities import metric_of
from unskew.estimation.risk import estimate
from unskew.estimation.terms import Judged
from unskew.metrics.intervals import Interval

MSE = metric_of("mse")
QUIET = unskew.Training(progress=False)


class Verdict(NamedTuple):
    """What an interval says and what is true."""

    said: Interval
    true: float

    @property
    def right(self) -> bool:
        return self.said.covers(self.true)

    @property
    def sure_of_the_wrong(self) -> bool:
        """Of a difference: it names a winner, who is not."""
        return not self.said.covers(0.0) and self.said.value * self.true < 0


def judged(method: str, seed: int) -> dict[str, tuple[Verdict, Verdict]]:
    """By judge: of the difference, and of the model's own error."""
    world = unskew.simulate(1500, 400, density=0.08, n_factors=3, interaction=1.3, strength=0.8, seed=seed)
    model = unskew.make(method).fit(world.log, training=QUIET)
    subject, naive = subject_of(model, training=QUIET), naive_beside(model, progress=False)
    log = world.log
    users, items = np.divmod(np.arange(log.n_pairs), log.n_items)
    ratings = world.rating(np.asarray(log.user_ids.take(users)), np.asarray(log.item_ids.take(items)))
    true = [float(((one.predict_codes(users, items) - ratings) ** 2).mean()) for one in (model, naive)]

    def verdicts(evidence: Evidence) -> tuple[Verdict, Verdict]:
        both = (Judged(scores_from(one.predict_codes, evidence.log), evidence, [MSE]) for one in (model, naive))
        own, other = (estimate("dr", MSE, one) for one in both)
        return Verdict(own.minus(other).interval(0.95), true[0] - true[1]), Verdict(own.interval(0.95), true[0])

    neutral, own = (judged_evidence(subject, imputation=which) for which in ("naive", None))
    judges = {"no clip, cross-fitted imputation": neutral, "no clip, the model's imputation": own}
    judges |= {"the model's clip and imputation": _clipped(own, subject)}
    return {name: verdicts(evidence) for name, evidence in judges.items()}


def _clipped(evidence: Evidence, subject: Subject) -> Evidence:
    assert evidence.weighing is not None
    share = len(subject.judged) / len(subject.log)
    return replace(evidence, weighing=replace(evidence.weighing, clip=share * subject.clip))


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=12)
    parser.add_argument("--method", default="dce-dr")
    options = parser.parse_args()
    runs = [judged(options.method, seed) for seed in range(1, options.worlds + 1)]
    rows = []
    for judge in runs[0]:
        differences, errors = zip(*(run[judge] for run in runs), strict=True)
        rows.append(
            [
                judge,
                f"{np.mean([one.said.value for one in differences]):+.4f}",
                f"{np.mean([one.true for one in differences]):+.4f}",
                f"{np.mean([one.said.high - one.said.low for one in differences]):.4f}",
                f"{sum(one.right for one in differences)} of {len(runs)}",
                f"{sum(one.sure_of_the_wrong for one in differences)}",
                f"{sum(one.right for one in errors)} of {len(runs)}",
            ]
        )
    header = ["judge", "difference", "true", "width", "covers it", "sure of the wrong one", "covers the error"]
    print(markdown_grid(header, rows))


if __name__ == "__main__":
    main()
