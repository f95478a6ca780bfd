"""Whether a method's nets read the features of a log: where their recipes leave it open, validation decides.

The rule: nets that say `features="auto"` read features if a naive net with them has a lower risk on the hold-out than
the same net without, both fitted and stopped on the same rows. The net is that of the method's prediction, with its
learning rate and L2; the decision holds for all nets of the method. A propensity that fits a net of its own decides by
itself, by how well either net tells seen pairs from all pairs (see `Factors`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from unskew.data.log import RatingLog
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.nets.towers import Trunk
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.risk.estimators import naive
from unskew.training.choice import compare_features, leaves_open, with_features
from unskew.training.options import Training
from unskew.training.plan import Plan, Role, Stage, Update

if TYPE_CHECKING:
    from unskew.methods.base import Method

Part = TypeVar("Part")
MethodT = TypeVar("MethodT", bound="Method")
UNUSED = 1 / 64  # pairs sampled for each rating of a batch: the naive risk looks at none


def decided(method: MethodT, log: RatingLog, *, seed: int, training: Training) -> tuple[MethodT, list[str]]:
    """The method with its mind made up about features, and what there is to tell about it."""
    nets = [net for net in nets_in(method) if leaves_open(net)]
    if not nets or log.features == (None, None):
        return method, []
    plan = method.plan()
    role, net = plan.roles["prediction"], nets[0]
    rate, l2 = role.learning_rate, role.l2
    if role.net in nets:
        net = role.net
    else:  # a net inside the role, or one that it stands on: it learns as the method has it
        rate, l2 = getattr(method, "learning_rate", rate), getattr(method, "l2", l2)
    if isinstance(net, Trunk):
        net = MF(n_factors=net.n_factors, spread=net.spread, feature_l2=net.feature_l2)

    def naive_plan(net: NetRecipe) -> Plan:
        stage = Stage("prediction", (Update(("prediction",), naive),), validate=naive)
        return Plan({"prediction": Role(net, rate, l2)}, (stage,), plan.error, UNUSED)

    own = training.split(log, seed).spread(training.group).log
    found = compare_features("ratings", net, naive_plan, own, training.group, seed=seed, training=training)
    told = [
        f"Of the {side} features {features.told}."
        for side, features in zip(("user", "item"), log.features, strict=True)
        if features is not None and features.told and found.favours_features
    ]
    return set_features(method, found.favours_features), [str(found), *told]


def nets_in(part: Any) -> Iterator[Any]:
    """All nets of a method, those of propensities that decide by themselves apart."""
    if isinstance(part, NetRecipe):
        yield part
    elif _has_nets(part):
        for setting in fields(part):
            yield from nets_in(getattr(part, setting.name))


def set_features(part: Part, read: bool) -> Part:
    """The same with this decision for all nets that leave it open."""
    if leaves_open(part):
        decided: Part = with_features(part, read)
        return decided
    if not _has_nets(part):
        return part
    settings = {setting.name: getattr(part, setting.name) for setting in fields(part)}  # type: ignore[arg-type]
    changed = {name: set_features(held, read) for name, held in settings.items()}
    return replace(part, **{name: held for name, held in changed.items() if held is not settings[name]})  # type: ignore[type-var]


def _has_nets(part: Any) -> bool:
    recipe = isinstance(part, Propensity) or hasattr(part, "fit_plan")
    return recipe and is_dataclass(part) and not isinstance(part, Factors)
