"""The pictures of docs/problem.md, of the world of `unskew demo`: `python benchmarks/problem_pictures.py docs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

import unskew
from unskew.demo import WORLD_SETTINGS

LIKED, DISLIKED, NAIVE, GREY = "#2a7f62", "#e0a58f", "#c44e2b", "#888888"
KINDS = {"nobody said": "#eeeeee", "disliked": DISLIKED, "liked": LIKED}
SAMPLE_USERS, SAMPLE_ITEMS, N_GROUPS = 40, 60, 10
TRAINING = unskew.Training(progress=False)
SAME_BYTES = {"svg.hashsalt": "unskew", "svg.fonttype": "none", "font.size": 10}  # and text stays text


@dataclass(frozen=True)
class Facts:
    """A world small enough to hold every pair, and a few of its users and items to draw, the likeable ones first."""

    world: unskew.World

    @cached_property
    def everything(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.divmod(np.arange(self.world.n_pairs), self.world.n_items)

    @cached_property
    def ratings(self) -> NDArray[np.float32]:
        return self.world.rating(*self.everything).reshape(self.world.n_users, -1)

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        seen = np.zeros(self.ratings.shape, bool)
        seen[self.world.log.users, self.world.log.items] = True
        return seen

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        return 1 / self.world.propensity(*self.everything).reshape(self.ratings.shape)

    @cached_property
    def drawn(self) -> Any:
        generator = np.random.default_rng(0)
        users = generator.choice(self.world.n_users, SAMPLE_USERS, replace=False)
        items = generator.choice(self.world.n_items, SAMPLE_ITEMS, replace=False)
        liked = self.ratings[np.ix_(users, items)]
        return np.ix_(users[np.argsort(-liked.mean(1))], items[np.argsort(-liked.mean(0))])

    @cached_property
    def groups(self) -> list[NDArray[np.int64]]:
        """All pairs in ten groups, those least likely to be rated first."""
        return np.array_split(np.argsort(-self.weights.ravel()), N_GROUPS)


def share(part: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
    return float(np.average(part, weights=weights))


def chosen(facts: Facts) -> Figure:
    """What people think of everything, and what they said."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    ratings, seen = facts.ratings[facts.drawn], facts.seen[facts.drawn]
    for axes, visible, what, of_all in (
        (figure.add_subplot(1, 2, 1), np.ones_like(seen), "What they think of everything", share(facts.ratings)),
        (figure.add_subplot(1, 2, 2), seen, "What the log knows", share(facts.ratings[facts.seen])),
    ):
        colors = ListedColormap(list(KINDS.values()))
        axes.imshow(np.where(visible, 1 + ratings, 0), cmap=colors, vmin=0, vmax=2, interpolation="none")
        axes.set(xticks=[], yticks=[], xlabel="items", ylabel="users", title=f"{what}: {of_all:.0%} liked")
        axes.spines[:].set_visible(False)
    keys = [Patch(color=color, label=name) for name, color in KINDS.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    return figure


def unchosen(facts: Facts) -> Figure:
    """What a naive model says of pairs, from the least to the most likely to be rated."""
    naive = unskew.Naive().fit(facts.world.log, seed=0, training=TRAINING).predict_codes(*facts.everything)
    ratings, seen = facts.ratings.ravel(), facts.seen.ravel()
    true, said, counts = (
        np.array([summary(values[group]) for group in facts.groups])
        for summary, values in ((np.mean, ratings), (np.mean, naive), (np.sum, seen))
    )
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_promises(above, true, said)
    _draw_counts(below, counts)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", length=0)
    return figure


def _draw_promises(axes: Any, true: NDArray[Any], said: NDArray[Any]) -> None:
    places = np.arange(N_GROUPS)
    axes.fill_between(places, true, said, color="#f2f2f2")
    axes.plot(places, true, color=LIKED, marker="o", label="really liked")
    axes.plot(places, said, color=NAIVE, marker="D", label="liked, says a model trained on the log")
    for values, color, gaps in ((true, LIKED, (-14, 9)), (said, NAIVE, (9, -14))):
        for place, gap in zip((0, N_GROUPS - 1), gaps, strict=True):
            at, words = (place, values[place]), f"{values[place]:.0%}"
            axes.annotate(words, at, (0, gap), textcoords="offset points", ha="center", color=color)
    axes.set(ylim=(0, 0.8))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.legend(frameon=False, loc="upper left")


def _draw_counts(axes: Any, counts: NDArray[Any]) -> None:
    places = np.arange(N_GROUPS)
    axes.bar_label(axes.bar(places, counts, color=GREY), [f"{count:,}" for count in counts], fontsize=8)
    axes.set(ylabel="ratings", yticks=[], ylim=(0, 1.3 * counts.max()))
    axes.set_xticks(places, ["hardly ever\nrated", *[""] * (N_GROUPS - 2), "most often\nrated"])
    axes.set(xlabel="all pairs of a user and an item, in ten groups of equal size")


def weighted(facts: Facts) -> Figure:
    """The log with every rating as large as the number of pairs it stands for, and what that does to its mean."""
    log = facts.world.log
    learned = unskew.IPS().fit(log, seed=0, training=TRAINING)
    propensity = learned.scores("propensity", log.users, log.items)
    clipped = np.maximum(propensity, len(log) / log.n_pairs)
    bars = (
        ("the log as it is", share(log.ratings), NAIVE),
        ("weighted, chances learned from the log", share(log.ratings, 1 / clipped), GREY),
        ("weighted, chances known", share(log.ratings, facts.weights[log.users, log.items]), GREY),
        ("the truth: all pairs", share(facts.ratings), LIKED),
    )
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(5, 4))
    _draw_dots(left, facts)
    _draw_shares(right, bars)
    return figure


def _draw_dots(axes: Any, facts: Facts) -> None:
    weights, ratings, seen = facts.weights[facts.drawn], facts.ratings[facts.drawn], facts.seen[facts.drawn]
    halvings = np.clip(np.round(np.log2(weights)), 2, 9)  # few sizes make a small file
    for halving in np.unique(halvings[seen])[::-1]:
        for liked, color in ((1, LIKED), (0, NAIVE)):
            rows, columns = np.nonzero(seen & (ratings == liked) & (halvings == halving))
            size = 0.9 * 2 ** (halving / 2)  # so that areas are as the weights
            axes.plot(columns, rows, "o", color=color, markersize=size, alpha=0.7, markeredgewidth=0)
    axes.set(xticks=[], yticks=[], xlabel="items", ylabel="users", ylim=(SAMPLE_USERS, -1))
    axes.set(title="A rating that was unlikely to be given counts more")
    axes.spines[:].set_color("#dddddd")


def _draw_shares(axes: Any, bars: Sequence[tuple[str, float, str]]) -> None:
    names, values, colors = zip(*bars, strict=True)
    axes.barh(range(len(bars)), values, height=0.45, color=colors)
    axes.bar_label(axes.containers[0], [f"{value:.0%}" for value in values], padding=4)
    for place, name in enumerate(names):
        axes.text(0, place - 0.26, name, va="bottom", fontsize=9)
    axes.set(ylim=(len(bars) - 0.6, -0.75), xlim=(0, 0.7), yticks=[], xticks=[], title="Share liked")
    axes.spines[:].set_visible(False)


def main(folder: Path) -> None:
    facts = Facts(unskew.simulate(**WORLD_SETTINGS, selection="taste", seed=0))
    with mpl.rc_context(SAME_BYTES):
        for draw in (chosen, unchosen, weighted):
            draw(facts).savefig(folder / f"problem-{draw.__name__}.svg", facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
