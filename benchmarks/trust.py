"""Can the intervals, the estimates and the test for selection be trusted? Repeated in simulated worlds.

    python benchmarks/trust.py --out trust.md

1. Coverage: in every replication a world of its own, a middling model of it, and an imputation that is wrong; 95%
intervals with
   the world's true propensities and with `Factors` estimated from the log and calibrated to it, beside the naive one.
2. The semi-synthetic table (see `semisynthetic.py`).
3. The p-values of the test for selection by liking, with cross-fitted nets, where liking has no part in seeing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import expit
from scipy.stats import kstest
from scripts import bare_parser, count, failed, publish, script
from semisynthetic import ESTIMATORS, PREDICTIONS, SIZE, relative_errors

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.records import Values
from unskew.diagnosis.selection import selection_test
from unskew.metrics.accuracy import roc_auc
from unskew.training.crossfit import cross_fit

SELECTIONS = ("popularity", "taste")
WORLD = {"n_users": 200, "n_items": 100, "density": 0.15, "strength": 0.4, "n_factors": 4}
NULL_WORLD = {"n_users": 120, "n_items": 60, "density": 0.25, "n_factors": 2, "interaction": 1.5}
METRICS = ("mse", "log_loss", "auc", "ndcg@5", "recall@5")
WEIGHTED = ("ips", "snips", "dr", "tdr")
QUIET = unskew.Training(progress=False)
ESTIMATED = unskew.Factors(n_folds=3)


class Judged:
    """A world, a model that errs by noise and by level, and what is true of it over all pairs."""

    def __init__(self, selection: str, seed: int) -> None:
        self.world = unskew.simulate(**WORLD, selection=selection, seed=seed)  # type: ignore[arg-type]
        world, n_items = self.world, self.world.n_items
        users, items = np.divmod(np.arange(world.n_pairs), n_items)
        noise = np.random.default_rng([seed, 7]).normal(0, 0.7, world.n_pairs)
        self.table = expit(0.8 * world.logit(users, items) + 0.3 + noise)
        ratings = world.rating(users, items).astype(float)
        best = np.argsort(-self.table.reshape(-1, n_items), 1, kind="stable")[:, :5]
        liked = np.take_along_axis(ratings.reshape(-1, n_items), best, 1)
        discount = 1 / np.log2(np.arange(5) + 2)
        self.truth = {
            "mse": float(((self.table - ratings) ** 2).mean()),
            "log_loss": float(-(ratings * np.log(self.table) + (1 - ratings) * np.log1p(-self.table)).mean()),
            "auc": roc_auc(ratings, self.table),
            "ndcg@5": float((liked @ discount).mean() / discount.sum()),
            "recall@5": float(liked.sum() / ratings.sum()),
        }

    def score(self, users, items):
        return self.table[np.asarray(users) * self.world.n_items + np.asarray(items)]

    def imputation(self, users, items):
        return expit(0.5 * self.world.logit(np.asarray(users), np.asarray(items)) - 0.2)


def covered(selection: str, seed: int) -> Values:
    """Of each estimate whether its interval covers the truth, and its relative error."""
    here = Judged(selection, seed)
    found: Values = {}
    arms = {"true": (unskew.Known(here.world.propensity), ("naive", *WEIGHTED)), "estimated": (ESTIMATED, WEIGHTED)}
    for arm, (propensity, estimators) in arms.items():
        table = unskew.estimate_risk(
            here.score,
            here.world.log,
            propensity=propensity,
            imputation=here.imputation,
            estimators=estimators,
            metrics=METRICS,
            seed=seed,
            training=QUIET,
        )
        for row in table.to_pylist():
            truth, key = here.truth[row["metric"]], f"{arm} {row['estimator']} {row['metric']}"
            found[f"{key} covered"] = float(row["low"] <= truth <= row["high"])
            found[f"{key} error"] = abs(row["value"] - truth) / truth
    return found


def null_p_values(selection: str, seed: int) -> Values:
    """The two p-values of the test, and the slope's own interval, in a world where liking has no part in seeing."""
    world = unskew.simulate(**NULL_WORLD, selection=selection, seed=seed)  # type: ignore[arg-type]
    predict = cross_fit(unskew.Naive(), world.log, n_folds=3, seed=seed, training=QUIET)
    test = selection_test(predict, world.log, seed=seed)
    return {"likelihood ratio": test.p_value, "clustered": test.clustered_p_value, "personal": test.personal.value}


