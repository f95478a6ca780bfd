"""Choose the default settings of nets on a log alone: nothing else is read.

    python benchmarks/defaults.py DATA/coat

Every setting of the grid is fitted to nine tenths of the log and judged on the tenth left out, for all ten tenths, by
the self-normalised weighted log-loss (weights 1 / max(p, density), p a cross-fitted propensity that no method trains)
and by per-user AUC over the held-out ratings of all tenths together. The rule, fixed before looking: among settings
whose log-loss is within one standard error of the lowest (paired over tenths), the one with the highest per-user AUC.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
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


WITHOUT = unskew.MF()


class Judged(NamedTuple):
    settings: str
    losses: NDArray[np.float64]  # one for each tenth
    lists: UserLists  # the held-out ratings of all tenths together, ordered for each user

    @property
    def per_user_auc(self) -> float:
        return float(np.nanmean(self.lists.auc()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of the published Coat files")
    log = unskew.datasets.coat(parser.parse_args().folder).train
    tenths = unskew.folds(log, 10, seed=0)
    weights = [weights_of(tenth) for tenth in tenths]
    found = []
    for n_factors, (rate, batch), l2 in each(list(product(FACTORS, PACES, L2)), "settings", "setting"):
        method = unskew.Naive(net=replace(WITHOUT, n_factors=n_factors), learning_rate=rate, l2=l2)
        words = f"{n_factors} factors, learning rate {rate}, batch {batch}, L2 {l2}"
        found.append(judged(tenths, weights, method, words, batch))
    print(table(found, "Naive with"))


def table(found: list[Judged], what: str) -> str:
    """All settings, and which the rule chooses."""
    best = min(found, key=lambda one: float(one.losses.mean()))
    lines = [f"| {what} | weighted log-loss | above the lowest | per-user AUC |", "|---|---|---|---|"]
    for one in found:
        gap, error = difference(one, best)
        lines.append(f"| {one.settings} | {one.losses.mean():.4f} | {gap:.4f} ± {error:.4f} | {one.per_user_auc:.4f} |")
    level = [one for one in found if difference(one, best)[0] <= difference(one, best)[1]]
    return "\n".join([*lines, "", f"By the rule: {max(level, key=lambda one: one.per_user_auc).settings}"])


def weights_of(tenth: unskew.Split) -> NDArray[np.float64]:
    train, held_out = tenth.train, tenth.holdout
    propensity = unskew.Factors(net=replace(WITHOUT, n_factors=16, spread=0.1))
    p = propensity.fit(train, seed=99).pair(held_out.users, held_out.items)
    return np.asarray(1 / np.maximum(p, len(train) / train.n_pairs))


def judged(
    tenths: Sequence[unskew.Split],
    weights: Sequence[NDArray[np.float64]],
    method: unskew.Method,
    settings: str,
    batch: int | None = None,
) -> Judged:
    training = unskew.Training(progress=False, batch_size=batch)
    losses, columns = [], []
    for seed, (tenth, weight) in enumerate(zip(tenths, weights, strict=True)):
        held_out = tenth.holdout
        said = method.fit(tenth.train, seed=seed, training=training).predict_codes(held_out.users, held_out.items)
        losses.append(log_loss(held_out.ratings, said, sample_weight=weight))
        columns.append((held_out.ratings, said, held_out.users))
    ratings, scores, users = map(np.concatenate, zip(*columns, strict=True))
    return Judged(settings, np.array(losses), UserLists.from_rows(ratings, scores, users))


def difference(one: Judged, other: Judged) -> tuple[float, float]:
    """The mean difference of the losses and its standard error over tenths."""
    gap = one.losses - other.losses
    return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))


if __name__ == "__main__":
    main()
