"""Several fits of one method, averaged."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.methods.base import Method
from unskew.methods.features import decided
from unskew.methods.space import Space, inside
from unskew.processes import Processes
from unskew.progress import bar
from unskew.recommender import Recommender
from unskew.training.checks import check_number
from unskew.training.options import Training
from unskew.training.plan import Plan
from unskew.unbiased.inform import informed


@dataclass(frozen=True)
class Ensemble(Method):
    """The average, in probability, of `n_members` fits of one method, with random streams of their own.

    Each member also holds out a part of the log of its own, disjoint from those of the others as long as there are such
    parts: a rating by which one of them stops has taught the others. Then nothing is left that no member was trained
    on, and by the log alone only members can be judged; `same_holdout=True` holds out the same part for all instead.
    The first member is the fit of the base with the same seed, to the bit.

    With `Training(workers=N)` members are fitted side by side in N processes, which changes no bit. Programs that do
    so must be importable, as everywhere in Python: what they run stands under `if __name__ == "__main__"`.
    """

    base: Method
    n_members: int = 5
    same_holdout: bool = False

    def __post_init__(self) -> None:
        check_number(self, "n_members", least=1)
        if isinstance(self.base, Ensemble):
            raise ParameterError("The base of Ensemble is an Ensemble: give it more members instead.")

    @property
    def alone(self) -> Method:
        return self.base

    def plan(self) -> Plan:
        """That of every member."""
        return self.base.plan()

    def space(self) -> Space:
        return inside("base", self.base.space())

    def fit_settled(
        self, log: RatingLog, *, seed: int, training: Training, unbiased: RatingLog | None = None
    ) -> Recommender:
        if training.workers > 1 and training.spread:
            raise ParameterError("workers and spread both say which processes train: give one of the two.")
        base, notes = decided(self.base, log, seed=seed, training=training)
        fits = [MemberFit(base, self.training_of(training, number), seed) for number in range(self.n_members)]
        members = side_by_side(fits, log, unbiased) if training.workers > 1 else [fit(log, unbiased) for fit in fits]
        alike = [replace(member, slice=None, corrections={}) for member in members]  # they are corrected together
        model = Recommender.together(replace(self, base=base), alike, training)
        model.history.notes.extend(notes)
        return model if unbiased is None or training.group.rank else informed(model, unbiased, in_training=True)

    def training_of(self, training: Training, number: int) -> Training:
        """The options of one member."""
        part = training.part if self.same_holdout else number
        return replace(training, member=number, part=part).inside(f"member.{number}")


@dataclass(frozen=True)
class MemberFit:
    """One fit that is to be done, here or in another process."""

    method: Method
    training: Training
    seed: int

    def __call__(self, log: RatingLog, unbiased: RatingLog | None) -> Recommender:
        return self.method.fit(log, seed=self.seed, training=self.training, unbiased=unbiased)


Task: TypeAlias = tuple[int, MemberFit]
Sent: TypeAlias = tuple[int, bytes]


def side_by_side(fits: Sequence[MemberFit], log: RatingLog, unbiased: RatingLog | None) -> list[Recommender]:
    """The members in order, fitted in as many processes as their options say."""
    training = fits[0].training
    try:
        pickle.dumps(fits)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error).rstrip(".")
        raise ParameterError(f"The method cannot go to another process ({reason}): fit with workers=1.") from error
    processes: Processes[Task, Sent] = Processes(min(training.workers, len(fits)), _sent, (log, unbiased))
    found = dict[int, Recommender]()
    try:
        with (
            closing(processes.results(list(enumerate(fits)))) as results,
            bar("members", len(fits), "member", shown=training.progress) as shown,
        ):
            for number, model in results:
                found[number] = pickle.loads(model)
                shown.advance()
    finally:
        processes.close()
    return [replace(found[number], log=log, training=fit.training) for number, fit in enumerate(fits)]


def _sent(task: Task, given: tuple[RatingLog, RatingLog | None]) -> Sent:
    """In another process: a member without the log that all of them share.

    It is pickled here: left to send tensors by itself, PyTorch would share memory that ends with this process.
    """
    number, fit = task
    model = replace(fit, training=replace(fit.training, progress=False))(*given)
    return number, pickle.dumps(replace(model, log=None))  # type: ignore[arg-type]
