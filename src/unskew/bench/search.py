"""The search for settings: as many trials for every method, judged by folds of the log alone.

Trials come in order, each drawn from those before it by a seed of its own; their fits, of all methods on all folds, run
side by side: any number of workers finds the same, and so does a search that goes on from Optuna's journal.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.bench.run import Forecast, Job, Stopped, Values, another_log, attempts, versions, warm_up
from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError, checked_seed, chosen, of_class, whole
from unskew.evaluation.estimators import estimate
from unskew.evaluation.judge import N_FOLDS, Evidence, gather
from unskew.methods.base import Method
from unskew.methods.settings import Choice, defaults_of, with_chosen
from unskew.metrics.table import find
from unskew.registry import as_method, named
from unskew.runtime import bar, say
from unskew.store.atomic import PathLike, checked_path, locked, reason
from unskew.store.model import log_digest
from unskew.store.recipe import to_plain
from unskew.training.options import Training

RANDOM_TRIALS = 10  # before the sampler begins to learn


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How a trial is judged: fitted without each of five folds, doubly robust over the pairs that nobody chose."""

    criterion: str = "mse"
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        errors = [name for name, metric in named("metric").items() if metric.cell is not None]
        chosen(self.criterion, "criterion", [*errors, "auc", "user_auc"])
        object.__setattr__(self, "seed", checked_seed(self.seed))
        object.__setattr__(self, "training", Training.given(self.training))


class Trial(NamedTuple):
    """What was chosen from a method's space, and how it was judged; the first trial is the method as it is."""

    chosen: Mapping[str, Any]
    score: float | None
    failure: str


class Search:
    """The trials of one method, in a study of Optuna's."""

    def __init__(self, name: str, method: Method, log: RatingLog, validation: Validation, study: Any, n: int) -> None:
        self.name, self.method, self.log, self.validation, self.study = name, method, log, validation, study
        self.space = method.space()
        self.wanted = n if self.space else 1  # what has no settings is judged once, as it is

    @property
    def trials(self) -> list[Trial]:
        """Those that are finished, in order, as many as are wanted; a crash may leave others in the journal."""
        done = [trial for trial in self.study.trials if trial.state.is_finished()]
        done.sort(key=lambda trial: int(trial.user_attrs["number"]))
        return [Trial(trial.params, trial.value, trial.user_attrs["failure"]) for trial in done[: self.wanted]]

    def ask(self, number: int) -> Any:
        """Draw a trial by a tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)."""
        optuna = _optuna()
        seed = int(np.random.SeedSequence([self.validation.seed, number]).generate_state(1)[0])
        settings = {"n_startup_trials": RANDOM_TRIALS, "constant_liar": False}
        self.study.sampler = optuna.samplers.TPESampler(seed=seed, **settings)
        if number == 0:
            defaults = defaults_of(self.method, self.space, self.log)
            if defaults is None:
                return self.study.ask()
            if not any(trial.state == optuna.trial.TrialState.WAITING for trial in self.study.trials):
                self.study.enqueue_trial(defaults)
        kinds = optuna.distributions
        space = {
            name: kinds.CategoricalDistribution(each.values)
            if isinstance(each, Choice)
            else kinds.FloatDistribution(each.low, each.high, log=True)
            for name, each in self.space.items()
        }
        return self.study.ask(space)

    def tell(self, trial: Any, number: int, score: float | None, failure: str) -> None:
        """Keep how a trial was judged."""
        for key, value in (("number", number), ("failure", failure)):
            trial.set_user_attr(key, value)
        state = _optuna().trial.TrialState
        self.study.tell(trial, score, state=state.FAIL if score is None else state.COMPLETE)

    def best(self) -> Tuned | None:
        """Return the best trial, the first of equals; None if every trial failed."""
        sign, trials = -1 if find(self.validation.criterion).higher_is_better else 1, self.trials
        scores = [math.inf if trial.score is None else sign * trial.score for trial in trials]
        number = int(np.argmin(scores))
        if scores[number] == math.inf:
            return None
        chosen = trials[number].chosen if number else {}  # the first is the method as it is
        words = {name: self.space[name].shown(value) for name, value in chosen.items()}
        method = with_chosen(self.method, self.space, chosen, self.log)
        return Tuned(method, trials[number].score or 0.0, words, trials, number)

    def choice(self) -> tuple[str, ...]:
        """Return a line about what was found: name, best trial, its score, that of the first, failed ones, chosen."""
        best, trials = self.best(), self.trials
        failed = str(sum(trial.score is None for trial in trials))
        if best is None:
            return self.name, "none", "", "", failed, ""
        chosen = ", ".join(f"{name} {value}" for name, value in best.chosen.items()) or "as it is"
        first = "failed" if trials[0].score is None else f"{trials[0].score:.4f}"
        return self.name, str(best.number), f"{best.score:.4f}", first, failed, chosen


class Tuned(NamedTuple):
    """What a search found: the best method, its score, what was chosen for it in words, all trials, and which it is."""

    method: Method
    score: float
    chosen: dict[str, str]
    trials: Sequence[Trial]
    number: int


