"""The contract of methods, nets, propensities and calibrators, as checks that any of them can be put through.

Each check raises an AssertionError whose sentence names the part, the claim and what was found instead.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.calibration.platt import Calibrates, Calibrator, Examples
from unskew.errors import DataError, ParameterError, UnskewError
from unskew.losses.elementwise import ERRORS
from unskew.methods.base import Method, PropensityMethod
from unskew.methods.calibrated import DoublyCalibrated
from unskew.nets.base import Net, NetContext, NetSpec, Part, PartSpec
from unskew.propensity.additive import Additive
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.testing.worlds import Array, ListedView, awkward, graded, listed_view, ordinary
from unskew.training.options import Training
from unskew.training.plan import FitContext, FitSpec, Plan

SHORT = Training(max_epochs=2, batch_size=128, progress=False)
AWKWARD = replace(SHORT, max_epochs=1, holdout=0.3)  # of 6 ratings, 2
TOLERANCE = 1e-8  # of slopes against differences, relative to the largest
N_USERS, N_ITEMS = 6, 5


def check_method(method: Method, *, seed: int = 0, random_ratings: bool = False) -> None:
    """Hold a method to the contract of all methods; it is fitted a dozen times, on some 200 ratings.

    The plan is valid and always the same. Every update's slopes are those of central differences, with both errors,
    binary and graded ratings, and its loss moves nothing. One seed gives the same bits and another seed others; global
    random state and settings stay as they were. Predictions are probabilities, also for graded and awkward logs, or
    the log is refused in a sentence. Recipe and model survive being written and read; new users can be folded in.
    """
    check_plan(method)
    check_slopes(method, seed=seed)
    model = check_fit(method, seed=seed, random_ratings=random_ratings)
    check_logs(method, seed=seed)
    check_recipe(method)
    check_saving(method, model)


def check_plan(method: Method) -> Plan:
    """The plan is valid, has a prediction, and is the same every time."""
    with _without_error(method, "the plan is valid"):
        plan, again = method.plan(), method.plan()
    _claim(method, isinstance(plan, Plan), "the plan is valid", f"it is a {type(plan).__name__}")
    _claim(method, "prediction" in plan.roles, "the plan has a prediction", f"it has only {sorted(plan.roles)}")
    _claim(method, _outline(plan) == _outline(again), "the plan is the same every time", "two plans differ")
    return plan


def check_slopes(method: Method, *, seed: int = 0) -> None:
    """Every update's slopes are those of central differences in float64; losses and validation move nothing."""
    plan = check_plan(method)
    for error, soft in product(ERRORS, (False, True)):
        if not any(stage.steps for stage in plan.stages):
            return  # nothing learns by slopes
        view = _filled(plan, error, soft, seed)
        for stage in plan.stages:
            for number, update in enumerate(stage.updates):
                where, learning = f"update {number + 1} of stage {stage.name!r} ({error} error)", update.trains
                with _moving_nothing(method, view, where):
                    for role in learning:
                        slopes, differences, again = (
                            of(update.loss, role, learning) for of in (view.slopes, view.differences, view.slopes)
                        )
                        largest, gap = np.abs(slopes).max(), np.abs(slopes - differences).max()
                        claim = "the slopes of an update are those of its loss"
                        _claim(method, gap <= TOLERANCE * max(largest, 1e-3), claim, f"{where} is off by {gap:.2g}")
                        claim = "an update moves every role it names"
                        _claim(method, largest > 0 or not update.weight, claim, f"{where} never moves {role!r}")
                        same = bool((slopes == again).all())
                        _claim(method, same, "a loss is a function of its view", f"{where} is not")
            if stage.validate is not None:
                where = f"the validation of stage {stage.name!r}"
                with _moving_nothing(method, view, where), _without_error(method, "a loss only reads its view"):
                    view.evaluated(stage.validate)


def check_fit(method: Method, *, seed: int = 0, random_ratings: bool = False) -> Any:
    """One seed gives the same bits and another seed others; nothing but the model changes. Returns the model."""
    settings, randomness = copy.deepcopy(method), _global_randomness()
    log, random_log = ordinary()
    given = random_log if random_ratings else None
    with _without_error(method, "an ordinary log is learned from"):
        model, again, other = (
            method.fit(log, seed=s, training=SHORT, random_ratings=given) for s in (seed, seed, seed ^ 1)
        )
    untouched = repr(randomness) == repr(_global_randomness())
    _claim(method, untouched, "fit leaves the global random state alone", "it drew from it")
    _claim(method, repr(settings) == repr(method), "fit leaves the settings as they were", f"they are now {method!r}")
    answers = _probabilities(method, model, "an ordinary log")
    _equal(method, answers, _probabilities(method, again, "an ordinary log"), "one seed gives the same bits")
    differ = (answers != _probabilities(method, other, "an ordinary log")).any()
    _claim(method, bool(differ), "another seed gives other bits", "they are the same")
    return model


