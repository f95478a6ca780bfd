"""Every registered method with its default settings on the real Coat, as a Markdown table.

    python benchmarks/coat_methods.py DATA/coat --seeds 3 --workers 2 --out table.md

Nothing is tuned here, but the defaults were not chosen blind to the test set (docs/benchmarks.md), which is read
once for every fit. A run that is stopped goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from scripts import chosen, failed, mean_and_sd, parser, publish, script

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.measure import measured_fit
from unskew.bench.records import Values
from unskew.bench.report import seed_names

POSITIVE = 3
METRICS = {"mse": "MSE", "auc": "AUC", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10"}
TRAINING = unskew.Training(progress=False)


def coat(folder: str) -> unskew.datasets.Dataset:
    return unskew.datasets.coat(folder, positive=POSITIVE)


def scores(data: unskew.datasets.Dataset, *, method: unskew.Method, seed: int) -> Values:
    model, costs = measured_fit(method, data.train, seed, TRAINING)
    found = unskew.evaluate(model, data.test, empty_users="one")
    return {metric: found[metric] for metric in METRICS} | {"seconds": costs["seconds"]}


def jobs(recipes: Mapping[str, unskew.Method], seeds: int) -> list[Job]:
    return [
        Job(
            f"{name}/{seed}",
            f"{method!r}, {TRAINING!r}, positive {POSITIVE}",
            partial(scores, method=method, seed=seed),
        )
        for seed in range(seeds)
        for name, method in recipes.items()
    ]


def table(names: list[str], outcome: Outcome, seeds: int) -> str:
    rows = []
    for name in names:
        found = [outcome.values.get(f"{name}/{seed}") for seed in range(seeds)]
        values = [each for each in found if each] if all(found) else []
        cells = [mean_and_sd([each[metric] for each in values]) if values else "failed" for metric in METRICS]
        rows.append([name, *cells, mean_and_sd([each["seconds"] for each in values], digits=1) if values else ""])
    return markdown_grid(["method", *METRICS.values(), "fit seconds"], rows)


def setting(data: unskew.datasets.Dataset, seeds: int) -> str:
    return (
        f"unskew {unskew.__version__}, Coat, default settings: positive from {POSITIVE} stars; a user without a "
        'positive test pair counts as nDCG 1 (empty_users="one"); the published split, '
        f"{len(data.train):,} chosen ratings to learn from ({TRAINING.holdout:.0%} of them, by seed, held out "
        f"for stopping and calibration) and {len(data.test):,} random ones as the test; mean ± sd over "
        f"{seed_names(seeds)}; the defaults were not chosen blind to this test set (docs/benchmarks.md). "
        "Seconds are wall clock and depend on "
        "what else the machine does."
    )


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "coat-methods.jsonl")
    options.add_argument("folder", help="the folder of the published Coat files")
    asked = options.parse_args(arguments)
    recipes, data = chosen(asked.method), coat(asked.folder)
    outcome = run(jobs(recipes, asked.seeds), asked.records, asked.workers, data)
    publish((setting(data, asked.seeds), table(list(recipes), outcome, asked.seeds), failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
