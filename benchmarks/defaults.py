"""Choose the default settings of nets on a log alone: nothing else is read.

    python benchmarks/defaults.py DATA/coat

Every setting of the grid is fitted to nine tenths of the log and judged on the tenth left out, for all ten tenths, by
the self-normalised weighted log-loss (weights 1 / max(p, density), p a cross-fitted propensity that no method trains)
and by per-user AUC over the held-out ratings of all tenths together. The rule, fixed before looking: among settings
whose log-loss is within one standard error of the lowest (paired over tenths), the one with the highest per-user AUC.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import unskew
from unskew.metrics.accuracy import log_loss
from unskew.metrics.ranking import UserLists
from unskew.progress import each

L2 = (0.05, 0.07, 0.09, 0.11, 0.13, 0.16)
PACES = ((0.01, 256), (0.03, 512))  # learning rate and batch
FACTORS = (16, 64)


class Judged(NamedTuple):
    settings: str
    losses: NDArray[np.float64]  # one for each tenth
    per_user_auc: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of the published Coat files")
    log = unskew.datasets.coat(parser.parse_args().folder).train
    tenths = unskew.folds(log, 10, seed=0)
    weights = [weights_of(tenth) for tenth in tenths]
    grid = list(product(FACTORS, PACES, L2))
    found = [judged(tenths, weights, *setting) for setting in each(grid, "settings", "setting")]
    best = min(found, key=lambda one: float(one.losses.mean()))
    print("| Naive with | weighted log-loss | above the lowest | per-user AUC |\n|---|---|---|---|")
    for one in found:
        gap, error = difference(one, best)
        words = f"{one.losses.mean():.4f} | {gap:.4f} ± {error:.4f} | {one.per_user_auc:.4f}"
        print(f"| {one.settings} | {words} |")
    level = [one for one in found if difference(one, best)[0] <= difference(one, best)[1]]
    print(f"\nBy the rule: {max(level, key=lambda one: one.per_user_auc).settings}")


def weights_of(tenth: unskew.Split) -> NDArray[np.float64]:
    train, held_out = tenth.train, tenth.holdout
    p = unskew.Factors().fit(train, seed=99).pair(held_out.users, held_out.items)
    return np.asarray(1 / np.maximum(p, len(train) / train.n_pairs))


def judged(
    tenths: tuple[unskew.Split, ...],
    weights: list[NDArray[np.float64]],
    n_factors: int,
    pace: tuple[float, int],
    l2: float,
) -> Judged:
    method = unskew.Naive(net=unskew.MF(n_factors=n_factors), learning_rate=pace[0], l2=l2)
    training = unskew.Training(progress=False, batch_size=pace[1])
    losses, columns = [], []
    for seed, (tenth, weight) in enumerate(zip(tenths, weights, strict=True)):
        held_out = tenth.holdout
        said = method.fit(tenth.train, seed=seed, training=training).predict_codes(held_out.users, held_out.items)
        losses.append(log_loss(held_out.ratings, said, sample_weight=weight))
        columns.append((held_out.users, held_out.ratings, said))
    users, ratings, scores = map(np.concatenate, zip(*columns, strict=True))
    words = f"{n_factors} factors, learning rate {pace[0]}, batch {pace[1]}, L2 {l2}"
    return Judged(words, np.array(losses), float(np.nanmean(UserLists.from_rows(ratings, scores, users).auc())))


def difference(one: Judged, other: Judged) -> tuple[float, float]:
    """The mean difference of the losses and its standard error over tenths."""
    gap = one.losses - other.losses
    return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))


if __name__ == "__main__":
    main()