def search(
    methods: Mapping[str, Method],
    log: RatingLog,
    trials: int,
    validation: Validation,
    workers: int = 1,
    journal: Path | None = None,
) -> list[Search]:
    """Give each of the methods as many trials."""
    studies = _studies(methods, log, validation, journal)
    searches = [Search(name, methods[name], log, validation, study, trials) for name, study in studies.items()]
    kinds = [each.name for each in searches for _ in range(N_FOLDS * (each.wanted - len(each.trials)))]
    if not kinds:
        return searches
    say(f"{len(kinds)} fits to tune by: {N_FOLDS} for each of {trials} trials of every method, but for finished ones.")
    evidence, forecast = gather(log, seed=validation.seed), Forecast(kinds, workers)
    given = log, evidence.fold_of_ratings, (evidence.fold, evidence.users, evidence.items), validation.training
    try:
        with bar("tuning", len(kinds), "fit") as shown:
            for number in range(trials):
                asked = [(each, each.ask(number)) for each in searches if len(each.trials) == number < each.wanted]
                tried = [(each, trial.params if number else {}) for each, trial in asked]  # the first as it is
                jobs = [
                    Job(f"{each.name}/{fold}", None, partial(_answered, each.method, chosen, fold))
                    for each, chosen in tried
                    for fold in range(N_FOLDS)
                ]
                found = {one.job.key: one for one in attempts(jobs, workers, given, shown, forecast)}
                for each, trial in asked:
                    own = [found[f"{each.name}/{fold}"] for fold in range(N_FOLDS)]
                    failure = next((one.failure for one in own if one.failure), "")
                    score = None if failure else _score(evidence, validation, [one.values["answers"] for one in own])
                    each.tell(trial, number, score, failure)
    except OSError as error:
        raise ParameterError(
            f"The journal {journal} cannot be added to: {reason(error)}; make room and go on."
        ) from error
    except KeyboardInterrupt:
        kept = "lost" if journal is None else f"kept in {journal}"
        raise Stopped(f"Stopped; finished trials are {kept}; run the same command again to go on.") from None
    return searches


def _answered(method: Method, chosen: Mapping[str, Any], fold: int, given: Any) -> Values:
    """Fit a method on the ratings outside a fold and answer for the rows that it is judged on."""
    warm_up()
    log, fold_of, (fold_of_rows, users, items), training = given
    train, rows = log.take(fold_of != fold), fold_of_rows == fold
    model = with_chosen(method, method.space(), chosen, train).fit(
        train, seed=fold, training=replace(training, progress=False)
    )
    return {"answers": model.predict_codes(users[rows], items[rows])}


def _score(evidence: Evidence, validation: Validation, answers: Sequence[NDArray[np.float64]]) -> float:
    """Return the criterion; rows are sorted by fold, and so are answers."""
    return estimate(evidence, find(validation.criterion), "dr", np.concatenate(answers)).value


def _studies(
    methods: Mapping[str, Method], log: RatingLog, validation: Validation, journal: Path | None
) -> dict[str, Any]:
    """Open a study for each method, with its trials of before unless something that they depend on has changed."""
    optuna, mark, storage = _optuna(), log_digest(log), None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if journal is not None:
        if journal.exists() and (written := journal.read_bytes()) and not written.endswith(b"\n"):
            os.truncate(journal, written.rfind(b"\n") + 1)  # what a crash left of a line
        Path(f"{journal}.lock").unlink(missing_ok=True)  # of a run that was killed: who is here holds a lock of ours
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
        for known in optuna.get_all_study_summaries(storage):
            if known.user_attrs.get("log", mark) != mark:
                raise another_log(journal, known.user_attrs["log"], log, mark)
    direction = "maximize" if find(validation.criterion).higher_is_better else "minimize"
    studies = {}
    for name, method in methods.items():
        facts = [to_plain(method), to_plain(validation.training), validation.criterion, validation.seed, versions()]
        digest = hashlib.sha256(json.dumps([facts, mark], sort_keys=True).encode()).hexdigest()[:12]
        settings = {"study_name": f"{name} {digest}", "direction": direction, "load_if_exists": True}
        studies[name] = optuna.create_study(storage=storage, **settings)
        studies[name].set_user_attr("log", mark)
    return studies


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ParameterError("Tuning needs Optuna, which is not installed: pip install 'unskew[tune]'.") from None
    return optuna


def tune(
    log: RatingLog,
    method: Method | str,
    trials: int = 50,
    *,
    validation: Validation | None = None,
    workers: int = 1,
    journal: PathLike | None = None,
    name: str = "",
) -> Tuned:
    """Search the space of a method on a log; with `journal`, a file, a search that is stopped can go on.

    `name` is what the method is called there, by default the name it is registered by or that of its class.
    """
    name = of_class(name, "name", str) or (method if isinstance(method, str) else type(method).__name__)
    whole(trials, "trials", 1, 100_000)
    whole(workers, "workers", 1)
    validation = Validation() if validation is None else of_class(validation, "validation", Validation)
    start, log = as_method(method), as_log(log)
    if not start.space():
        raise ParameterError(f"{name} has no settings to tune: fit it as it is, or give its class a `space`.")
    if journal is not None:
        checked_path(journal)
        journal = Path(journal)  # as it was given, for sentences
    with locked(journal):
        (found,) = search({name: start}, log, trials, validation, workers, journal)
    if (best := found.best()) is None:
        raise DataError(f"All {trials} trials of {name} failed, the first because: {found.trials[0].failure}")
    return best
