"""The contract of all methods, as a check that any method can be put through."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

import unskew
from unskew.calibration.experts import ExpertPlatt
from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError, UnskewError
from unskew.files.model import load
from unskew.methods.base import Method
from unskew.propensity.additive import Additive
from unskew.propensity.factors import Factors
from unskew.recipe import from_plain, to_plain
from unskew.recommender import Recommender
from unskew.risk.errors import ERRORS
from unskew.testing.logs import awkward, graded, ordinary
from unskew.testing.parts import exchanged, is_plain, is_recipe, parts_of, same
from unskew.testing.watch import Watch
from unskew.training.options import Training
from unskew.training.plan import Plan

SHORT = Training(max_epochs=2, batch_size=128, progress=False)
SHORTEST = replace(SHORT, max_epochs=1)
AWKWARD = replace(SHORTEST, holdout=0.3)  # of 6 ratings, 2


def check_method(method: Method, *, seed: int = 0) -> None:
    """Hold a method, your own or one of ours, to the contract; an AssertionError names the first claim that fails.

    The plan is valid and always the same, every update moves exactly the roles it names, one seed gives the same bits
    at any number of threads, global random state and recipe stay as they were, the recipe survives being written
    down and the model being saved, new users can be folded in or are refused, predictions lie within the scale, and
    logs that are too awkward to learn from are refused with a sentence.

    To be fast, it trains for two epochs on some 250 ratings, with `lightened` parts and, as the log has features, nets
    that read them. Your own classes must be known to recipes, see `unskew.recipe.register`.
    """
    check = _Check(type(method).__name__, seed)
    check.plan(method)
    check.writing(method)
    light: Method = exchanged(method, lightened)
    said = check.training(light)
    check.updates(light, said)
    check.scale(light)
    check.awkward_logs(exchanged(method, lightest))


def lightened(part: Any) -> Any:
    """A part that does the same in less time: fewer folds of a propensity, fewer steps of calibration experts."""
    if isinstance(part, Factors):
        return Factors(n_folds=2)
    if isinstance(part, ExpertPlatt):
        return replace(part, steps=min(part.steps, 5), steps_per_epoch=min(part.steps_per_epoch, 2))
    return part


def lightest(part: Any) -> Any:
    """As `lightened`, with a propensity that refuses no log before the method has seen it."""
    return Additive() if isinstance(part, Factors) else lightened(part)


class _Check:
    """The claims, a method for each; `name` and `seed` are those of the method being checked."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed

    def claim(self, held: bool, claim: str, but: str) -> None:
        if not held:
            raise AssertionError(f"{self.name}: {claim}, but {but}.")

    @contextmanager
    def without_error(self, claim: str, *refusals: type[Exception]) -> Iterator[None]:
        """Whatever is raised inside, except for a refusal, breaks the claim."""
        try:
            yield
        except Exception as error:
            if isinstance(error, (AssertionError, *refusals)):
                raise
            said = f"{type(error).__name__}: {str(error).removesuffix('.')}"
            raise AssertionError(f"{self.name}: {claim}, but it raised {said}.") from error

    def plan(self, method: Method) -> None:
        with self.without_error("the plan is valid"):
            plan, again = method.plan(), method.plan()
        self.claim(isinstance(plan, Plan), "the plan is valid", f"it is a {type(plan).__name__}")
        self.claim("prediction" in plan.roles, "the plan has a role 'prediction'", f"it has only {sorted(plan.roles)}")
        self.claim(same(plan, again), "the plan is the same every time", "two plans of one recipe differ")

    def writing(self, method: Method) -> None:
        self.claim(is_recipe(method), "a recipe is a dataclass", "this one is not")
        if not is_plain(method):  # functions and arrays have no text that stands for them
            return
        claim = "the repr of a recipe makes the recipe"
        with self.without_error(claim):
            again = eval(repr(method), names_for(method))
        self.claim(again == method, claim, f"it makes {again!r}")
        claim = "a recipe can be written as plain data"
        with self.without_error(claim):
            again = from_plain(to_plain(method))
        self.claim(again == method, claim, f"{again!r} is read back")

    def training(self, method: Method) -> NDArray[np.float64]:
        """Two fits with one seed; what they predict."""
        recipe, randomness = copy.deepcopy(method), _global_randomness()
        with _threads(1):
            model = self.fit(method)
        untouched = same(randomness, _global_randomness())
        self.claim(untouched, "fit leaves the global random state alone", "it drew from random, numpy or torch")
        self.claim(same(recipe, method), "fit leaves the recipe as it was", f"{recipe!r} has become {method!r}")
        self.probabilities(model, "an ordinary log")
        said = everywhere(model)
        with _threads(2):
            again = everywhere(self.fit(method))
        self.equal(said, again, "one seed gives the same bits at 1 and at 2 threads")
        self.saving(model, said)
        self.newcomers(model, said)
        return said

    def saving(self, model: Recommender, said: NDArray[np.float64]) -> None:
        with tempfile.TemporaryDirectory() as folder, self.without_error("a model can be saved and loaded"):
            model.save(Path(folder) / "model")
            loaded = everywhere(load(Path(folder) / "model"))
        self.equal(said, loaded, "a saved and loaded model predicts the same bits")

    def newcomers(self, model: Recommender, said: NDArray[np.float64]) -> None:
        """Somebody who rates as the first user did."""
        log, claim = model.log, "new users are folded in or refused with a ParameterError"
        ratings = log.take(log.users == 0).to_arrow().drop_columns("user_id")
        with suppress(ParameterError), self.without_error(claim, ParameterError):
            joined = model.fold_in(ratings.append_column("user_id", pa.array(["a stranger"] * len(ratings))))
            known, items = joined.predict_codes(*_all_pairs(log)), np.arange(log.n_items)
            self.equal(said, known, "answers about known users stay as they are when others are folded in")
            self.within(joined.predict_codes(np.full(len(items), log.n_users), items), 0, 1, claim)

    def updates(self, method: Method, said: NDArray[np.float64]) -> None:
        """A fit with another seed, watched."""
        watch, watched = Watch(self.name, method.plan()), copy.copy(method)
        object.__setattr__(watched, "plan", lambda: watch.plan)  # so that fit is still the method's own
        model = self.fit(watched, seed=self.seed ^ 1)
        watch.finish(model.cast.players)
        self.claim(bool((everywhere(model) != said).any()), "another seed gives other bits", "they are the same")

    def scale(self, method: Method) -> None:
        log, random_ratings = graded()
        claim = "graded ratings are answered within their scale or refused with a DataError"
        for variant in with_each_error(method):
            with suppress(DataError), self.without_error(claim, DataError):
                model = variant.fit(log, seed=self.seed, training=SHORTEST, random_ratings=random_ratings)
                users, items = _all_pairs(log)
                said = model.predict(log.user_ids.take(users), log.item_ids.take(items))
                self.within(said, log.scale.low, log.scale.high, claim)

    def awkward_logs(self, method: Method) -> None:
        for what, log in awkward():
            claim = f"a log {what} is learned from or refused with an UnskewError"
            with suppress(UnskewError), self.without_error(claim, UnskewError):
                self.probabilities(method.fit(log, seed=self.seed, training=AWKWARD), f"a log {what}")
        with suppress(DataError), self.without_error("an empty log is refused with a DataError", DataError):
            method.fit(ordinary()[0].take(np.arange(0)), seed=self.seed, training=SHORT)
            self.claim(False, "an empty log is refused with a DataError", "it was learned from")

    def fit(self, method: Method, *, seed: int | None = None) -> Recommender:
        with self.without_error("an ordinary log is learned from"):
            log, random_ratings = ordinary()
            used = self.seed if seed is None else seed
            return method.fit(log, seed=used, training=SHORT, random_ratings=random_ratings)

    def probabilities(self, model: Recommender, log: str) -> None:
        """Also for a user or an item that the log does not know, whose code is -1."""
        unknown = model.predict_codes(np.array([-1, 0, -1]), np.array([0, -1, -1]))
        before = model.uncorrected("prediction", *_all_pairs(model.log))  # random ratings would hide what is wrong
        said = np.concatenate([everywhere(model), unknown, before])
        self.within(said, 0, 1, "predictions are probabilities", f" after {log}")

    def within(self, said: NDArray[np.float64], low: float, high: float, claim: str, where: str = "") -> None:
        strays = said[~((said >= low) & (said <= high))]  # NaN among them
        self.claim(not len(strays), claim, f"{len(strays)} of {len(said)} are not{where}, such as {strays[:1]}")

    def equal(self, one: NDArray[np.float64], other: NDArray[np.float64], claim: str) -> None:
        differing = int((one != other).sum())
        self.claim(not differing, claim, f"{differing} of {len(one)} predictions differ")


def names_for(method: Method) -> dict[str, Any]:
    """What a user has at hand to make the method: the public names of unskew, and classes of their own."""
    classes = {type(part).__name__: type(part) for part in parts_of(method) if is_recipe(part)}
    own = {name: cls for name, cls in classes.items() if not cls.__module__.startswith("unskew.")}
    return own | {name: getattr(unskew, name) for name in unskew.__all__}


def with_each_error(method: Any) -> list[Method]:
    """The method with every error it can minimise, or as it is if it has no such setting."""
    settings = {setting.name for setting in fields(method)}
    if "error" in settings:
        variants = []
        for error in ERRORS:
            with suppress(ParameterError):
                variants.append(replace(method, error=error))
        return variants
    if "base" in settings:
        return [replace(method, base=base) for base in with_each_error(method.base)]
    return [method]


def everywhere(model: Recommender) -> NDArray[np.float64]:
    """The predictions for all pairs."""
    return model.predict_codes(*_all_pairs(model.log))


def _all_pairs(log: RatingLog) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.divmod(np.arange(log.n_pairs), log.n_items)


def _global_randomness() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """PyTorch and compiled kernels on this many threads, or as many as there are."""
    import numba  # takes a second

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(number)
    numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
