"""What a benchmark found, in words, tables and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import unskew
from unskew.bench.document import as_csv, document_of
from unskew.bench.exam import Exam, key
from unskew.bench.formats import latex, markdown, page
from unskew.bench.jobs import Outcome
from unskew.bench.judge import Judging
from unskew.bench.records import Values
from unskew.bench.search import Search
from unskew.bench.table import NAIVE, Table, standings_of
from unskew.evaluation import positive_from
from unskew.files.atomic import write_file

Costs = dict[str, dict[str, float]]  # of each method


def tabled(
    names: Sequence[str], outcome: Outcome, searches: Sequence[Search], seeds: int, setting: tuple[str, ...]
) -> Table:
    found = _complete(names, outcome, seeds)
    notes = dict.fromkeys(note for fits in found.values() for fit in fits for note in fit["notes"])
    return Table(
        title=f"Benchmark of {len(names)} methods",
        setting=setting,
        methods=tuple(names),
        standings=standings_of({name: [fit["test"] for fit in fits] for name, fits in found.items()}),
        choices=tuple(choice_of(each) for each in searches),
        notes=(*notes, *_what_failed(searches, outcome), *_what_is_missing(names)),
    )


def _complete(names: Sequence[str], outcome: Outcome, seeds: int) -> dict[str, list[Values]]:
    """The fits of the methods that have one for every seed."""
    keys = {name: [key(name, seed) for seed in range(seeds)] for name in names}
    return {
        name: [outcome.values[fit] for fit in fits]
        for name, fits in keys.items()
        if all(fit in outcome.values for fit in fits)
    }


def choice_of(each: Search) -> tuple[str, ...]:
    """A line about what a search found."""
    failed = str(sum(trial.score is None for trial in each.trials))
    first, best = each.trials[0], each.best
    if best is None:
        return each.name, "none", "", "", failed, ""
    chosen = ", ".join(f"{name} {value}" for name, value in each.in_words(best).items()) or "the defaults"
    scores = ("failed" if trial.score is None else f"{trial.score:.4f}" for trial in (best, first))
    return each.name, str(best.number), *scores, failed, chosen


def _what_failed(searches: Sequence[Search], outcome: Outcome) -> list[str]:
    hopeless = [
        f"All trials of {each.name} failed, the first because: {each.trials[0].failure}"
        for each in searches
        if each.best is None
    ]
    return hopeless + [f"Failed: {fit}: {sentence}" for fit, sentence in outcome.failures.items()]


def _what_is_missing(names: Sequence[str]) -> list[str]:
    return [] if NAIVE in names else [f"{NAIVE} is not among the methods, so nothing is compared with it."]


def costs_of(names: Sequence[str], outcome: Outcome, seeds: int) -> Costs:
    """What fits took; a first look, as seconds depend on what else the machine did."""
    return {name: _costs(fits) for name, fits in _complete(names, outcome, seeds).items()}


def _costs(fits: Sequence[Values]) -> dict[str, float]:
    seconds = [fit["seconds"] for fit in fits]
    return {
        "mean_seconds": float(np.mean(seconds)),
        "sd_seconds": float(np.std(seconds, ddof=1)) if len(seconds) > 1 else 0.0,
        "peak_megabytes": max(fit["peak_megabytes"] for fit in fits),
        "parameters": max(fit["parameters"] for fit in fits),
    }


def rules(exam: Exam, seeds: int, trials: int, judging: Judging) -> list[str]:
    """By which rules all this was found, in words."""
    sentences = [
        f"unskew {unskew.__version__}. Learned from: {exam.log!r}. Test: {exam.test!r}. {empty_rule(exam)} Fits with "
        f"{seed_names(seeds)}, each of which holds out {exam.training.holdout:.0%} of the log for stopping and "
        "calibration.",
    ]
    if not trials:
        return [*sentences, "Nothing was tuned: every method has the settings it was given."]
    return [
        *sentences,
        f"Tuned: {trials} trials for every method, the first with its settings as they are, the others asked of a "
        f"seeded TPE sampler. A trial is fitted on {judging.folds - 1} of {judging.folds} random folds of the log and "
        f"judged on the fold left out, by {judging.criterion}, averaged over {judging.judges} such folds; the best is "
        "fitted on the whole log. The test was used after that only.",
    ]


def empty_rule(exam: Exam) -> str:
    """From where a test pair is positive, and what becomes of users without one."""
    rule = {"skip": "are left out of", "one": "count as 1 in", "zero": "count as 0 in"}[exam.empty_users]
    return (
        f"Positive from a rating of {positive_from(exam.test):g}; users without a positive test pair {rule} the means "
        f"over users (empty_users={exam.empty_users!r})."
    )


def seed_names(seeds: int) -> str:
    return "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1}"


def publish(table: Table, costs: Costs, folder: Path) -> None:
    """The table in four formats, the same to the byte whenever the same was found, and apart from it the costs."""
    document = document_of(table)
    files = {
        "table.csv": as_csv(table),
        "table.md": markdown(document),
        "table.tex": latex(document),
        "table.html": page(document),
        "costs.csv": _costs_csv(costs),
    }
    for name, text in files.items():
        write_file(folder / name, text.encode())


def _costs_csv(costs: Mapping[str, Mapping[str, float]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", *next(iter(costs.values()), {})])
    writer.writerows([method, *values.values()] for method, values in costs.items())
    return out.getvalue()