def check_logs(method: Method, *, seed: int = 0) -> None:
    """Graded and awkward logs are learned from, or refused in a sentence; an empty one is always refused."""
    method = _with_additive(method)
    cases = [("of grades", graded()[0], SHORT), *((what, log, AWKWARD) for what, log in awkward())]
    for what, log, training in cases:
        claim = f"a log {what} is learned from or refused with an UnskewError"
        with suppress(UnskewError), _without_error(method, claim, UnskewError):
            _probabilities(method, method.fit(log, seed=seed, training=training), f"a log {what}")
    claim = "an empty log is refused with a DataError"
    with suppress(DataError), _without_error(method, claim, DataError):
        method.fit(ordinary()[0].take(np.arange(0)), seed=seed, training=SHORT)
        _claim(method, False, claim, "it was learned from")


def check_recipe(method: Method) -> None:
    """A method is a frozen dataclass that survives being written as plain data."""
    from unskew.store.recipe import from_plain, to_plain

    _claim(method, is_dataclass(method), "a method is a dataclass", "this one is not")
    with suppress(ParameterError), _without_error(method, "a recipe can be written as plain data", ParameterError):
        again = from_plain(to_plain(method))  # functions and arrays have no text and are refused
        _claim(method, again == method, "a recipe can be written as plain data", f"{again!r} is read back")


def check_saving(method: Method, model: Any) -> None:
    """A saved and loaded model predicts the same bits; new users are folded in, or refused with a ParameterError."""
    import unskew

    answers, log = _everywhere(model), model.log
    with tempfile.TemporaryDirectory() as folder, _without_error(method, "a model can be saved and loaded"):
        model.save(Path(folder) / "model")
        loaded = _everywhere(unskew.load(Path(folder) / "model"))
    _equal(method, answers, loaded, "a saved and loaded model predicts the same bits")
    ratings = log.take(log.users == 0).to_arrow().drop_columns("user_id")
    claim = "new users are folded in or refused with a ParameterError"
    with suppress(ParameterError), _without_error(method, claim, ParameterError):
        joined = model.fold_in(ratings.append_column("user_id", pa.array(["somebody new"] * len(ratings))))
        known = joined.predict_codes(*np.divmod(np.arange(log.n_pairs), log.n_items))
        _equal(method, answers, known, "answers about known users stay when new ones are folded in")


def check_net(spec: NetSpec, owner: NetSpec | None = None, *, seed: int = 0) -> None:
    """Hold a net to its three verbs; `owner` is the net whose vectors it shares, if it shares any."""
    net, again, other = (_built(spec, owner, s) for s in (seed, seed, seed + 1))
    users, items = (codes.astype(np.int32) for codes in np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS))
    logits = net.logits(users, items)
    _equal(spec, logits, again.logits(users, items), "one seed builds the same net")
    drawn = any((value != other.state()[name]).any() for name, value in net.state().items()) or owner
    differ = bool((logits != other.logits(users, items)).any())
    _claim(spec, differ or not drawn, "another seed builds another net", "it does not")
    wanted, state = np.random.default_rng(seed).standard_normal(len(users)).astype(np.float32), net.state()
    taught = users[:-N_ITEMS], items[:-N_ITEMS], wanted[:-N_ITEMS]  # the last user learns nothing
    net.learn(*taught)
    gradients = {name: table.data[1].copy() for name, table in getattr(net, "stepped", {}).items()}
    net.step(1e-3, 0.0)
    moved = {name: value - state[name] for name, value in net.state().items()}
    claim = "what a net learns are the slopes of its logits"
    for name, value in state.items():
        for place in np.ndindex(value.shape):
            slope, curve = _differences(net, state, name, place, *taught)
            if abs(curve) > 2e-3 * max(abs(slope), 1):  # a kink, where differences mean nothing
                continue
            right = moved[name][place] * slope < 0 or abs(slope) < 0.01
            if name in gradients:
                right = abs(gradients[name][place] - slope) < 5e-3 * max(abs(slope), 1)
            _claim(spec, bool(right), claim, f"those of {name}{list(place)} are not")
    net.restore(state)
    _equal(spec, logits, net.logits(users, items), "a state that is restored gives the same bits")
    _check_part(spec, net, getattr(net, "owner", None), users, items)
    if (form := net.linear()) is not None:
        by_form = (form.users[users] * form.items[items]).sum(1) + form.offsets[items]
        _claim(spec, bool(np.allclose(by_form, logits, atol=1e-5)), "the linear form is the net", "it differs")


