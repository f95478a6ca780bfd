"""The contract of methods as checks that any can be put through, and with it any net, propensity or calibrator.

Each check raises an AssertionError whose sentence names the part, the claim and what was found instead, or lets pass
what the part itself raised.
"""

import copy
import random
import tempfile
from contextlib import suppress
from dataclasses import is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.calibration.platt import Calibrator
from unskew.errors import DataError, ParameterError, UnskewError, of_class
from unskew.losses.columns import ERRORS, Array
from unskew.methods.base import Method, PropensityMethod
from unskew.methods.calibrated import DoublyCalibrated
from unskew.nets.base import Part
from unskew.propensity.additive import Additive
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.testing.worlds import ListedView, awkward, graded, listed_view, ordinary
from unskew.training.options import Training
from unskew.training.plan import FitContext, FitSpec, Plan

SHORT = Training(max_epochs=2, batch_size=128, progress=False)
AWKWARD = replace(SHORT, max_epochs=1, holdout=0.3)  # of 6 ratings, 2
TOLERANCE = 1e-8  # of slopes against differences, relative to the largest
ROLES = ("prediction", "imputation", "propensity")


def check_method(method: Method, *, seed: int = 0, random_ratings: bool = False) -> None:
    """Hold a method to the contract of all methods; it is fitted a dozen times, on some 200 ratings.

    The plan is valid and always the same. Every update's slopes are those of central differences, with both errors,
    binary and graded ratings, and its loss moves nothing. One seed gives the same bits and another seed others; global
    random state and settings stay as they were. Predictions are probabilities, also for graded and awkward logs, or
    the log is refused in a sentence. Recipe and model survive being written and read; new users can be folded in.

    A part is checked in a method that uses it: `check_method(Naive(net=MyNet()))`.
    """
    check_plan(method)
    check_slopes(method, seed=seed)
    model = check_fit(method, seed=seed, random_ratings=random_ratings)
    check_logs(method, seed=seed)
    check_saving(method, model)


def check_plan(method: Method) -> Plan:
    """Check that the plan is valid, has a prediction, and is the same every time."""
    of_class(method, "method", Method)
    plan, again = method.plan(), method.plan()
    claim(method, isinstance(plan, Plan), "the plan is valid", f"it is a {type(plan).__name__}")
    claim(method, "prediction" in plan.roles, "the plan has a prediction", f"it has only {sorted(plan.roles)}")
    claim(method, _outline(plan) == _outline(again), "the plan is the same every time", "two plans differ")
    return plan


def check_slopes(method: Method, *, seed: int = 0) -> None:
    """Hold every update's slopes to central differences in float64; losses and validation move nothing."""
    plan = check_plan(method)
    for error, soft in product(ERRORS, (False, True)) if any(stage.steps for stage in plan.stages) else ():
        view = _filled(plan, error, soft, seed)
        for stage in plan.stages:
            before = _states(view)
            for number, (trains, loss, weight) in enumerate(stage.updates, 1):
                where = f"update {number} of stage {stage.name!r} ({error} error)"
                for role in trains:
                    slopes, again = (view.slopes(loss, role, trains) for _ in range(2))
                    claim(method, bool((slopes == again).all()), "a loss is a function of its view", f"{where} is not")
                    gap, largest = np.abs(slopes - view.differences(loss, role, trains)).max(), np.abs(slopes).max()
                    right, off = gap <= TOLERANCE * max(largest, 1e-3), f"{where} is off by {gap:.2g}"
                    claim(method, right, "the slopes of an update are those of its loss", off)
                    moves = largest > 0 or not weight
                    claim(method, moves, "an update moves every role it names", f"{where} never moves {role!r}")
            if stage.validate is not None:
                view.evaluated(stage.validate)
            moved = [role for role, state in _states(view).items() if state != before[role]]
            claim(method, not moved, "a loss moves nothing", f"those of stage {stage.name!r} moved {moved}")


def check_fit(method: Method, *, seed: int = 0, random_ratings: bool = False) -> Any:
    """Check that a seed gives its bits, another seed others, and nothing but the model changes; return the model."""
    settings, randomness, (log, random_log) = copy.deepcopy(method), _global_randomness(), ordinary()
    options: dict[str, Any] = {"training": SHORT, "random_ratings": random_log if random_ratings else None}
    models = [method.fit(log, seed=s, **options) for s in (seed, seed, seed ^ 1)]
    untouched = repr(randomness) == repr(_global_randomness())
    claim(method, untouched, "fit leaves the global random state alone", "it drew from it")
    claim(method, repr(settings) == repr(method), "fit leaves the settings as they were", f"they are now {method!r}")
    answers, same, others = (_probabilities(method, model, "an ordinary log") for model in models)
    equal(method, answers, same, "one seed gives the same bits")
    claim(method, bool((answers != others).any()), "another seed gives other bits", "they are the same")
    return models[0]


