"""Compiled turns: for every batch what nets say, the risk's slopes, and the step, without a word of Python between.

They are made of the kernels that single steps are made of. A net is (users, items, offset, biased, l2, learning rate),
its first three states as in `nets.kernels`. Batch b are the rows from `cuts[b]` to
`cuts[b + 1]`. Each kernel says the risk of every batch, one column for each net that learned.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from unskew.calibration.mixing import mixed
from unskew.nets.compiled import CompiledFactorNet
from unskew.nets.kernels import ENDINGS, compiled, families, family, parts
from unskew.risk.closed import corrections, errors, gaps, softplus_sum

# The caches of these kernels hold those they are made of, and are renewed when this file changes: change both.
MADE_OF: dict[str, Any] = {
    "mixed": mixed,
    "corrections": corrections,
    "errors": errors,
    "gaps": gaps,
    "softplus_sum": softplus_sum,
}


def _said(net, users, items):  # type: ignore[no-untyped-def]
    """The net's logits."""
    out = np.empty(len(users), np.float32)
    offset = net[2][0][0, 0] if net[3] else np.float32(0.0)
    gather_dot(users, items, net[0][0], net[1][0], offset, net[3], out)  # type: ignore[name-defined] # noqa: F821
    return out


def _teach(net, users, items, slopes):  # type: ignore[no-untyped-def]
    """One step from d risk / d logit of these pairs."""
    learn(users, items, slopes, net[3], net[4], net[5], net[0], net[1], net[2])  # type: ignore[name-defined] # noqa: F821


def _weighted(cuts, users, items, ratings, weights, cells, divisor, net, bound):  # type: ignore[no-untyped-def]
    """Of `closed.Weighted`: weighted errors over the divisor, or over the sum of the weights if that is 0."""
    values = np.empty((len(cuts) - 1, 1))
    for b in range(len(cuts) - 1):
        first, last = cuts[b], cuts[b + 1]
        u, i, w, total = users[first:last], items[first:last], weights[first:last], 0.0
        for weight in w:
            total += weight
        scale = cells / (last - first) / divisor if divisor > 0 else 1 / total
        values[b, 0], slopes = errors(said(net, u, i), ratings[first:last], w, scale, bound)  # type: ignore[name-defined] # noqa: F821
        teach(net, u, i, slopes)  # type: ignore[name-defined] # noqa: F821
    return values


def _joint(  # type: ignore[no-untyped-def]
    cuts, users, items, ratings, gap_weights, weights, cells,
    pair_cuts, sampled_users, sampled_items, pairs, n_pairs,
    imputation, prediction, maps, targeted, bound,
):  # fmt: skip
    """Of `closed.Gap` and then `closed.DoublyRobust`, the imputation at rest calibrated by `maps` of the users."""
    values = np.empty((len(cuts) - 1, 2))
    for b in range(len(cuts) - 1):
        first, last, first_pair, last_pair = cuts[b], cuts[b + 1], pair_cuts[b], pair_cuts[b + 1]
        u, i, r = users[first:last], items[first:last], ratings[first:last]
        gap_weight, weight, per_row = gap_weights[first:last], weights[first:last], cells / (last - first)
        logits, guesses = said(prediction, u, i), said(imputation, u, i)  # type: ignore[name-defined] # noqa: F821
        stakes, shifts, stake = np.empty_like(logits), np.zeros_like(logits), 0.0
        for n in range(len(logits)):
            stakes[n] = min(max(logits[n], -bound), bound)
            stake += gap_weight[n] * stakes[n] * stakes[n]
        if targeted:
            along, length = 0.0, 0.0
            for n in range(len(logits)):
                h = weight[n] - 1
                along += h * (1 / (1 + np.exp(-guesses[n])) - r[n]) * stakes[n]
                length += h * h
            for n in range(len(logits)):
                shifts[n] = along / max(length, 1e-12) * (weight[n] - 1)
        scale = per_row / max(per_row * stake, 1e-12)
        values[b, 0], slopes = gaps(guesses, r, stakes, shifts, gap_weight, scale)
        teach(imputation, u, i, slopes)  # type: ignore[name-defined] # noqa: F821
        labels = mixed(said(imputation, u, i), u, maps[0], maps[1], maps[2])  # type: ignore[name-defined] # noqa: F821
        correction, of_seen = corrections(logits, r, labels, weight, per_row / n_pairs, bound)
        v, j, per_pair = sampled_users[first_pair:last_pair], sampled_items[first_pair:last_pair], pairs / n_pairs
        labels = mixed(said(imputation, v, j), v, maps[0], maps[1], maps[2])  # type: ignore[name-defined] # noqa: F821
        ones = np.ones(len(v), np.float32)
        direct, of_all = errors(said(prediction, v, j), labels, ones, per_pair / max(len(v), 1), bound)  # type: ignore[name-defined] # noqa: F821
        values[b, 1] = correction + direct
        both = np.concatenate((u, v)), np.concatenate((i, j)), np.concatenate((of_seen, of_all))
        teach(prediction, both[0], both[1], both[2])  # type: ignore[name-defined] # noqa: F821
    return values


def _seeing(cuts, users, items, cells, pair_cuts, sampled_users, sampled_items, seen, pairs, n_pairs, net):  # type: ignore[no-untyped-def]
    """Of `closed.Seeing`."""
    values = np.empty((len(cuts) - 1, 1))
    for b in range(len(cuts) - 1):
        first, last, first_pair, last_pair = cuts[b], cuts[b + 1], pair_cuts[b], pair_cuts[b + 1]
        u, i = users[first:last], items[first:last]
        v, j = sampled_users[first_pair:last_pair], sampled_items[first_pair:last_pair]
        per_row, per_pair = cells / (last - first) / n_pairs, pairs / n_pairs / max(len(v), 1)
        rated, of_seen = softplus_sum(said(net, u, i), np.zeros(len(u), np.float32), -1, per_row)  # type: ignore[name-defined] # noqa: F821
        other, of_all = softplus_sum(said(net, v, j), seen[first_pair:last_pair], 1, per_pair)  # type: ignore[name-defined] # noqa: F821
        values[b, 0] = rated + other
        both = np.concatenate((u, v)), np.concatenate((i, j)), np.concatenate((of_seen, of_all))
        teach(net, both[0], both[1], both[2])  # type: ignore[name-defined] # noqa: F821
    return values


def _compiled(parallel: bool) -> SimpleNamespace:
    ending = ENDINGS[parallel]
    made_of = {**MADE_OF, **parts(parallel), **vars(family(parallel))}
    inner: dict[str, Callable[..., Any]] = {"said": _said, "teach": _teach}
    made_of |= {name: compiled(function, ENDINGS[parallel], **made_of) for name, function in inner.items()}
    return SimpleNamespace(**{name: compiled(function, ending, **made_of) for name, function in TURNS.items()})


TURNS: dict[str, Callable[..., Any]] = {"weighted": _weighted, "joint": _joint, "seeing": _seeing}
FOR: dict[type, tuple[SimpleNamespace, SimpleNamespace]] = {  # kinds of nets: kernels for one thread and for many
    CompiledFactorNet: families(_compiled),
}