def check_propensity(spec: Propensity, *, seed: int = 0) -> None:
    """Hold a propensity to its contract: probabilities, the same bits for one seed, state and new users."""
    log, random_log = ordinary()
    fitted, again = (spec.fit(log, seed=seed, training=SHORT, random_ratings=random_log) for _ in range(2))
    users, items = (codes.astype(np.int32) for codes in np.divmod(np.arange(log.n_pairs), log.n_items))
    p = fitted.pair(users, items)
    _claim(spec, bool(((p > 0) & (p <= 1)).all()), "propensities are above 0 and at most 1", f"they reach {p.min()}")
    _equal(spec, p, again.pair(users, items), "one seed gives the same bits")
    _check_part(spec, fitted, None, users, items)


def check_calibrator(spec: Calibrator, *, seed: int = 0) -> None:
    """Hold a calibrator to its contract: probabilities in the order of logits, the mean of the labels, state."""
    rng, n = np.random.default_rng(seed), 400
    logits, users = rng.normal(0, 2, n), rng.integers(N_USERS, size=n)
    vectors = rng.standard_normal((N_USERS + 1, 3)).astype(np.float32)
    labels = (rng.random(n) < 1 / (1 + np.exp(1 - logits / 2))).astype(float)
    examples = Examples(logits, labels, rng.uniform(0.5, 2, n), users, vectors)
    maps, again = (spec.fit(examples, rng=np.random.default_rng(seed)) for _ in range(2))
    line, codes = np.linspace(-5, 5, 41, dtype=np.float32), np.arange(-1, N_USERS, dtype=np.int32)
    p = np.stack([maps.calibrated(line, np.full(len(line), user, np.int32)) for user in codes])
    _claim(spec, bool(((p >= 0) & (p <= 1)).all()), "calibrated values are probabilities", f"they reach {p.max()}")
    _claim(spec, bool((np.diff(p) >= 0).all()), "calibration keeps the order", "larger logits get less")
    mean = (examples.shares * maps.calibrated(logits.astype(np.float32), users)).sum()
    _claim(spec, bool(abs(mean - examples.target_mean) < 1e-3), "the mean is that of the labels", f"it is {mean:.4f}")
    others = {
        "one seed gives the same bits": again,
        "a state gives the same bits": spec.from_state(maps.state()),
        "known users stay as they are when new ones come": maps.extended(np.ones(2), 0),
    }
    for claim, other in others.items():
        found = [other.calibrated(line, np.full(len(line), user, np.int32)) for user in codes]
        _equal(spec, p, np.stack(found), claim)


def _check_part(spec: PartSpec, part: Part, owner: Part | None, users: Array, items: Array) -> None:
    """State, new users and items, and unknown ones."""
    logits, nobody = part.logits(users, items), np.full(len(users), -1, np.int32)
    with suppress(DataError):
        unknown = part.logits(nobody, items)
        _claim(spec, bool(np.isfinite(unknown).all()), "unknown users are answered for", "they are not")
        with suppress(ParameterError):
            counts = np.array([3, 4])
            larger = part.extended(counts, 1, owner.extended(counts, 1) if owner else None)
            _equal(spec, logits, larger.logits(users, items), "known pairs stay as they are when new ones come")
            new = larger.logits(np.full(len(items), users.max() + 2, np.int32), items)
            _claim(spec, bool(np.isfinite(new).all()), "new users are answered for", "they are not")
    again = spec.from_state(part.state(), owner)
    _equal(spec, logits, again.logits(users, items), "a state gives the same bits")


def _differences(net: Net, state: Any, name: str, place: Any, *taught: Array) -> tuple[float, float]:
    """d sum wanted logit / d parameter, and how much the differences to either side disagree about it."""
    users, items, wanted = taught
    found = []
    for step in (0.003, 0.0, -0.003):
        moved = {key: value.copy() for key, value in state.items()}
        moved[name][place] += step
        net.restore(moved)
        found.append(float((wanted.astype(np.float64) * net.logits(users, items)).sum()))
    return (found[0] - found[2]) / 0.006, (found[0] - 2 * found[1] + found[2]) / 0.003