def check_logs(method: Method, *, seed: int = 0) -> None:
    """Graded and awkward logs are learned from, or refused in a sentence; an empty one is always refused."""
    method, (log, _) = _with_additive(method), ordinary()
    cases = [("of grades", graded()[0], SHORT), *((what, log, AWKWARD) for what, log in awkward())]
    for what, each, training in [*cases, ("that is empty", log.take(np.arange(0)), SHORT)]:
        try:
            model = method.fit(each, seed=seed, training=training)
        except UnskewError as error:
            right = bool(len(each)) or isinstance(error, DataError)
            claim(method, right, "an empty log is refused with a DataError", repr(error))
            continue
        except Exception as error:
            error.add_note(f"{type(method).__name__}: a log {what} is learned from or refused with an UnskewError.")
            raise
        claim(method, bool(len(each)), "an empty log is refused with a DataError", "it was learned from")
        _probabilities(method, model, f"a log {what}")


def check_saving(method: Method, model: Any) -> None:
    """Recipe and model are the same after being written and read; new users are folded in, or refused in a sentence."""
    import unskew
    from unskew.store.recipe import from_plain, to_plain

    claim(method, is_dataclass(method), "a method is a dataclass", "this one is not")
    with suppress(ParameterError):  # functions and arrays have no text and are refused
        again = from_plain(to_plain(method))
        claim(method, again == method, "a recipe can be written as plain data", f"{again!r} is read back")
    answers, log = _answers(model), model.log
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        loaded = _answers(unskew.load(Path(folder) / "model"))
    equal(method, answers, loaded, "a saved and loaded model answers with the same bits")
    ratings = log.take(log.users == 0).to_arrow().drop_columns("user_id")
    with suppress(ParameterError):
        joined = model.fold_in(ratings.append_column("user_id", pa.array(["somebody new"] * len(ratings))))
        known = _answers(joined, log.n_users)
        equal(method, answers, known, "answers about known users stay when new ones are folded in")


def _filled(plan: Plan, error: str, soft: bool, seed: int) -> ListedView:
    """View 12 listed pairs with a logit for each in every role; what answers for no pairs is fitted to them."""
    n, rng = 12, np.random.default_rng(seed)
    ratings = rng.random(n) if soft else np.arange(n) % 3 % 2
    common, alike = rng.standard_normal(n), np.arange(n) % 4 == 0  # on some pairs all roles nearly agree
    logits = {
        name: np.where(alike, common + rng.uniform(-0.04, 0.04, n), rng.standard_normal(n)) for name in plan.roles
    }
    fits = {name: role.part for name, role in plan.roles.items() if isinstance(role.part, FitSpec)}
    calibrators = [name for name, spec in fits.items() if isinstance(spec, Calibrator)]
    roles = {name: 1 / (1 + np.exp(-s)) for name, s in logits.items() if name not in calibrators}
    view = listed_view(np.arange(n) % 4 != 1, ratings, roles, error, cells=(1.5, 3.0))
    for name, spec in fits.items():
        if name not in calibrators and not isinstance(spec, Propensity):
            split = SHORT.split(ordinary()[0], 0)
            part = spec.fit_in(FitContext(split, SHORT, seed, view=view, holdout=view, train=view))
            if type(part).logits is Part.logits:
                view.parts.parts[name] = part  # type: ignore[index]
    return view


def _states(view: ListedView) -> dict[str, list[bytes]]:
    return {role: [x.tobytes() for x in part.state().values()] for role, part in view.parts.parts.items()}


def _outline(plan: Plan) -> tuple[Any, ...]:
    """Return all of a plan but the losses themselves, which may be made anew."""
    stages = [(s._replace(steps=(), validate=None), [(u.trains, u.weight) for u in s.updates]) for s in plan.stages]
    return repr(plan.roles), stages, plan.error, plan.pairs_per_row


def _with_additive(method: Any) -> Any:
    """Return the method with a propensity that refuses no log before the method has seen it."""
    if isinstance(method, DoublyCalibrated):
        return replace(method, base=_with_additive(method.base))
    learns = isinstance(method, PropensityMethod) and isinstance(method.propensity, Factors)
    return replace(method, propensity=Additive()) if learns else method


def _answers(model: Any, n_users: int | None = None) -> Array:
    """Return what all roles answer for all pairs, of the first users alone, and the prediction for somebody unknown."""
    pairs = np.divmod(np.arange((n_users or model.log.n_users) * model.log.n_items), model.log.n_items)
    held = [role for role in ROLES if role in model.parts]
    roles = (role for role in held if model.part(role).answers_unseen and model.part(role).is_data)
    unknown = model.predict_codes(np.array([-1, 0, -1]), np.array([0, -1, -1]))
    return np.concatenate([unknown, *(model.scores(role, *pairs) for role in roles)])


def _probabilities(method: Any, model: Any, log: str) -> Array:
    found = _answers(model)
    outside = found[~((found >= 0) & (found <= 1))]  # NaN among them
    claim(method, not len(outside), "answers are probabilities", f"after {log} there are {outside[:1]}")
    return found


def _global_randomness() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]  # noqa: NPY002


def claim(owner: Any, held: bool, claimed: str, but: str) -> None:
    if not held:
        raise AssertionError(f"{type(owner).__name__}: {claimed}, but {but}.")


def equal(owner: Any, one: Array, other: Array, claimed: str) -> None:
    differing = int((one != other).sum())
    claim(owner, not differing, claimed, f"{differing} of {len(one)} answers differ")
