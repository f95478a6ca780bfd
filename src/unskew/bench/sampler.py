"""What to try next: Optuna's TPE sampler, asked and told by number."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from unskew.errors import ParameterError
from unskew.methods.settings import Choice, Dimension, Space

STARTUP_TRIALS = 10  # drawn at random before the sampler begins to learn


class Sampler:
    """A seeded tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) over a space.

    The study lives in memory: records are the one place where trials are kept, and asking again in the same order,
    with the same answers, brings the sampler back to where it was.
    """

    def __init__(self, space: Space, seed: int, maximise: bool) -> None:
        optuna = self._optuna = _optuna()
        self._distributions = {name: self._distribution(dimension) for name, dimension in space.items()}
        self._asked: dict[int, Any] = {}
        with _quiet(optuna):
            settings = {"n_startup_trials": STARTUP_TRIALS, "constant_liar": True}
            sampler = optuna.samplers.TPESampler(seed=_of_32_bits(seed), **settings)
            self._study = optuna.create_study(direction="maximize" if maximise else "minimize", sampler=sampler)

    def ask(self, number: int) -> dict[str, Any]:
        """What trial `number` is to choose from the space."""
        self._asked[number] = self._study.ask(self._distributions)
        return dict(self._asked[number].params)

    def begin(self, number: int, chosen: Mapping[str, Any]) -> None:
        """Hear of a trial that was not asked for."""
        self._study.enqueue_trial(dict(chosen))
        self.ask(number)

    def tell(self, number: int, score: float | None) -> None:
        """Learn the score of a trial, None if it failed; one that the sampler has not heard of is passed over."""
        if number in self._asked:
            failed = self._optuna.trial.TrialState.FAIL if score is None else None
            self._study.tell(self._asked[number], score, state=failed)

    def _distribution(self, dimension: Dimension) -> Any:
        distributions = self._optuna.distributions
        if isinstance(dimension, Choice):
            return distributions.CategoricalDistribution(dimension.values)
        return distributions.FloatDistribution(dimension.low, dimension.high, log=True)


def _of_32_bits(seed: int) -> int:
    """Optuna takes no larger seeds."""
    return seed if seed < 2**32 else int(np.random.SeedSequence(seed).generate_state(1)[0])


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ParameterError("Tuning needs Optuna, which is not installed: pip install 'unskew[tune]'.") from None
    return optuna


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Nothing is said about a new study, nor that the sampler's option for rounds is called experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
