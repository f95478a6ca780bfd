"""Training curves: the risk on held-out ratings and the losses, epoch by epoch, and where training stopped."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.recommender import Recommender
from unskew.report.axes import WHOLE
from unskew.report.charts import Plot, Series, lines
from unskew.report.figure import ACCENT, Figure, Style
from unskew.report.names import duration
from unskew.training.history import Epoch, words_of

MOST_STAGES = 6
MOST_POINTS = 200


@dataclass(frozen=True)
class CurveFacts:
    figures: tuple[Figure, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


def curves_of(model: Recommender) -> CurveFacts:
    history = model.history
    stages = list(dict.fromkeys(epoch.stage for epoch in history.epochs))
    figures, sentences = [], []
    for number, stage in enumerate(stages):
        epochs, title = history.of(stage), words_of(stage).capitalize()
        kept = history.kept.get(stage, epochs[-1].epoch)
        took = duration(sum(epoch.seconds for epoch in epochs))
        sentences.append(f"{title}: {len(epochs)} epochs in {took}; the state after epoch {kept} was kept.")
        if number < MOST_STAGES:
            figures += _figures(number, title, _thinned(epochs), kept)
    if len(stages) > MOST_STAGES:
        sentences.append(f"Curves are drawn for the first {MOST_STAGES} of {len(stages)} stages.")
    return CurveFacts(tuple(figures), tuple(sentences), tuple(history.notes))


def _thinned(epochs: list[Epoch]) -> list[Epoch]:
    step = -(-len(epochs) // MOST_POINTS)
    return epochs[::step]


def _figures(number: int, stage: str, epochs: list[Epoch], kept: int) -> list[Figure]:
    curves = {"held-out risk": [(e.epoch, e.validation) for e in epochs if e.validation is not None]}
    for name in dict.fromkeys(name for epoch in epochs for name in epoch.losses):
        curves[f"loss of {name}"] = [(e.epoch, e.losses[name]) for e in epochs if name in e.losses]
    return [
        _figure(f"curve-{number}-{n}", stage, name, [(float(a), float(b)) for a, b in points], kept)
        for n, (name, points) in enumerate(curves.items())
        if points
    ]


def _figure(name: str, stage: str, what: str, points: list[tuple[float, float]], kept: int) -> Figure:
    plot = Plot(
        name,
        f"{stage}: {what}",
        f"{what.capitalize()} from {points[0][1]:.4g} in epoch {points[0][0]:.0f} to {points[-1][1]:.4g} in epoch "
        f"{points[-1][0]:.0f}; the dashed line is the epoch that was kept, {kept}.",
        "epoch",
        what,
        small=True,
        x_unit=WHOLE,
    )
    style = ACCENT if what == "held-out risk" else Style("plain solid")
    return lines(plot, [Series(what, points, style, marked=len(points) == 1)], at=kept)
