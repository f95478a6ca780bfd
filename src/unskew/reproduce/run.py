"""A table or a figure of the paper, from a log to a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unskew.bench.document import chosen
from unskew.bench.jobs import Outcome, opened
from unskew.bench.judge import Judging
from unskew.bench.protocol import RECORDS, examined, made_folder
from unskew.bench.report import choice_of, rules
from unskew.bench.search import searches_of
from unskew.data.log import RatingLog
from unskew.data.world import World
from unskew.metrics.checks import require_count
from unskew.reproduce.exam import CalibrationExam
from unskew.reproduce.pages import publish
from unskew.reproduce.rows import Row, rows_of, statistics
from unskew.reproduce.suite import DatasetFacts, Suite, dataset_facts, suite

CALIBRATION = (
    "ECE is over 15 bins: of the propensity, calibrated where the method calibrates and before any clip, against who "
    "was seen, over all pairs or 100,000 random ones; of the imputation against the ratings of the test. Where few "
    "pairs are seen nearly all propensities share the first bin of equal width, and the ECE shrinks to the distance "
    "between their mean and the base rate: bins of equal mass tell more."
)
AS_PUBLISHED = (
    "As published: what public code does where we have it (DR-JL and DCE-DR), and otherwise our own losses with the "
    "nets, propensities and weight decays of the literature, where the suite says so; trained with {}."
)
COSTS = "Seconds are wall clock of one process on one thread, fit alone, and depend on what else the machine does."


@dataclass(frozen=True)
class Reproduced:
    """A target with what was found, and the files that were written."""

    target: str
    rows: list[Row]
    files: list[Path]
    failures: dict[str, str]


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
    """Write OUT/target.csv, .svg, .png, .md and .html, made from the suite of that name.

    `dataset` names what the log is: it decides cut-offs, the paper's numbers and how public code trains. Every recipe
    is fitted for each seed and asked the test; with `trials` it is tuned first, as in `unskew.bench.benchmark`. `only`
    names the entries that are wanted, if not all are. Fits are kept in OUT/records.jsonl, so targets that share a
    recipe share its fits, and a run that was stopped goes on.
    """
    require_count(seeds, "seeds")
    require_count(workers, "workers")
    asked, facts = suite(target).limited(only), dataset_facts(dataset)
    stem = made_folder(out) / (f"{target}-as-published" if as_published else target)
    if not asked.entries:
        rows = statistics(asked, facts, log, test)
        return Reproduced(target, rows, publish(asked, facts, rows, about, (), stem), {})
    training = facts.training(as_published)
    judging = Judging(training=training if max_epochs is None else replace(training, max_epochs=max_epochs))
    exam = CalibrationExam(
        log=log,
        test=test,
        training=judging.training,
        empty_users=facts.empty_users,
        world=world,
        cutoffs=facts.cutoffs,
    )
    recipes = asked.recipes(facts.name, as_published)
    methods = dict(recipes.values())
    searches = searches_of(methods, log, judging) if trials else []
    with opened(out / RECORDS) as records:
        _, outcome = examined(
            exam, methods, searches, records, seeds=seeds, trials=trials, judging=judging, workers=workers
        )
    rows = rows_of(asked, facts, outcome, {name: key for name, (key, _) in recipes.items()}, seeds)
    sentences = [*about, *rules(exam, seeds, trials, judging), *_about_the_suite(asked, facts, as_published)]
    choices = chosen([choice_of(each) for each in searches])
    files = publish(asked, facts, rows, sentences, [*choices, *_notes(outcome)], stem)
    return Reproduced(target, rows, files, outcome.failures)


def _about_the_suite(asked: Suite, facts: DatasetFacts, as_published: bool) -> list[str]:
    options = ", ".join(f"{name}={value!r}" for name, value in facts.published_training.items())
    calibration = any("_ece" in quantity for quantity in asked.quantities)
    said = {
        AS_PUBLISHED.format(options): as_published,
        CALIBRATION: calibration,
        COSTS: "seconds" in asked.quantities,
    }
    return [sentence for sentence, holds in said.items() if holds]


def _notes(outcome: Outcome) -> list[str]:
    """What evaluations had to say, once each, and what failed."""
    notes = dict.fromkeys(note for fit in outcome.values.values() for note in fit["notes"])
    return [*notes, *(f"Failed: {fit}: {sentence}" for fit, sentence in outcome.failures.items())]