def _work(find: Callable[..., Values], *settings: object) -> Callable[[object], Values]:
    return partial(_found, find, settings)


def _found(find: Callable[..., Values], settings: tuple[object, ...], given: object) -> Values:
    return find(*settings)


def jobs(replications: int, draws: int, nulls: int, size: tuple[int, int]) -> list[Job]:
    found = [
        Job(f"coverage/{selection}/{seed}", f"{WORLD}, {ESTIMATED!r}", _work(covered, selection, seed))
        for selection in SELECTIONS
        for seed in range(replications)
    ]
    found += [Job(f"table/{draw}", f"{size}", _work(relative_errors, draw, size)) for draw in range(draws)]
    found += [
        Job(f"null/{selection}/{seed}", f"{NULL_WORLD}", _work(null_p_values, selection, seed))
        for selection in ("uniform", "popularity")
        for seed in range(nulls)
    ]
    return found


def _values(outcome: Outcome, start: str) -> list[Values]:
    return [values for key, values in outcome.values.items() if key.startswith(start)]


def coverage_tables(outcome: Outcome) -> list[str]:
    parts = []
    for selection in SELECTIONS:
        runs = _values(outcome, f"coverage/{selection}/")
        if not runs:
            continue
        parts.append(
            f"Pairs are seen by {selection}, {len(runs)} worlds: share of 95% intervals that cover the truth, and "
            "mean relative error in parentheses."
        )
        lines = [("naive", "", "true naive")]
        lines += [(name, arm, f"{arm} {name}") for arm in ("true", "estimated") for name in WEIGHTED]
        rows = [[name, arm, *(_cell(runs, f"{key} {metric}") for metric in METRICS)] for name, arm, key in lines]
        parts.append(markdown_grid(["estimator", "propensities", *METRICS], rows))
    return parts


def _cell(runs: list[Values], key: str) -> str:
    hits, errors = ([values[f"{key} {what}"] for values in runs] for what in ("covered", "error"))
    return f"{np.mean(hits):.1%} ({np.mean(errors):.3f})"


def relative_error_tables(outcome: Outcome) -> list[str]:
    draws = _values(outcome, "table/")
    parts = []
    for metric in ("log_loss", "mse") if draws else ():
        rows = []
        for estimator in ESTIMATORS:
            cells = [[values[f"{metric} {name} {estimator}"] for values in draws] for name in PREDICTIONS]
            rows.append([estimator, *(f"{np.mean(cell):.4f} ± {np.std(cell):.4f}" for cell in cells)])
        parts += [f"Relative error of the estimated {metric}, mean ± sd over {len(draws)} draws:"]
        parts += [markdown_grid(["estimator", *PREDICTIONS], rows)]
    return parts


def null_table(outcome: Outcome) -> list[str]:
    rows = []
    for selection in ("uniform", "popularity"):
        runs = _values(outcome, f"null/{selection}/")
        for name in ("likelihood ratio", "clustered") if runs else ():
            p = np.array([values[name] for values in runs])
            uniform = kstest(p, "uniform").pvalue
            rows.append(
                [selection, name, str(len(p)), *(f"{(p < a).mean():.1%}" for a in (0.05, 0.01)), f"{uniform:.2f}"]
            )
    header = ["pairs are seen by", "p-value", "worlds", "below 5%", "below 1%", "uniform (Kolmogorov-Smirnov p)"]
    return (
        ["The test for selection by liking where there is none, with cross-fitted nets:", markdown_grid(header, rows)]
        if rows
        else []
    )


def main(arguments: list[str] | None = None) -> None:
    options = bare_parser(__doc__, "trust.jsonl")
    options.add_argument("--replications", type=count, default=200, help="worlds for coverage (default: 200)")
    options.add_argument("--draws", type=count, default=20, help="of the semi-synthetic matrix (default: 20)")
    options.add_argument("--nulls", type=count, default=60, help="worlds without selection by liking (default: 60)")
    options.add_argument("--size", type=int, nargs=2, default=SIZE, metavar=("USERS", "ITEMS"), help="of that matrix")
    asked = options.parse_args(arguments)
    outcome = run(jobs(asked.replications, asked.draws, asked.nulls, tuple(asked.size)), asked.records, asked.workers)
    users, items = asked.size
    head = f"unskew {unskew.__version__}, worlds {WORLD}, matrix {users} x {items}, null worlds {NULL_WORLD}."
    parts = (*coverage_tables(outcome), *relative_error_tables(outcome), *null_table(outcome))
    publish((head, *parts, failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
