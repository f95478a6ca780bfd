"""The debiased model against the naive one: by the log, by random ratings, and what could overturn it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unskew.diagnosis.sensitivity import SensitivityFigures, sensitivity_figures
from unskew.diagnosis.verdicts import overturned
from unskew.estimation.quantities import metric_of
from unskew.report.charts import Plot, band
from unskew.report.figure import Figure
from unskew.report.material import Material
from unskew.report.plain import Plain, plainly
from unskew.report.versus import Versus, judged_by, on_random_ratings, versus, weighted


@dataclass(frozen=True)
class Comparison:
    """`main` is by the log, `second` the same without guessing, `random` by random ratings; `refusal` says why the log
    cannot judge the two over all pairs."""

    main: Versus
    second: Versus | None
    random: Versus | None
    n_random_left_out: int
    refusal: str
    is_naive: bool
    hidden: SensitivityFigures | None

    @property
    def believed(self) -> Versus:
        """Random ratings, if there are any, before the log."""
        return self.random or self.main

    @property
    def figure(self) -> Figure | None:
        return self.main.figure("differences") if self.main.lines else None

    @property
    def verdict(self) -> Plain | None:
        return None if self.hidden is None else plainly("overturned", overturned(self.hidden))

    @property
    def factor(self) -> float | None:
        """How strongly a hidden cause must change the odds of being rated to turn a decided comparison round."""
        found = self.hidden
        if found is None or found.better is None or math.isinf(found.overturning_factor):
            return None
        return found.overturning_factor

    @property
    def hidden_figure(self) -> Figure | None:
        main = self.main.main
        return None if self.hidden is None or main is None else _hidden_figure(self.hidden, main.found.first.value)


def comparison_of(material: Material) -> Comparison:
    return Comparison(
        main=versus(material),
        second=weighted(material),
        random=on_random_ratings(material),
        n_random_left_out=material.n_random_left_out,
        refusal=material.refusal,
        is_naive=material.is_naive,
        hidden=_hidden_causes(material),
    )


def _hidden_causes(material: Material) -> SensitivityFigures | None:
    """What a cause of being seen that nobody measured could do to the table's first line."""
    if material.evidence.weighing is None:
        return None
    own, other = judged_by(material.evidence, material, [metric_of("mse")])
    return sensitivity_figures(own, other, "the naive model")


def _hidden_figure(found: SensitivityFigures, value: float) -> Figure:
    """How far the error could be off, by how strong the cause is."""
    worst = found.ranges[-1]
    plot = Plot(
        "hidden-causes",
        "What a hidden cause could do to the error",
        f"The estimated mean squared error is {value:.4f}. A hidden cause that multiplies the odds of being rated by "
        f"up to {worst[0]:g} could hide a true error anywhere between {worst[1]:.4f} and {worst[2]:.4f} (shaded).",
        "factor on the odds of being rated",
        "mean squared error",
    )
    return band(plot, [(1.0, value, value), *found.ranges], value)
