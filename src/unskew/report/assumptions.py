"""The answer under other assumptions: what no log can tell is varied, and what comes of it is shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.recommender import Recommender
from unskew.report.axes import NUMBER, PERCENT
from unskew.report.charts import Plot, Series, lines
from unskew.report.figure import ACCENT, Figure
from unskew.report.material import Announce
from unskew.report.names import Level
from unskew.sensitivity import Sensitivity, sensitivity

ODDS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
UNEXPLAINED = (0.0, 0.5, 1.0, 1.5, 2.0)
SAMPLE, STREAM = 1 << 17, 0x6F646473


@dataclass(frozen=True)
class AssumptionFacts:
    """Figures over rho, how many times as likely a liked pair is to be rated, and over k, unexplained liking."""

    odds: Figure
    odds_low: str
    odds_high: str
    n_pairs: int
    graded: bool
    unexplained: tuple[Figure, ...]
    assumed: float | None


def assumptions_of(model: Recommender, level: Level, announce: Announce) -> AssumptionFacts:
    rates = _over_odds(model, announce)
    found = _over_unexplained(model, announce)
    return AssumptionFacts(
        odds=_odds_figure(rates, level),
        odds_low=level(min(rates.values())),
        odds_high=level(max(rates.values())),
        n_pairs=min(SAMPLE, model.log.n_pairs),
        graded=not model.log.binary,
        unexplained=() if found is None else _unexplained_figures(found, level),
        assumed=None if found is None else found.assumed,
    )


def _over_odds(model: Recommender, announce: Announce) -> dict[float, float]:
    """The mean prediction over all pairs, or a sample of them, for every rho."""
    announce("the model under other assumptions about odds")
    n_pairs, n_items = model.log.n_pairs, model.log.n_items
    generator = np.random.default_rng([model.seed, STREAM])
    at = np.arange(n_pairs) if n_pairs <= SAMPLE else generator.integers(n_pairs, size=SAMPLE)
    pairs = np.divmod(at, n_items)
    return {rho: float(model.at_odds(rho).predict_codes(*pairs).mean()) for rho in ODDS}


def _odds_figure(rates: dict[float, float], level: Level) -> Figure:
    plot = Plot(
        "odds",
        f"The {level.name} of all pairs, by how much liking decides",
        f"Over all pairs the {level.name} is {level(rates[ODDS[0]])} if liked pairs are {ODDS[0]:g} times as likely to "
        f"be rated as disliked ones, and {level(rates[ODDS[-1]])} if they are {ODDS[-1]:g} times as likely. The dashed "
        f"line is the model as it is: {level(rates[1.0])}.",
        "ρ: times as likely to be rated if liked",
        f"{level.name}, all pairs",
        y_unit=level.unit,
        show=level.told,
    )
    points = [(rho, level.value(rate)) for rho, rate in rates.items()]
    return lines(plot, [Series(level.name, points, ACCENT)], at=1.0)


def _over_unexplained(model: Recommender, announce: Announce) -> Sensitivity | None:
    found = model.selection
    if found is None or not found.slope:
        return None
    announce("the model under other assumptions about unexplained liking")
    return sensitivity(model, UNEXPLAINED)


def _unexplained_figures(found: Sensitivity, level: Level) -> tuple[Figure, ...]:
    panels = (
        ("rate", f"{level.name}, all pairs", [level.value(rate) for rate in found.positive_rate], level.unit),
        ("mse", "mean squared error", found.mse, NUMBER),
        ("top", "share of the top ten replaced", found.top_changed, PERCENT),
    )
    return tuple(
        lines(
            Plot(
                f"unexplained-{key}",
                f"{name.capitalize()} by unexplained liking",
                f"From {values[0]:.3g} at {found.unexplained[0]:g} to {values[-1]:.3g} at {found.unexplained[-1]:g}; "
                f"the dashed line is what the model assumes, {found.assumed:g}.",
                "unexplained liking, k",
                name,
                small=True,
                y_unit=unit,
            ),
            [Series(name, list(zip(found.unexplained, values, strict=True)), ACCENT)],
            at=found.assumed,
        )
        for key, name, values, unit in panels
        if all(np.isfinite(values))
    )
