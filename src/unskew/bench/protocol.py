"""Methods compared fairly: as much tuning for each, on the log alone; then seeds; then the test, once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import unskew
from unskew.asked import OnUnknown
from unskew.bench.run import Job, Outcome, Records, Values, opened, run, versions, warm_up
from unskew.bench.search import Search, Validation, search
from unskew.bench.standings import NAIVE, SURE, Standing, results, standings_of
from unskew.charts import Chart
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.datasets.world import World
from unskew.errors import FileError, ParameterError, whole
from unskew.evaluation import evaluate, positive_from
from unskew.findings import Table
from unskew.methods.base import Method
from unskew.metrics.calibration import calibration_error
from unskew.metrics.ranking import EmptyUsers
from unskew.metrics.theory import bias, label_errors, theorem_2
from unskew.model import Recommender
from unskew.store.atomic import reason, write_file
from unskew.store.model import log_digest
from unskew.store.recipe import to_plain, write_recipe
from unskew.training.options import Training

WORLD_SETTINGS = {"n_users": 500, "n_items": 300, "density": 0.06, "strength": 1.0}  # of a simulated world
MOST_PAIRS, PAIRS_STREAM = 100_000, 0x70616972  # that a propensity is judged on


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """What is fitted and how it is measured; `world`, if the log is simulated, knows the truth over all pairs."""

    log: RatingLog
    test: RatingLog
    validation: Validation = field(default_factory=Validation)
    seeds: int = 10
    trials: int = 0  # of every method; 0 leaves settings as they are
    workers: int = 1
    empty_users: EmptyUsers = "skip"
    on_unknown: OnUnknown = "raise"
    world: World | None = None
    cutoffs: tuple[int, ...] = (5, 10)

    def __post_init__(self) -> None:
        for value, what in ((self.seeds, "seeds"), (self.workers, "workers"), (self.trials or 1, "trials")):
            whole(value, what, 1)

    @property
    def training(self) -> Training:
        return self.validation.training

    def fit_and_measure(self, method: Method, seed: int) -> Values:
        """Return seconds of the fit, the size of the model, and what is found of it."""
        warm_up()
        began = time.perf_counter()
        model = method.fit(self.log, seed=seed, training=replace(self.training, progress=False))
        seconds = round(time.perf_counter() - began, 3)
        figures, notes = self.measure(model)
        return {"seconds": seconds, "parameters": n_parameters(model), "test": figures, "notes": notes}

    def measure(self, model: Recommender) -> tuple[dict[str, float], list[str]]:
        """Return metrics on the test, how well propensity and imputation are calibrated, and in a world the truth."""

        def answers(users: Any, items: Any) -> Any:
            return model.predict(users, items, on_unknown=self.on_unknown)

        found = evaluate(answers, self.test, k=self.cutoffs, empty_users=self.empty_users)
        figures = dict(found.metrics)
        if "propensity" in model.parts and model.part("propensity").answers_unseen:
            n = self.log.n_users * self.log.n_items
            drawn = np.random.default_rng(PAIRS_STREAM).integers(n, size=MOST_PAIRS) if n > MOST_PAIRS else np.arange(n)
            users, items = np.divmod(drawn, self.log.n_items)
            seen, p_hat = SeenPairs(self.log)(users, items).astype(float), model.scores("propensity", users, items)
            figures["propensity_ece"] = calibration_error(seen, p_hat)
            figures["propensity_ece_mass"] = calibration_error(seen, p_hat, bins="mass")
            if self.world is not None:
                figures |= self._theory(model, users, items)
        if "imputation" in model.parts:
            users = self.log.user_ids.codes(self.test.user_ids.take(self.test.users))
            items = self.log.item_ids.codes(self.test.item_ids.take(self.test.items))
            known = (users >= 0) & (items >= 0)
            imputed = model.scores("imputation", users[known], items[known])
            figures["imputation_ece"] = calibration_error(self.test.ratings[known], imputed)
        if self.world is not None:
            figures["true_risk"] = self.world.risk(model.predict_codes)
        return figures, list(found.notes)

    def _theory(self, model: Recommender, users: Any, items: Any) -> dict[str, float]:
        """Return the exact bias of the model's own doubly robust risk, and what Theorem 2 allows in its true form."""
        assert self.world is not None
        p, q = self.world.propensity(users, items), self.world.preference(users, items)
        p_hat = np.maximum(model.scores("propensity", users, items), model.parts.clips["propensity"] or 0.0)
        e1, e0 = label_errors(np.clip(model.predict_codes(users, items), 0, 1))
        imputed = model.scores("imputation", users, items) if "imputation" in model.parts else None
        residual = q * e1 + (1 - q) * e0 if imputed is None else (q - imputed) * (e1 - e0)
        return {"bias": abs(bias(p, p_hat, residual)), "theorem_2": theorem_2(p, p_hat, residual).by_gap}

    def facts(self) -> dict[str, Any]:
        """Return all that figures depend on but method and seed."""
        return {
            "training": to_plain(self.training),
            "empty_users": self.empty_users,
            "cutoffs": list(self.cutoffs),
            "on_unknown": self.on_unknown,
            "log": log_digest(self.log),
            "test": log_digest(self.test),
            "world": None if self.world is None else repr(self.world),
        }

    def rules(self) -> list[str]:
        """Return by which rules figures are found, in words."""
        rule = {"skip": "are left out of", "one": "count as 1 in", "zero": "count as 0 in"}[self.empty_users]
        seeds, tuned = self.seeds, "Nothing was tuned: every method has the settings it was given."
        if self.trials:
            tuned = f"Tuned: {self.trials} trials for every method, the first as it is, by the log alone; then the "
            tuned += "test, once."
        return [
            f"unskew {unskew.__version__}. Learned from: {self.log!r}. Test: {self.test!r}.",
            f"Positive from a rating of {positive_from(self.test):g}; users without a positive test pair {rule} the "
            f"means over users. Fits with {'seed 0' if seeds == 1 else f'seeds 0 to {seeds - 1}'}, each of which holds "
            f"out {self.training.holdout:.0%} of the log for stopping and calibration.",
            tuned,
        ]


