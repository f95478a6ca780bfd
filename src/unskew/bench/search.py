"""The search for settings: as many trials for every method, judged by validation alone.

Trials are asked for in rounds of four and told in their order. What a round asks for depends on the rounds before it
and on nothing else, so any number of workers finds the same, and a run that was stopped asks for the same again and
reads from the records what it had found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from unskew.bench.jobs import Job, Runner, opened
from unskew.bench.judge import Judging, Panel
from unskew.bench.records import Records, Values
from unskew.bench.sampler import Sampler
from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.files.logs import fingerprint
from unskew.methods.base import Method
from unskew.methods.settings import defaults_of, with_chosen
from unskew.metrics.checks import require_count
from unskew.recipe import to_plain
from unskew.registry import make

ROUND = 4


@dataclass(frozen=True)
class Trial:
    """What was chosen from a method's space, nothing for the first trial, and how it was judged.

    `method` has the settings for the whole log; `score` is None for a trial that failed, and before it is judged.
    """

    number: int
    method: Method
    chosen: Mapping[str, Any]
    score: float | None = None
    failure: str = ""


class Search:
    """The trials of one method: first the method as it is, then what a seeded TPE sampler asks for."""

    def __init__(self, name: str, method: Method, log: RatingLog, judging: Judging) -> None:
        self.name, self.method, self.log, self.judging = name, method, log, judging
        self.space, self.trials = method.space(), list[Trial]()
        if not self.space:
            raise ParameterError(
                f"{type(method).__name__} declares no settings to tune: give its class a `space`, or do without tuning."
            )
        self._sampler = Sampler(self.space, judging.seed, judging.higher_is_better)

    def ask(self, count: int, first: int) -> list[Trial]:
        return [self._trial(number) for number in range(first, first + count)]

    def _trial(self, number: int) -> Trial:
        if number == 0:
            if (defaults := defaults_of(self.method, self.space, self.log)) is not None:
                self._sampler.begin(0, defaults)
            return Trial(0, self.method, {})
        chosen = self._sampler.ask(number)
        return Trial(number, with_chosen(self.method, self.space, chosen, self.log), chosen)

    def tell(self, trial: Trial, verdicts: list[Values]) -> None:
        """Keep how the trial was judged, and let the sampler learn from it."""
        failures = [verdict["failure"] for verdict in verdicts if "failure" in verdict]
        score = None if failures else self.judging.score(verdicts)
        self.trials.append(replace(trial, score=score, failure="".join(failures[:1])))
        self._sampler.tell(trial.number, score)

    @property
    def best(self) -> Trial | None:
        """The trial of the best score, the first of equals; None if every trial failed."""
        scored = [trial for trial in self.trials if trial.score is not None]
        sign = -1 if self.judging.higher_is_better else 1
        return min(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)

    def in_words(self, trial: Trial) -> dict[str, str]:
        """What a trial chose."""
        return {name: self.space[name].shown(value) for name, value in trial.chosen.items()}

    def jobs(self, trial: Trial, log_mark: str) -> list[Job]:
        """One for every judge."""
        recipe = {
            "method": to_plain(trial.method),
            "chosen": dict(trial.chosen),
            "training": to_plain(self.judging.training),
            "criterion": self.judging.criterion,
            "folds": self.judging.folds,
            "folds_seed": self.judging.seed,
            "log": log_mark,
        }
        return [
            Job(
                f"trial/{self.name}/{trial.number}/{fold}",
                recipe | {"seed": fold},
                partial(_verdict, fold=fold, method=self.method, chosen=trial.chosen),
            )
            for fold in range(self.judging.judges)
        ]


def _verdict(panel: Panel, *, fold: int, method: Method, chosen: Mapping[str, Any]) -> Values:
    return panel.judge(fold).verdict(method, chosen)


def searches_of(methods: Mapping[str, Method], log: RatingLog, judging: Judging) -> list[Search]:
    """One for each method, refused if the log or a method is not for searching."""
    if judging.folds > len(log):
        raise ParameterError(f"A log of {len(log)} ratings cannot be cut into {judging.folds} folds: give fewer.")
    return [Search(name, method, log, judging) for name, method in methods.items()]


def search(searches: Sequence[Search], trials: int, records: Records, workers: int = 1) -> None:
    """As many trials for each of the methods, side by side."""
    log, judging = searches[0].log, searches[0].judging
    mark = fingerprint(log)
    refuse_another_log(records, log, mark)
    total = len(searches) * trials * judging.judges
    with Runner(records, total, workers, Panel(log, judging), "fit") as runner:
        for first in range(0, trials, ROUND):
            asked = [(each, trial) for each in searches for trial in each.ask(min(ROUND, trials - first), first)]
            jobs = [each.jobs(trial, mark) for each, trial in asked]
            found = _judged(runner, [job for own in jobs for job in own], judging)
            for (each, trial), own in zip(asked, jobs, strict=True):
                each.tell(trial, [found[job.key] for job in own])


def _judged(runner: Runner, jobs: Sequence[Job], judging: Judging) -> dict[str, Values]:
    outcome = runner.run(jobs)
    for key, sentence in outcome.failures.items():  # a fit that fails is a finding; this is a judge that cannot judge
        raise DataError(f"Trials cannot be judged by {judging.criterion} ({key}), choose another criterion: {sentence}")
    return outcome.values


def refuse_another_log(records: Records, log: RatingLog, mark: str) -> None:
    """Records of a log that has changed since are nothing to go on from."""
    for record in records.known:
        of = record.recipe.get("log", mark) if isinstance(record.recipe, dict) else mark
        if of != mark:
            raise DataError(
                f"{records.file} holds records of another log, of fingerprint {of}, while this one ({log!r}) has "
                f"{mark}: the ratings or how they are read have changed. Choose another place, or delete that file."
            )


@dataclass(frozen=True)
class Tuned:
    """What a search found: the best method, its score, what was chosen for it in words, and all trials."""

    method: Method
    score: float
    chosen: dict[str, str]
    trials: tuple[Trial, ...]


def tune(
    log: RatingLog,
    method: Method | str,
    trials: int = 50,
    *,
    judging: Judging | None = None,
    workers: int = 1,
    records: Path | None = None,
    name: str = "",
) -> Tuned:
    """Search the space of a method on a log; with `records`, a file, a search that is stopped can go on.

    `name` is what the method is called there, by default the name it is registered by or that of its class.
    """
    name = name or (method if isinstance(method, str) else type(method).__name__)
    require_count(trials, "trials")
    require_count(workers, "workers")
    start = make(method) if isinstance(method, str) else method
    (found,) = searches_of({name: start}, log, judging or Judging())
    with opened(records) as known:
        search([found], trials, known, workers)
    if (best := found.best) is None or best.score is None:
        raise DataError(f"All {trials} trials of {name} failed, the first because: {found.trials[0].failure}")
    return Tuned(best.method, best.score, found.in_words(best), tuple(found.trials))
