"""The experiment about the judge: what counts as right, wrong and open, and that its table says so."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
judge = importlib.import_module("benchmarks.judge")


@pytest.mark.parametrize(
    ("order", "squared", "sign"),
    [(0.01, 0.002, 1), (-0.01, 0.0, -1), (0.0, -0.002, -1), (0.001, 0.0005, 0), (0.01, -0.002, None)],
)
def test_who_is_truly_better_follows_order_and_error(order, squared, sign):
    assert judge.sign_of({"a, b: true order": order, "a, b: true squared": squared}, "a, b") == sign


def record(case, decided, order, **more):
    own = {"plain, bayes: decided": decided, "plain, bayes: true order": order, "plain, bayes: true squared": 0.0}
    return {
        "case": case,
        "metrics": own | {"by rating": 0.0, "band holds": 1.0, "plain, bayes: z of order": 0.1} | more,
    }


def test_the_table_counts_decisions_by_what_drives_seeing():
    records = [record("uniform", 1.0, 0.02), record("popularity", -1.0, 0.02), record("jester, taste .6", 0.0, 0.02)]
    records.append(record("coat", 1.0, 0.0))
    rows = dict(line.strip("| ").split(" | ", 1) for line in judge.table(records).splitlines() if line.startswith("| "))
    assert rows["all"].split(" | ") == ["1", "1", "1", "1", "0", "0", "0"]
    assert rows["seeing driven by exposure"].startswith("0 | 1 | 0")
    assert rows["seeing driven by taste"].startswith("0 | 0 | 1")


def test_a_world_obeys_its_law_and_has_about_as_many_ratings():
    world = judge.simulated("liking", Path("anywhere"), 3)
    liked = world.stars >= world.cut
    assert 6_500 < world.seen.sum() < 8_500
    assert world.seen[liked].mean() > 1.3 * world.seen[~liked].mean()