def n_parameters(model: Recommender) -> int:
    """Return how many real numbers the model holds, those of every role that helped it learn included."""
    held = (part.state() for part in model.parts.parts.values())
    return sum(array.size for arrays in held for array in arrays.values() if array.dtype.kind == "f")


RECORDS, RECORD, JOURNAL = "records.jsonl", "benchmark.json", "trials.journal"
FIRST = ("true_risk", "mse", "auc", "user_auc")  # in tables, before nDCG


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark found, as plain data: benchmark.json of its folder."""

    methods: tuple[str, ...]
    scores: dict[str, list[dict[str, float]]]  # of methods with a fit for every seed: what each found
    setting: tuple[str, ...]  # how it was found, in words
    choices: tuple[tuple[str, ...], ...]  # of each tuned method: name, best trial, its score, that of the start, what
    notes: tuple[str, ...]  # what failed or was left out
    recipes: dict[str, Any]
    facts: dict[str, Any]  # versions, and the fingerprints of log and test

    @classmethod
    def read(cls, folder: Path) -> Benchmark:
        """Read it from the folder that `benchmark` wrote."""
        try:
            found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            found |= {name: tuple(found[name]) for name in ("methods", "setting", "notes")}
            return cls(**found | {"choices": tuple(tuple(choice) for choice in found["choices"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise FileError(f"{folder / RECORD} is not the record of a benchmark ({error}).") from error

    @cached_property
    def standings(self) -> dict[str, Standing]:
        return standings_of(self.scores)

    @property
    def shown(self) -> list[Standing]:
        """The figures that tables show; results.csv has all."""
        ndcg = [name for name in self.standings if name.startswith("ndcg@")]
        return [self.standings[name] for name in (*FIRST, *ndcg) if name in self.standings]

    @property
    def headline(self) -> str:
        """Who is best by the first figure, and whether that is more than chance."""
        if not self.shown or not self.shown[0].order:
            return "No method has a result for every seed: run the same command again."
        first = self.shown[0]
        best = first.order[0]
        mean = first.figure.shown(first.means[best])
        words = f"{best} is best of {len(first.order)} methods by {first.figure.name}: {mean}"
        versus = [first.against_best.get(best), first.against_naive.get(best)]
        for one in dict.fromkeys(v for v in versus if v is not None):
            sure = "beyond chance" if one.p_holm < SURE else "which may be chance"
            words += f"; against {one.other} {one.difference:+.4f}, {sure} (p {one.p_holm:.2g})"
        return words + "."

    def results(self) -> Table:
        """Return the mean ± standard deviation of every method by every figure that is shown."""
        return results(self.methods, self.shown, "Mean ± standard deviation over seeds; the best is marked.")

    def costs(self) -> Table:
        """Return what fits took; seconds depend on what else the machine did."""
        costs = [self.standings[name] for name in ("seconds", "parameters") if name in self.standings]
        return results(self.methods, costs, "What a fit takes.")

    def chosen(self) -> Table:
        """Return what was tuned."""
        header = ("method", "best trial", "its score", "score as it was", "failed", "chosen")
        return Table("What was chosen, by the log alone.", header, self.choices)

    def tests(self) -> list[Table]:
        return [table for standing in self.shown if (table := standing.tests()) is not None]

    def charts(self) -> list[Chart]:
        return [standing.chart() for standing in self.shown if standing.order]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def publish(self, folder: Path) -> None:
        """Write benchmark.json, results.csv, table.md and table.tex; the same bytes whenever the same was found."""
        lines = [
            (method, figure, seed, value)
            for method, seeds in self.scores.items()
            for seed, found in enumerate(seeds)
            for figure, value in found.items()
        ]
        tables = [self.results(), *self.tests(), *([self.chosen()] if self.choices else [])]
        words = "\n\n".join(["# Benchmark", self.headline, *self.setting, *(f"Note: {note}" for note in self.notes)])
        files = {
            RECORD: json.dumps(self.to_dict(), indent=1),
            "results.csv": Table("", ("method", "figure", "seed", "value"), lines).csv(),
            "table.md": "\n\n".join([words, *(f"{table.caption}\n\n{table.markdown()}" for table in tables)]) + "\n",
            "table.tex": "\n\n".join(table.latex() for table in tables) + "\n",
        }
        for file, text in files.items():
            write_file(folder / file, text.encode())


def benchmark(
    log: RatingLog,
    test: RatingLog,
    methods: Mapping[str, Method],
    out: Path,
    *,
    seeds: int = 10,
    trials: int = 0,
    validation: Validation | None = None,
    workers: int = 1,
    empty_users: EmptyUsers = "skip",
    on_unknown: OnUnknown = "raise",
    world: World | None = None,
    about: Sequence[str] = (),
) -> Benchmark:
    """Compare methods by their names, and write everything to the folder `out`.

    Each method has `trials` trials (0: its settings stay as they are), judged as `validation` says on folds of `log`.
    The best is fitted on the whole log with seeds 0 to `seeds` - 1, and only these fits are asked `test`. A run that
    was stopped, also by kill -9, goes on with `out` where it ended. `about` are sentences on what the data are.
    """
    rules: dict[str, Any] = {"empty_users": empty_users, "on_unknown": on_unknown, "world": world, "workers": workers}
    setup = Setup(log=log, test=test, validation=validation or Validation(), seeds=seeds, trials=trials, **rules)
    names = {name: re.sub(r"[^\w.-]", "-", name) + ".toml" for name in methods}
    if not methods:
        raise ParameterError("There is no method to compare: name at least one.")
    if len(set(names.values())) < len(names):
        raise ParameterError("Two methods have names that differ in punctuation only: rename one of them.")
    folder = made_folder(out, inside="recipes")
    with opened(folder / RECORDS) as records:
        runs = measured(setup, methods, folder, records)
        for name, method in runs.recipes.items():
            usual = setup.training == Training()
            write_recipe(folder / "recipes" / names[name], method, None if usual else setup.training)
        found = Benchmark(
            methods=tuple(methods),
            scores={name: fits for name in runs.recipes if (fits := runs.of_every_seed(name))},
            setting=(*about, *setup.rules()),
            choices=tuple(each.choice() for each in runs.searches),
            notes=tuple(_notes(methods, runs)),
            recipes={name: to_plain(method) for name, method in runs.recipes.items()},
            facts={"versions": versions(), "seeds": seeds, "trials": trials, **setup.facts()},
        )
        found.publish(folder)
    return found


class Runs(NamedTuple):
    """What was tuned and fitted: recipes by name, searches if there were any, and what every fit found."""

    recipes: dict[str, Method]
    searches: list[Search]
    outcome: Outcome
    seeds: int

    def of_every_seed(self, name: str) -> list[dict[str, float]]:
        """Return what the fits of a method found, with what they cost; nothing if one of them failed."""
        fits = [self.outcome.values.get(f"fit/{name}/{seed}") for seed in range(self.seeds)]
        if None in fits:
            return []
        return [fit["test"] | {cost: float(fit[cost]) for cost in ("seconds", "parameters")} for fit in fits if fit]


def measured(setup: Setup, methods: Mapping[str, Method], folder: Path, records: Records) -> Runs:
    """Tune, if there are trials; then fit every recipe for every seed and measure it on the test."""
    records.refuse_another(setup.log, log_digest(setup.log))
    recipes, searches, given = dict(methods), list[Search](), setup.validation
    if setup.trials:
        searches = search(methods, setup.log, setup.trials, given, setup.workers, folder / JOURNAL)
        recipes = {each.name: best.method for each in searches if (best := each.best())}
    facts = setup.facts() | {"tuned": setup.trials > 0}
    jobs = [
        Job(
            f"fit/{name}/{seed}",
            {"method": to_plain(method), "seed": seed} | facts,
            partial(Setup.fit_and_measure, method=method, seed=seed),
        )
        for seed in range(setup.seeds)
        for name, method in recipes.items()
    ]
    return Runs(recipes, searches, run(jobs, records, setup.workers, setup), setup.seeds)


def _notes(methods: Mapping[str, Method], runs: Runs) -> list[str]:
    notes = list(dict.fromkeys(note for fit in runs.outcome.values.values() for note in fit["notes"]))
    failed = [each for each in runs.searches if each.best() is None]
    notes += [f"All trials of {each.name} failed, the first because: {each.trials[0].failure}" for each in failed]
    notes += [f"Failed: {fit}: {sentence}" for fit, sentence in runs.outcome.failures.items()]
    return notes + ([] if NAIVE in methods else [f"{NAIVE} is not among the methods: nothing is compared with it."])


def made_folder(out: Path, inside: str = "") -> Path:
    """Make the folder if it is not there, with another one inside if that is asked for."""
    try:
        (out / inside).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {reason(error)}.") from error
    return out
