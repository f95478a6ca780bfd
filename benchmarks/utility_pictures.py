"""The three pictures of docs/utility.md: `python benchmarks/utility_pictures.py docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit

import unskew
from unskew.utility.estimate import Trail
from unskew.utility.law import mean_tilt, population_logit, seen_logit
from unskew.utility.traces import InteractionTrace

TRAINING = unskew.Training(progress=False)
DPI = 80
LIKED, DISLIKED, GREY = "#2a7f62", "#c8553d", "#888888"


def selection() -> Figure:
    """One pair: its utility as it is and as it is when seen; and the map that leads back."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    z, t = -0.4, 0.4
    v = np.linspace(-7, 7, 600)
    density = expit(v - z) * expit(z - v)
    seen = density * np.exp(t * (v - z)) / mean_tilt(t)
    left.plot(v, density, color=GREY, label=f"all: liked with {expit(z):.0%}")
    left.plot(v, seen, color="black", label=f"seen: liked with {expit(seen_logit(z, t)):.0%}")
    for side, color in ((v > 0, LIKED), (v <= 0, DISLIKED)):
        left.fill_between(v[side], seen[side], color=color, alpha=0.35, linewidth=0)
    left.axvline(0, color="black", linewidth=0.8)
    left.set(
        xlabel="utility of one pair (liked to the right of 0)", yticks=[], title="What is liked is seen more often"
    )
    left.legend(frameon=False)
    said = np.linspace(0.01, 0.99, 200)
    for slope, width in ((0.0, 1.0), (0.1, 1.5), (0.2, 2.0), (0.3, 2.5)):
        mapped = expit(population_logit(np.log(said / (1 - said)), slope))
        right.plot(said, mapped, linewidth=width, color="black" if slope else GREY, label=f"slope {slope:g}")
    right.set(xlabel="P(liked given seen), what a naive model says", ylabel="P(liked), what holds for all")
    right.set(title="The way back never changes an order")
    right.legend(frameon=False)
    return figure


def world(kind: str, strength: float) -> unskew.World:
    return unskew.simulate(1000, 500, density=0.05, n_factors=2, selection=kind, strength=strength, seed=1)


def trace() -> Figure:
    """The likelihood of which pairs were seen, over the slope, in three worlds."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for strength, color in ((0.0, GREY), (0.1, "#e0a030"), (0.2, LIKED)):
        log = world("utility", strength).log
        fitted = unskew.Utility(base=unskew.Uniform()).fit(log, training=TRAINING)
        likelihood = Trail.of(fitted.cross_fitted, log, log.n_pairs).interactions(1.0)
        _draw_profile(axes, likelihood, fitted.selection.numbers.estimate, strength, color)
    axes.axhline(-1.92, color="black", linewidth=0.8, linestyle=":")
    axes.set(ylim=(-12, 0.5), xlabel="slope", ylabel="log-likelihood below its top")
    axes.set(title="The trace in the log: true slopes 0, 0.1 and 0.2 (dashed)")
    return figure


def _draw_profile(axes: Any, likelihood: InteractionTrace, top: float, truth: float, color: str) -> None:
    at = np.linspace(top - 0.12, top + 0.12, 25)
    value = np.array([likelihood.log_likelihood(slope) for slope in at])
    axes.plot(at, value - likelihood.log_likelihood(top), color=color)
    axes.axvline(truth, color=color, linestyle="--", linewidth=1)


def assumption() -> Figure:
    """What k decides: the same estimate in two worlds that only k tells apart."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, (kind, title, right_k) in zip(
        figure.subplots(1, 2, sharey=True),
        (
            ("utility", "People rate what they like, whatever the reason", 1.0),
            ("taste", "They rate by explained liking alone", 0.0),
        ),
        strict=True,
    ):
        here = world(kind, 0.2)
        model = unskew.make("naive-utility").fit(here.log, training=TRAINING)
        found = unskew.sensitivity(model)
        truth = here.preference(*np.divmod(np.arange(here.n_pairs), here.n_items)).mean()
        axes.plot(found.unexplained, found.positive_rate, marker="o", color=LIKED, label="estimated")
        axes.axhline(truth, color="black", linewidth=1, label="true")
        axes.axhline(here.log.positive_rate, color=DISLIKED, linewidth=1, linestyle="--", label="in the log")
        axes.axvline(right_k, color=GREY, linewidth=1, linestyle=":")
        axes.set(xlabel=f"assumed k (right: {right_k:g})", title=title)
    figure.axes[0].set(ylabel="positive rate over all pairs")
    figure.axes[0].legend(frameon=False)
    return figure


def main(folder: Path) -> None:
    for name, draw in (("selection", selection), ("trace", trace), ("assumption", assumption)):
        figure = draw()
        figure.savefig(folder / f"utility-{name}.png", dpi=DPI, facecolor="white")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
