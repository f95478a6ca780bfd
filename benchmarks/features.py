"""What features are worth, by validation on Coat's log and by the truth of simulated worlds.

    python benchmarks/features.py DATA/coat --deals 3 --seeds 10

First their share of the L2 is chosen, by the rule of `defaults.py` and on the same tenths of the log. Then Naive, DR-JL
and DCE-DR with features in all their nets are set beside themselves without, on every tenth of several deals of the log
into ten. Last, worlds in which features tell the truth, a little of it or nothing. Coat's test ratings are never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from defaults import Judged, judged, table, weights_of
from numpy.typing import NDArray
from scripts import count, mean_and_sd, script

import unskew
from unskew.data.features import Features
from unskew.metrics.ranking import UserLists
from unskew.nets.base import UseOfFeatures
from unskew.progress import each

SHARES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
METHODS = ("naive", "dr-jl", "dce-dr")
TOLD = {"the truth, half of it noise": 0.5, "mostly noise": 0.25, "nothing but noise": 0.0}
QUIET = unskew.Training(progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of the published Coat files")
    parser.add_argument("--deals", type=count, default=3, help="of the log into tenths (default: 3)")
    parser.add_argument("--seeds", type=count, default=10, help="of worlds (default: 10)")
    options = parser.parse_args()
    deals = [unskew.folds(unskew.datasets.coat(options.folder).train, 10, seed=seed) for seed in range(options.deals)]
    weights = [[weights_of(tenth) for tenth in deal] for deal in deals]
    nets = [unskew.MF(features="always", feature_l2=share) for share in SHARES]
    naive = [judged(deals[0], weights[0], unskew.Naive(net=net), f"{net.feature_l2:g}") for net in each(nets, "shares")]
    print(table(naive, "share of the L2"), "\n")
    print(gains(deals, weights), "\n")
    print(worlds(options.seeds))


def gains(deals: Sequence[Sequence[unskew.Split]], weights: Sequence[Sequence[NDArray[np.float64]]]) -> str:
    heads = ("", "log-loss without", "with minus without", *(f"{of} | minus" for of in ("AUC", "nDCG@5", "nDCG@10")))
    lines = [f"| {' | '.join(heads)} |", "|---" * 9 + "|"]
    dealt = list(zip(deals, weights, strict=True))
    for name in each(METHODS, "methods"):
        found = {
            features: [judged(deal, w, reading(unskew.make(name), features), name) for deal, w in dealt]
            for features in ("never", "always")
        }
        lines.append(f"| {name} | {' | '.join(gain(found['never'], found['always']))} |")
    return "\n".join(lines)


def gain(without: Sequence[Judged], with_them: Sequence[Judged]) -> list[str]:
    losses = np.concatenate([one.losses for one in without])
    change = np.concatenate([one.losses for one in with_them]) - losses
    words = [f"{losses.mean():.4f}", mean_and_sd(change.tolist())]
    measures: tuple[Callable[[UserLists], NDArray[np.float64]], ...]
    measures = (lambda lists: lists.auc(), lambda lists: lists.ndcg(5), lambda lists: lists.ndcg(10))
    for measure in measures:
        before, after = ([measure(one.lists) for one in side] for side in (without, with_them))
        by_user = np.mean(after, axis=0) - np.mean(before, axis=0)  # over deals: users are what differs
        error = np.nanstd(by_user, ddof=1) / np.sqrt(np.isfinite(by_user).sum())
        words += [f"{np.nanmean(before):.4f}", f"{np.nanmean(by_user):+.4f} ± {error:.4f}"]
    return words


def reading(method: unskew.Method, features: UseOfFeatures) -> unskew.Method:
    """The method all of whose nets, that of the propensity too, say this about features."""
    if isinstance(method, unskew.DoublyCalibrated):
        return replace(method, base=reading(method.base, features))
    changed = replace(method, net=unskew.MF(features=features))
    if hasattr(method, "propensity"):
        net = unskew.MF(n_factors=16, spread=0.1, features=features)
        changed = replace(changed, propensity=unskew.Factors(net=net))
    return changed


def worlds(n_seeds: int) -> str:
    lines = ["| features tell | without | minus without | as validation decides | read in |", "|---|---|---|---|---|"]
    for words, told in each(list(TOLD.items()), "worlds"):
        risks: dict[str, list[float]] = {"never": [], "always": [], "auto": []}
        read = 0
        for seed in range(n_seeds):
            world = unskew.simulate(500, 250, density=0.1, strength=0.7, seed=seed)
            log = described(world, told)
            for features, found in risks.items():
                model = reading(unskew.Naive(), features).fit(log, seed=seed, training=QUIET)
                found.append(world.risk(model.predict_codes))
                read += features == "auto" and model.method.net.features == "always"
        always, auto = (np.subtract(risks[features], risks["never"]).tolist() for features in ("always", "auto"))
        cells = mean_and_sd(risks["never"]), mean_and_sd(always), mean_and_sd(auto), f"{read} of {n_seeds}"
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def described(world: unskew.World, told: float) -> unskew.RatingLog:
    """The world's log with numbers that are `told` truth (effects and factors, standardised) and noise for the rest."""

    def features(side: str, stream: int) -> Features:
        truth = np.column_stack([getattr(world, f"{side}_factors"), getattr(world, f"{side}_effects")])
        truth = (truth - truth.mean(0)) / truth.std(0)
        noise = np.random.default_rng([world.seed, stream]).standard_normal(truth.shape)
        names = tuple(f"feature {number}" for number in range(truth.shape[1]))
        return Features(names, (told * truth + (1 - told) * noise).astype(np.float32))

    return replace(world.log, user_features=features("user", 1), item_features=features("item", 2))


if __name__ == "__main__":
    script(main)
