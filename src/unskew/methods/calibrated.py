"""The Doubly Calibrated Estimator as a rewriting of another method's plan."""

from dataclasses import dataclass, field, replace

from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import Calibrator
from unskew.errors import ParameterError, PlanError
from unskew.methods.base import Method
from unskew.methods.settings import Choice, Space
from unskew.settings import setting
from unskew.training.plan import Plan, Role, Stage


@dataclass(frozen=True)
class DoublyCalibrated(Method):
    """Calibrate both nuisances of a doubly robust method with experts, in one tri-level loop (DCE, WWW 2024).

    Propensity and imputation answer calibrated while they rest. The propensity's calibrator is fitted once the
    propensity stands (to all training ratings if it is cross-fitted, else to the hold-out), the imputation's after
    every epoch. `propensity` and `imputation` choose the calibrators, `n_experts` sets K of both; None leaves that side
    alone, which gives the paper's ablations.

    Examples:
        >>> unskew.DoublyCalibrated(unskew.DRJL(propensity=unskew.Factors()), n_experts=3).n_experts
        3
    """

    base: Method
    propensity: Calibrator | None = field(default_factory=ExpertPlatt)
    imputation: Calibrator | None = field(default_factory=ExpertPlatt)
    n_experts: int | None = setting(None, least=1)

    def __post_init__(self) -> None:
        for target in ("propensity", "imputation"):
            part = getattr(self, target)
            if part is not None and not isinstance(part, Calibrator):
                raise ParameterError(
                    f"{target} of DoublyCalibrated must be a calibrator such as ExpertPlatt(), not {part!r}; "
                    f"settings of the base go to the base: DoublyCalibrated(DRJL({target}=...))."
                )
        super().__post_init__()
        if self.propensity is None and self.imputation is None:
            raise ParameterError("DoublyCalibrated calibrates nothing: propensity and imputation are both None.")

    def space(self) -> Space:
        experts = [part.n_experts for part in (self.propensity, self.imputation) if isinstance(part, ExpertPlatt)]
        own: Space = {"n_experts": Choice((2, 5, 10, 20), when_none=experts[0])} if experts else {}
        return {f"base.{name}": dimension for name, dimension in self.base.space().items()} | own

    def plan(self) -> Plan:
        plan = self.base.plan()
        for target in ("propensity", "imputation"):
            calibrator: Calibrator | None = getattr(self, target)
            if self.n_experts is not None and isinstance(calibrator, ExpertPlatt):
                calibrator = replace(calibrator, n_experts=self.n_experts)
            if calibrator is not None:
                self._refuse_unless_resting(plan, target)
                plan = calibrate(plan, target, calibrator)
        return plan

    def _refuse_unless_resting(self, plan: Plan, target: str) -> None:
        base = type(self.base).__name__
        if target not in plan.roles:
            raise PlanError(
                f"{base} has no {target} to calibrate; pass {target}=None or use a doubly robust base such as DRJL()."
            )
        together = (
            {role for update in step for role in update.trains} for stage in plan.stages for step in stage.steps
        )
        if any({"prediction", target} <= trained for trained in together):
            raise PlanError(
                f"{base} trains its {target} in one step with the prediction, so the {target} is never at rest to be "
                f"calibrated; pass {target}=None or use a base that trains them in turn, such as DRJL()."
            )


def calibrate(plan: Plan, target: str, calibrator: Calibrator) -> Plan:
    """Return the plan in which `target` has a calibrator, fitted again whenever the target has moved."""
    name = f"{target}_calibrator"
    roles = {**plan.roles, target: plan.roles[target]._replace(calibrated_by=name)}
    stages: list[Stage] = []
    for stage in plan.stages:
        if target in stage.trains:
            stage = stage._replace(fits=(*stage.fits, name))
        stages.append(stage)
        if target in stage.fits and not stage.steps:
            stages.append(Stage(f"{target} calibration", fits=(name,)))
    roles[name] = Role(calibrator)
    return replace(plan, roles=roles, stages=tuple(stages))
