"""Methods compared fairly: as much tuning for each, on validation alone; then seeds; then the test set, once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unskew.bench.exam import Exam, examine
from unskew.bench.jobs import Outcome, opened
from unskew.bench.judge import Judging
from unskew.bench.records import Records
from unskew.bench.report import Costs, costs_of, publish, rules, tabled
from unskew.bench.search import Search, refuse_another_log, search, searches_of
from unskew.bench.table import Table
from unskew.data.log import RatingLog
from unskew.data.world import World
from unskew.errors import ParameterError
from unskew.files.atomic import reason
from unskew.files.logs import fingerprint
from unskew.methods.base import Method
from unskew.metrics.checks import require_count
from unskew.metrics.ranking import EmptyUsers
from unskew.model import OnUnknown
from unskew.recipe import write_recipe
from unskew.training.options import Training

RECORDS = "records.jsonl"


@dataclass(frozen=True)
class Result:
    """The table, the recipes that were chosen, and what fits cost, by method."""

    table: Table
    recipes: dict[str, Method]
    costs: Costs


def examined(
    exam: Exam,
    methods: Mapping[str, Method],
    searches: Sequence[Search],
    records: Records,
    *,
    seeds: int,
    trials: int,
    judging: Judging,
    workers: int,
) -> tuple[dict[str, Method], Outcome]:
    """Tune by the searches, if any; then the seeds, then the test. The chosen recipes, and what their fits found."""
    refuse_another_log(records, exam.log, fingerprint(exam.log))
    if searches:
        search(searches, trials, records, workers)
    recipes = {each.name: each.best.method for each in searches if each.best} if searches else dict(methods)
    return recipes, examine(exam, recipes, seeds, {"criterion": judging.criterion}, records, workers)


def benchmark(
    log: RatingLog,
    test: RatingLog,
    methods: Mapping[str, Method],
    out: Path,
    *,
    seeds: int = 10,
    trials: int = 0,
    judging: Judging | None = None,
    workers: int = 1,
    empty_users: EmptyUsers = "skip",
    on_unknown: OnUnknown = "raise",
    world: World | None = None,
    about: Sequence[str] = (),
) -> Result:
    """Compare methods by their names, and write everything to the folder `out`.

    Each method has `trials` trials (0: its settings stay as they are), judged as `judging` says on folds of `log`. The
    best is fitted on the whole log with seeds 0 to `seeds` - 1, and only these fits are asked `test`. A run that was
    stopped, however rudely, goes on with `out` where it ended. `about` are sentences for the page on what the data are.
    """
    require_count(seeds, "seeds")
    require_count(workers, "workers")
    judging = judging or Judging()
    names = _file_names(methods)
    if trials:
        require_count(trials, "trials")
    searches = searches_of(methods, log, judging) if trials else []
    exam = Exam(
        log=log,
        test=test,
        training=judging.training,
        empty_users=empty_users,
        on_unknown=on_unknown,
        world=world,
    )
    folder = made_folder(out, inside="recipes")
    with opened(folder / RECORDS) as records:
        recipes, outcome = examined(
            exam,
            methods,
            searches,
            records,
            seeds=seeds,
            trials=trials,
            judging=judging,
            workers=workers,
        )
        for name, method in recipes.items():
            usual = judging.training == Training()
            write_recipe(folder / "recipes" / names[name], method, None if usual else judging.training)
        setting = (*about, *rules(exam, seeds, trials, judging))
        table = tabled(list(methods), outcome, searches, seeds, setting)
        costs = costs_of(list(recipes), outcome, seeds)
        publish(table, costs, folder)
    return Result(table, recipes, costs)


def _file_names(methods: Mapping[str, Method]) -> dict[str, str]:
    names = {name: re.sub(r"[^\w.-]", "-", name) + ".toml" for name in methods}
    if not methods:
        raise ParameterError("There is no method to compare: name at least one.")
    if len(set(names.values())) < len(names):
        raise ParameterError("Two methods have names that differ in punctuation only: rename one of them.")
    return names


def made_folder(out: Path, inside: str = "") -> Path:
    """The folder, made if it was not there, with another one inside if that is asked for."""
    try:
        (out / inside).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {reason(error)}.") from error
    return out
