"""Do experts correct a propensity that errs differently about different users, and does that help the recommender?

    python benchmarks/calibration.py --seeds 10

In simulated worlds with taste-driven selection the propensity model is right in order but over-confident about a third
of the users and under-confident about another. Every calibrator corrects it on the hold-out;
DR-JL is trained with the raw propensities and as DCE-DR with each calibrator. Printed as Markdown: the mean over seeds
and the p-value of a paired t-test against the experts. The second table does the same with the default clip, which
hides most of what a propensity says; the third where all users err alike, so that experts have nothing to find; the
fourth in the worlds of `unskew demo` with the default, estimated propensity. `--table N` runs one of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import ttest_rel

import unskew
from unskew.demo import WORLD_SETTINGS
from unskew.metrics.calibration import expected_calibration_error
from unskew.propensity.base import FittedPropensity
from unskew.runtime import each

CALIBRATORS = {
    "DR-JL, no calibration": None,
    "DCE-DR, Global": unskew.GlobalPlatt(),
    "DCE-DR, User-specific": unskew.UserPlatt(),
    "DCE-DR, Experts": unskew.ExpertPlatt(),
}
Groups = tuple[tuple[float, float], ...]
# How a model errs about each group of users: its logit is a s + b where the true one is s.
OVER, UNDER, RIGHT = (1.7, 0.6), (0.5, -1.6), (1.0, 0.0)
COLUMNS = ("mean |p - p_hat|", "ECE of p_hat", "true risk")


class FittedDistorted(FittedPropensity):
    """sigmoid(a_g logit(p) + b_g) for the users of group g; the vectors show the group, under noise."""

    is_data = False

    def __init__(self, world: unskew.World, groups: Groups, noise: float) -> None:
        self.world, self.maps = world, np.array(groups)
        shown = np.eye(len(groups))[np.arange(world.n_users + 1) % len(groups)]
        jitter = np.random.default_rng([world.seed, 53]).normal(0, noise, shown.shape)
        self.shown = (shown + jitter).astype(np.float32)

    def logits(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.float32]:
        p = np.clip(self.world.propensity(users, items), 1e-9, 1 - 1e-9)
        a, b = self.maps[users % len(self.maps)].T
        return np.asarray(a * logit(p) + b, np.float32)

    def user_vectors(self, users: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(self.shown[users])


@dataclass(frozen=True)
class Distorted(unskew.Propensity):
    """The true propensity of a world, by a model that is over- or under-confident about groups of users."""

    world: unskew.World
    groups: Groups = (OVER, UNDER, RIGHT)
    noise: float = 0.3

    def fit_split(self, split: Any, **_: Any) -> FittedPropensity:
        return FittedDistorted(self.world, self.groups, self.noise)

    def from_state(self, state: Any, owner: Any = None) -> FittedPropensity:
        return FittedDistorted(self.world, self.groups, self.noise)


def measured(
    world: unskew.World, calibrator: unskew.Calibrator | None, groups: Groups | None, clip: float | None, seed: int
) -> list[float]:
    propensity = unskew.Factors() if groups is None else Distorted(world, groups)
    base = unskew.DRJL(propensity=propensity, clip=clip)
    method = base if calibrator is None else unskew.DoublyCalibrated(base, calibrator, calibrator)
    model = method.fit(world.log, seed=seed, training=unskew.Training(progress=False))
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    truth, said = world.propensity(users, items), model.propensity(users, items)
    ece = expected_calibration_error(truth, said)
    return [float(np.abs(truth - said).mean()), ece, world.risk(model.predict_codes)]


def table(title: str, groups: Groups | None, clip: float | None, seeds: int) -> None:
    results: dict[str, list[list[float]]] = {name: [] for name in CALIBRATORS}
    for seed in each(range(seeds), title, "seed"):
        size = {"n_users": 600, "n_items": 250, "density": 0.1, "strength": 0.7}
        world = unskew.simulate(**(WORLD_SETTINGS if groups is None else size), selection="taste", seed=seed)
        for name, calibrator in CALIBRATORS.items():
            results[name].append(measured(world, calibrator, groups, clip, seed))
    print(f"\n{title}, {seeds} worlds\n\n| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    experts = np.array(results["DCE-DR, Experts"])
    for name, rows in results.items():
        values = np.array(rows)
        cells = []
        for column in range(len(COLUMNS)):
            cell = f"{values[:, column].mean():.4f} ± {values[:, column].std(ddof=1):.4f}"
            if name != "DCE-DR, Experts":
                cell += f" (p {ttest_rel(values[:, column], experts[:, column]).pvalue:.1g})"
            cells.append(cell)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--table", type=int, choices=(1, 2, 3, 4), action="append")
    arguments = parser.parse_args()
    thirds = "Over-, under- and rightly confident about a third of the users each"
    tables: dict[int, tuple[str, Groups | None, float | None]] = {
        1: (f"{thirds}, clip 0.01", (OVER, UNDER, RIGHT), 0.01),
        2: (f"{thirds}, clip at the density (0.1)", (OVER, UNDER, RIGHT), None),
        3: ("Over-confident about everybody alike, clip 0.01", (OVER,), 0.01),
        4: ("The demo's worlds, estimated propensities, clip at the density (0.06)", None, None),
    }
    for number in arguments.table or tables:
        table(*tables[number], arguments.seeds)


if __name__ == "__main__":
    main()
