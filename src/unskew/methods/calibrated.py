"""The Doubly Calibrated Estimator as a rewriting of another method's plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from unskew.calibration.base import Calibrates, Calibrator, Target
from unskew.calibration.experts import ExpertPlatt
from unskew.errors import ParameterError, PlanError
from unskew.methods.base import Method
from unskew.methods.space import Choice, Space, inside
from unskew.training.plan import Fit, Plan, Role, Stage


@dataclass(frozen=True)
class DoublyCalibrated(Method):
    """Calibrate both nuisances of a doubly robust method with experts, in one tri-level loop (DCE, WWW 2024).

    Propensity and imputation speak calibrated while they rest. The propensity's calibrator is fitted on the hold-out
    once the propensity stands, the imputation's after every epoch. `propensity` and `imputation` choose the
    calibrators, `n_experts` sets K of both; None leaves that side alone, which gives the paper's ablations.
    """

    base: Method
    propensity: Calibrator | None = field(default_factory=ExpertPlatt)
    imputation: Calibrator | None = field(default_factory=ExpertPlatt)
    n_experts: int | None = None

    def __post_init__(self) -> None:
        for target in ("propensity", "imputation"):
            part = getattr(self, target)
            if part is not None and not isinstance(part, Calibrator):
                raise ParameterError(
                    f"{target} of DoublyCalibrated must be a calibrator such as ExpertPlatt(), not {part!r}; "
                    f"settings of the base go to the base: DoublyCalibrated(DRJL({target}=...))."
                )
        if self.propensity is None and self.imputation is None:
            raise ParameterError("DoublyCalibrated calibrates nothing: propensity and imputation are both None.")

    def space(self) -> Space:
        experts = [part.n_experts for part in (self.propensity, self.imputation) if isinstance(part, ExpertPlatt)]
        own: Space = {"n_experts": Choice((2, 5, 10, 20), when_none=experts[0])} if experts else {}
        return inside("base", self.base.space()) | own

    def _calibrator(self, target: Target) -> Calibrator | None:
        calibrator: Calibrator | None = getattr(self, target)
        if self.n_experts is not None and isinstance(calibrator, ExpertPlatt):
            return replace(calibrator, n_experts=self.n_experts)
        return calibrator

    def plan(self) -> Plan:
        plan = self.base.plan()
        targets: tuple[Target, ...] = ("propensity", "imputation")
        for target in targets:
            if (calibrator := self._calibrator(target)) is not None:
                self._refuse_unless_resting(plan, target)
                plan = calibrate(plan, target, calibrator)
        return plan

    def _refuse_unless_resting(self, plan: Plan, target: Target) -> None:
        base = type(self.base).__name__
        if target not in plan.roles:
            raise PlanError(
                f"{base} has no {target} to calibrate; pass {target}=None or use a doubly robust base such as DRJL()."
            )
        updates = [update for stage in plan.stages for update in stage.updates if "prediction" in update.trains]
        if any(target in update.trains for update in updates):
            raise PlanError(
                f"{base} trains its {target} in one step with the prediction, so the {target} is never at rest to be "
                f"calibrated; pass {target}=None or use a base that trains them in turn, such as DRJL()."
            )


def calibrate(plan: Plan, target: Target, calibrator: Calibrator) -> Plan:
    """The plan in which `target` has a calibrator, refitted whenever the target has moved."""
    name = f"{target}_calibrator"
    moves = any(target in stage.moves for stage in plan.stages)
    roles = {**plan.roles, target: replace(plan.roles[target], calibrator=name)}
    stages: list[Stage] = []
    for stage in plan.stages:
        if target in stage.moves:
            stage = replace(stage, fits=(*stage.fits, Fit(name, per="epoch")))
        stages.append(stage)
        if any(fit.role == target and fit.per == "stage" for fit in stage.fits):
            stages.append(Stage(f"{target} calibration", fits=(Fit(name),)))
    roles[name] = Role(Calibrates(target, calibrator, once=not moves))
    return replace(plan, roles=roles, stages=tuple(stages))
