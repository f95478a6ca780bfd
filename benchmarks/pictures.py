"""Draw the pictures of the problem and of the loop, and print its figures: `python -m benchmarks.pictures docs`."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from markupsafe import Markup

import unskew
from benchmarks.cases import QUIET
from benchmarks.tables import Record, gathered, values
from benchmarks.worlds import ROUNDS
from unskew.bench.protocol import WORLD_SETTINGS
from unskew.charts import Chart, Point, Row, lines, rows
from unskew.findings import Interval, Table

PEOPLE, THINGS, GROUPS, SIDE = 40, 60, 10, 3.3


def squares(liked: np.ndarray, known: np.ndarray) -> Chart:
    """Draw a square for each pair of the first people and things: what is thought of all, and what is rated."""
    parts = []
    for left, drawn in ((0, np.ones_like(known)), (220, known)):
        for style, own in (("mark accent", drawn & liked), ("dot plain", drawn & ~liked)):
            places = [(left + SIDE * item, 24 + SIDE * user) for user, item in np.argwhere(own[:PEOPLE, :THINGS])]
            path = "".join(f"M{x:.1f} {y:.1f}h2.7v2.7h-2.7z" for x, y in places)
            parts.append(Markup("<path class='{}' style='stroke: none' d='{}'/>").format(style, path))
        words = "what is rated" if left else "what people like, in colour"
        parts.append(Markup("<text x='{}' y='14'>{}</text>").format(left, words))
    table = Table("Squares", ["liked", "rated", "liked of rated"], [(liked.mean(), known.mean(), liked[known].mean())])
    about = "A square for each pair of 40 people and 60 things, and of those that are rated."
    return Chart("What people think, and what they rate", about, 28 + SIDE * PEOPLE, Markup("").join(parts), table)


def loop(records: list[Record]) -> Chart:
    """Draw what lists promise beyond what comes of them, over rounds, with the spread of seeds."""
    series: dict[str, list[Point]] = {}
    for policy in ("naive, greedy", "naive, epsilon .1", "dce-bayes, thompson .1"):
        for number in range(1, ROUNDS + 1):
            own = np.array([*values(records, "world", policy, f"round {number}: promise").values()])
            mean, reach = own.mean(), 2 * own.std() / math.sqrt(len(own))
            series.setdefault(policy, []).append(Point(number, Interval(mean, mean - reach, mean + reach)))
    about = (
        "The share of its lists that a recommender expects to be liked, less the share that is, as it learns from them."
    )
    return lines("The loop bends what is believed", about, series, x="round", y="promised less liked")


def pictures() -> tuple[dict[str, Chart], dict[str, float]]:
    """Draw all, and return the figures that the page quotes."""
    world = unskew.simulate(**WORLD_SETTINGS, selection="taste", seed=0)
    log = world.log
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    liked, chance = world.rating(users, items) > 0, world.propensity(users, items)
    rated = np.zeros(world.n_pairs, bool)
    rated[log.users.astype(np.int64) * world.n_items + log.items] = True
    believed = unskew.make("naive").fit(log, seed=0, training=QUIET).predict_codes(users, items)
    learned = unskew.Factors().fit(log, seed=0, training=QUIET).pair(users[rated], items[rated])
    groups = np.array_split(np.argsort(chance, kind="stable"), GROUPS)

    def of_groups(values: np.ndarray) -> list[Point]:
        return [Point(number / GROUPS, Interval(float(values[own].mean()))) for number, own in enumerate(groups, 1)]

    def weighted(chances: np.ndarray) -> float:
        return float(np.average(liked[rated], weights=1 / chances))

    shares = {
        "the log as it stands": float(liked[rated].mean()),
        "weighted by learned chances": weighted(learned),
        "weighted by the true chances": weighted(chance[rated]),
        "all pairs, the truth": float(liked.mean()),
    }
    about = "Ten groups of pairs, from hardly ever to most often rated: the share liked, and what naive training says."
    grid = (world.n_users, world.n_items)
    drawn = {
        "chosen": squares(liked.reshape(grid), rated.reshape(grid)),
        "unchosen": lines(
            "A model believes its log",
            about,
            {"truly liked": of_groups(liked), "what a naive model says": of_groups(believed)},
            x="from hardly ever to most often rated",
            y="share liked",
        ),
        "weighted": rows(
            "What weighting does",
            "The share liked by the log, with and without weights, and over all pairs.",
            [Row(name, Interval(share, form=".0%")) for name, share in shares.items()],
            axis="share liked",
            here=shares["all pairs, the truth"],
        ),
    }
    first, last = groups[0], groups[-1]
    there = {"liked in the first group": liked[first].mean(), "believed there": believed[first].mean()}
    counts = {"rated in the first group": rated[first].sum(), "in the last": rated[last].sum()}
    return drawn, {"share rated": rated.mean(), **shares, **there, **counts}


if __name__ == "__main__":
    charts, found = pictures()
    for name, chart in charts.items():
        chart.save(Path(sys.argv[1]) / f"problem-{name}.svg")
    loop(gathered(Path(__file__).parent / "records", "loop")).save(Path(sys.argv[1]) / "loop.svg")
    print(*(f"{name}: {value:.4g}" for name, value in found.items()), sep="\n")