def _built(spec: NetSpec, owner: NetSpec | None, seed: int) -> Net:
    rng, pairs = np.random.default_rng(seed), np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    context = NetContext(N_USERS, N_ITEMS, 0.3, pairs)
    return spec.build(context, rng, owner.build(context, rng) if owner else None)


def _filled(plan: Plan, error: str, soft: bool, seed: int) -> ListedView:
    """A view of 12 listed pairs with a logit for each in every role; what answers for no pairs is fitted to them."""
    n, rng = 12, np.random.default_rng(seed)
    seen = np.arange(n) % 4 != 1
    ratings = rng.random(n) if soft else np.arange(n) % 3 % 2
    common, alike = rng.standard_normal(n), np.arange(n) % 4 == 0  # on some pairs all roles nearly agree
    logits = (np.where(alike, common + rng.uniform(-0.04, 0.04, n), rng.standard_normal(n)) for _ in plan.roles)
    roles: dict[str, Any] = {name: 1 / (1 + np.exp(-s)) for name, s in zip(plan.roles, logits, strict=True)}
    others = {name: role.part for name, role in plan.roles.items() if isinstance(role.part, FitSpec)}
    others = {name: spec for name, spec in others.items() if not isinstance(spec, Propensity)}
    roles = {name: p for name, p in roles.items() if not isinstance(others.get(name), Calibrates)}
    view = listed_view(seen, ratings, roles, error, cells=(1.5, 3.0))
    for name, spec in others.items():
        if not isinstance(spec, Calibrates):
            split = SHORT.split(ordinary()[0], 0)
            part = spec.fit_in(FitContext(split, SHORT, seed, view=view, holdout=view, train=view))
            if type(part).logits is Part.logits:
                view.parts.parts[name] = part  # type: ignore[index]
    return view


@contextmanager
def _moving_nothing(method: Method, view: ListedView, where: str) -> Iterator[None]:
    """What is inside must leave every part of the view as it was."""

    def states() -> dict[str, list[bytes]]:
        return {role: [x.tobytes() for x in part.state().values()] for role, part in view.parts.parts.items()}

    before = states()
    yield
    moved = [role for role, state in states().items() if state != before[role]]
    _claim(method, not moved, "a loss moves nothing", f"{where} moved {moved}")


def _outline(plan: Plan) -> tuple[Any, ...]:
    """All of a plan but the losses themselves, which may be made anew."""
    updates = [(s[:1] + s[2:4], u.trains, u.weight, u.loss.__qualname__) for s in plan.stages for u in s.updates]
    return repr(plan.roles), updates, plan.error, plan.pairs_per_row


def _with_additive(method: Any) -> Any:
    """The method with a propensity that refuses no log before the method has seen it."""
    if isinstance(method, DoublyCalibrated):
        return replace(method, base=_with_additive(method.base))
    learns = isinstance(method, PropensityMethod) and isinstance(method.propensity, Factors)
    return replace(method, propensity=Additive()) if learns else method


def _everywhere(model: Any) -> Array:
    return np.asarray(model.predict_codes(*np.divmod(np.arange(model.log.n_pairs), model.log.n_items)))


def _probabilities(method: Any, model: Any, log: str) -> Array:
    """The predictions for all pairs, and for an unknown user or item."""
    unknown = model.predict_codes(np.array([-1, 0, -1]), np.array([0, -1, -1]))
    found = np.concatenate([_everywhere(model), unknown])
    outside = found[~((found >= 0) & (found <= 1))]  # NaN among them
    _claim(method, not len(outside), "predictions are probabilities", f"after {log} there are {outside[:1]}")
    return found


def _global_randomness() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]  # noqa: NPY002


def _claim(owner: Any, held: bool, claim: str, but: str) -> None:
    if not held:
        raise AssertionError(f"{type(owner).__name__}: {claim}, but {but}.")


def _equal(owner: Any, one: Array, other: Array, claim: str) -> None:
    differing = int((one != other).sum())
    _claim(owner, not differing, claim, f"{differing} of {len(one)} answers differ")


@contextmanager
def _without_error(owner: Any, claim: str, *refusals: type[Exception]) -> Iterator[None]:
    """Whatever is raised inside, except for a refusal, breaks the claim."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (AssertionError, *refusals)):
            raise
        found = f"{type(error).__name__}: {str(error).removesuffix('.')}"
        raise AssertionError(f"{type(owner).__name__}: {claim}, but it raised {found}.") from error
