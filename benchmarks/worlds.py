"""Does debiasing lower the true risk when the propensities are true? Every registered method in simulated worlds.

    python benchmarks/worlds.py --seeds 3 --workers 2

Pairs are seen by popularity in one kind of world and by taste in the other; world and fit have the same seed. Methods
that take a propensity are told the true one, clipped at 0.01; methods that learn a propensity net of their own keep
it. Each is compared with Naive with the same net. A run that is stopped goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from scripts import chosen, failed, mean_and_sd, parser, publish, script

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.records import Values
from unskew.bench.report import seed_names
from unskew.nets.base import NetSpec
from unskew.registry import settings_of

SELECTIONS = ("popularity", "taste")
DENSITY, STRENGTH, CLIP = 0.1, 0.7, 0.01
Size = tuple[int, int]


@lru_cache(maxsize=2)
def world(selection: str, size: Size, seed: int) -> unskew.World:
    n_users, n_items = size
    return unskew.simulate(n_users, n_items, density=DENSITY, selection=selection, strength=STRENGTH, seed=seed)


def told(method: unskew.Method, propensity: unskew.Propensity) -> unskew.Method:
    """The method with this propensity and the benchmark's clip, where it or what it wraps takes a propensity."""
    settings = settings_of(method)
    changed: dict[str, Any] = {}
    if isinstance(settings.get("propensity"), unskew.Propensity):
        changed = {"propensity": propensity, "clip": CLIP}
    if isinstance(base := settings.get("base"), unskew.Method):
        changed["base"] = told(base, propensity)
    return replace(method, **changed)


def propensity_of(method: unskew.Method) -> str:
    """Where the method's propensities come from in this benchmark."""
    if told(method, unskew.Uniform()) != told(method, unskew.Additive()):
        return "true"
    return "own" if "propensity" in method.plan().roles else "none"


def naive_beside(method: unskew.Method) -> unskew.Naive:
    """Naive with the net that makes the method's predictions; a tower on shared vectors is MF with like ones."""
    roles = method.plan().roles
    prediction = roles["prediction"]
    if not prediction.shares_with:
        assert isinstance(prediction.part, NetSpec)
        return unskew.Naive(net=prediction.part)
    shared = vars(roles[prediction.shares_with].part)
    return unskew.Naive(net=unskew.MF(n_factors=shared["n_factors"], init_std=shared["init_std"]))


def true_risk(size: Size, *, method: unskew.Method, selection: str, seed: int) -> Values:
    here = world(selection, size, seed)
    training = unskew.Training(progress=False)
    model = told(method, unskew.Known(here.propensity)).fit(here.log, seed=seed, training=training)
    return {"risk": here.risk(model.predict_codes)}


class Comparison:
    """Methods in worlds, each beside the Naive that has its net; such a Naive joins them unless it is among them."""

    def __init__(self, recipes: Mapping[str, unskew.Method], size: Size, seeds: int) -> None:
        self.methods, self.size, self.seeds = dict(recipes), size, range(seeds)
        self.naive: dict[str, str] = {}
        for name, method in recipes.items():
            naive = naive_beside(method)
            same = (known for known, other in self.methods.items() if other == naive)
            self.naive[name] = next(same, f"naive, {naive.net!r}")
            self.methods.setdefault(self.naive[name], naive)
        self.naive |= {name: name for name in self.naive.values()}

    def jobs(self) -> list[Job]:
        facts = f"{self.size[0]} x {self.size[1]}, density {DENSITY}, strength {STRENGTH}, clip {CLIP}"
        return [
            Job(
                _key(selection, name, seed),
                f"{method!r}, {facts}",
                partial(true_risk, method=method, selection=selection, seed=seed),
            )
            for seed in self.seeds
            for selection in SELECTIONS
            for name, method in self.methods.items()
        ]

    def risks(self, outcome: Outcome, selection: str, name: str) -> list[float]:
        """The risk in each world, nothing if a fit failed."""
        found = [outcome.values.get(_key(selection, name, seed)) for seed in self.seeds]
        return [values["risk"] for values in found if values] if all(found) else []

    def difference(self, outcome: Outcome, selection: str, name: str) -> list[float]:
        """The risk minus that of Naive in each world, nothing if a fit failed."""
        naive = self.risks(outcome, selection, self.naive[name])
        own = self.risks(outcome, selection, name)
        return [a - b for a, b in zip(own, naive, strict=True)] if own and naive else []

    def cells(self, outcome: Outcome, selection: str, name: str) -> tuple[str, str]:
        risks, difference = self.risks(outcome, selection, name), self.difference(outcome, selection, name)
        if not risks:
            return "failed", ""
        if not difference or self.naive[name] == name:
            return mean_and_sd(risks), ""
        text = f"{np.mean(difference):+.4f}"
        if len(difference) > 1:
            naive = self.risks(outcome, selection, self.naive[name])
            text += f" (p {ttest_rel(risks, naive).pvalue:.1g})"
        return mean_and_sd(risks), text

    def table(self, outcome: Outcome) -> str:
        header = ["method", "propensity"]
        for selection in SELECTIONS:
            header += [f"{selection}: true risk", "minus Naive"]
        rows = []
        for name, method in self.methods.items():
            pairs = (self.cells(outcome, selection, name) for selection in SELECTIONS)
            rows.append([name, propensity_of(method), *(cell for pair in pairs for cell in pair)])
        return markdown_grid(header, rows)

    def cases_that_fail(self, outcome: Outcome) -> str:
        """The methods whose mean risk is not below that of Naive, world by world."""
        lines = ["Cases that fail (a mean risk that is not below that of Naive, or a fit that broke off):", ""]
        for selection in SELECTIONS:
            losing = []
            for name in self.methods:
                difference = self.difference(outcome, selection, name)
                if self.naive[name] != name and not (difference and np.mean(difference) < 0):
                    losing.append(name)
            lines.append(f"- {selection}: {', '.join(losing) or 'none'}")
        return "\n".join(lines)

    def setting(self) -> str:
        best = [_lowest_risk(world(SELECTIONS[0], self.size, seed)) for seed in self.seeds]
        users, items = self.size
        return (
            f"unskew {unskew.__version__}: true risk (expected squared error over all pairs, lower is better), mean "
            f"± sd over worlds with {seed_names(len(self.seeds))}: {users} users x {items} items, density {DENSITY}, "
            f"seen by popularity or by taste (strength {STRENGTH}); the true preferences have {mean_and_sd(best)}. "
            f'Default settings, but where the propensity is "true" it is the world\'s own, clipped at {CLIP}; "own" is '
            'a net that the method learns itself. "minus Naive" is the mean difference to Naive with the same net, '
            "with the p-value of a paired t-test."
        )


def _key(selection: str, name: str, seed: int) -> str:
    return f"{selection}/{name}/{seed}"


def _lowest_risk(here: unskew.World) -> float:
    """Of the true preferences, which are the same however pairs come to be seen."""
    return here.risk(here.preference)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "worlds.jsonl")
    options.add_argument("--size", type=int, nargs=2, default=(500, 250), metavar=("USERS", "ITEMS"))
    asked = options.parse_args(arguments)
    comparison = Comparison(chosen(asked.method), tuple(asked.size), asked.seeds)
    setting = comparison.setting()  # before the work, as it refuses a size that no world can have
    outcome = run(comparison.jobs(), asked.records, asked.workers, comparison.size)
    publish((setting, comparison.table(outcome), comparison.cases_that_fail(outcome), failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
