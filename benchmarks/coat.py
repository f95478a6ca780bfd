"""Tune methods on Coat by validation alone, then read the test set once: the figures of docs/benchmarks.md.

    python benchmarks/coat.py DATA/coat --method naive --method dce-dr --trials 30 --seeds 5

A tenth of the log is set aside for judging (another one for each of `--judges` seeds). Each trial draws settings from
the method's space, trains on the rest and is judged by the self-normalised propensity-weighted log-loss on that tenth,
under a cross-fitted propensity that no method trains; methods that weight use the same one in all trials.
The best trial is then fitted on the whole log with `--seeds`
seeds and evaluated on the test set. Finished trials are kept in `--trials-file` and not repeated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

import unskew
from unskew.metrics.accuracy import log_loss
from unskew.propensity.base import FittedPropensity, Propensity

METRICS = ("mse", "auc", "ndcg@5", "ndcg@10")
CLIP_OF_JUDGE = 0.02


def settings(method: str, rng: np.random.Generator) -> dict[str, float]:
    """One draw from the space that all methods share, as far as they have the setting."""

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    drawn = {
        "n_factors": int(rng.choice([16, 32, 64])),
        "l2": log_uniform(0.02, 0.3),
        "imputation_l2": log_uniform(0.001, 0.3),
        "clip": float(rng.choice([0.02, 0.05, 0.1, 0.2])),
    }
    plain = {"naive": ("n_factors", "l2"), "ips": ("n_factors", "l2", "clip"), "snips": ("n_factors", "l2", "clip")}
    return {name: drawn[name] for name in plain.get(method, tuple(drawn))}


@dataclass(frozen=True, eq=False)
class Prefitted(Propensity):
    """A propensity that is the same in every trial: fitted once, by the default settings."""

    fitted: FittedPropensity

    def fit_split(self, split: unskew.Split, **_: object) -> FittedPropensity:
        return self.fitted


def make(method: str, chosen: dict[str, float], propensity: Propensity | None = None) -> unskew.Method:
    rest = {name: value for name, value in chosen.items() if name != "n_factors"}
    made = unskew.make(method, net=unskew.MF(n_factors=int(chosen["n_factors"])), **rest)
    return made if propensity is None else with_propensity(made, propensity)


def with_propensity(method: unskew.Method, propensity: Propensity) -> unskew.Method:
    if isinstance(method, unskew.DoublyCalibrated):
        return replace(method, base=with_propensity(method.base, propensity))
    return replace(method, propensity=propensity) if hasattr(method, "propensity") else method


class Judge:
    """A part of the log to train on, and the weighted log-loss on the rest."""

    def __init__(self, log: unskew.RatingLog, seed: int) -> None:
        split = unskew.holdout_split(log, 0.1, seed=1000 + seed)
        self.train, self.held_out, self.seed = split.train, split.holdout, seed
        self.propensity = Prefitted(unskew.Factors().fit(self.train, seed=seed))
        p = self.propensity.fitted.pair(self.held_out.users, self.held_out.items)
        self.weights = 1 / np.maximum(p, CLIP_OF_JUDGE)

    def risk(self, method: str, chosen: dict[str, float]) -> float:
        model = make(method, chosen, self.propensity).fit(self.train, seed=self.seed)
        said = model.predict_codes(self.held_out.users, self.held_out.items)
        return log_loss(self.held_out.ratings, said, sample_weight=self.weights)


def tuned(method: str, judges: list[Judge], n_trials: int, file: Path) -> dict[str, float]:
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    trials = {trial["number"]: trial for trial in known if trial["method"] == method}
    rng = np.random.default_rng(7)
    for number in tqdm(range(n_trials), method):
        chosen = settings(method, rng)
        if number not in trials:
            risk = float(np.mean([judge.risk(method, chosen) for judge in judges]))
            trials[number] = {"method": method, "number": number, "settings": chosen, "risk": risk}
            with file.open("a") as out:
                out.write(json.dumps(trials[number]) + "\n")
    best = min((trials[number] for number in range(n_trials)), key=lambda trial: trial["risk"])
    print(f"{method}: best of {n_trials} trials, validation risk {best['risk']:.4f}: {best['settings']}")
    return best["settings"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of the published Coat files")
    parser.add_argument("--method", action="append", required=True)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--judges", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials-file", type=Path, default=Path("coat-trials.jsonl"))
    arguments = parser.parse_args()
    data = unskew.datasets.coat(arguments.folder)
    judges = [Judge(data.train, seed) for seed in range(arguments.judges)]
    for method in arguments.method:
        recipe = make(method, tuned(method, judges, arguments.trials, arguments.trials_file))
        rows = []
        for seed in range(arguments.seeds):
            scores = unskew.evaluate(recipe.fit(data.train, seed=seed), data.test, empty_users="one")
            rows.append([scores[metric] for metric in METRICS])
        cells = zip(np.mean(rows, 0), np.std(rows, 0, ddof=1), strict=True)
        print(f"| {method} | " + " | ".join(f"{mean:.4f} ± {spread:.4f}" for mean, spread in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
