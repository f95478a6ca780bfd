"""The value of another policy, from a log of what one has shown: what people would do if other things were shown.

A row is an impression: its reward r, the chance p by which the policy of the log showed this item in this place, and
the chance t by which the other policy would. With w = t / p:

    naive   mean r: the value of the log's own policy
    ips     mean w r, unbiased if p is true and above 0 wherever t is (Horvitz & Thompson, 1952)
    snips   sum w r / sum w (Swaminathan & Joachims, NeurIPS 2015)
    dr      mean q_t + w (r - q): q the expected reward of what was shown, q_t its mean over what the other policy
            shows in this row; unbiased if p or q is true (Dudik et al., ICML 2011)
    clipped mean min(w, cap) r: it leaves out mean (w - cap)+ r, at most what `bias` says for rewards up to the largest

Rows of several policies are weighted by what all of them together would have shown, t / (sum_j n_j p_j / n) (Agarwal et
al., KDD 2017): `pscore` then has a column a policy. Where rewards are known of some rows alone (`seen`), such as
purchases of what was clicked, p is the chance to be seen, and the others count by what is imputed. Errors respect that
rows of a group (a user, a request) belong together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from unskew.errors import DataError, ParameterError
from unskew.findings import Interval, Table
from unskew.metrics.checks import Values, finite_vector
from unskew.metrics.intervals import effective_sample_size, normal_interval

FEW, HEAVY, OFF = 50, 0.05, 3.0  # effective rows, share of one row, and standard errors, beyond which a note warns


@dataclass(frozen=True, eq=False, repr=False)
class PolicyValue:
    """The value of a policy by several estimators, each with a 95% interval, and what to know of its weights."""

    estimates: Mapping[str, Interval]
    n_rows: int
    effective: float  # rows of equal weight that would say as much
    mean_weight: float  # 1 but for chance if the logged chances are true and leave nothing out
    notes: tuple[str, ...] = ()
    bias: Interval | None = None  # how far clipping may have lowered the value
    influence: Mapping[str, Values] = field(default_factory=dict)  # of groups, by estimator

    def __getitem__(self, estimator: str) -> Interval:
        return self.estimates[estimator]

    def less(self, other: PolicyValue) -> dict[str, Interval]:
        """Return by how much the value is above another's from the same rows, by estimator."""
        both = [name for name in self.estimates if name in other.estimates]
        gaps = {
            name: (self[name].value - other[name].value, self.influence[name] - other.influence[name]) for name in both
        }
        return {name: _interval(value, sums) for name, (value, sums) in gaps.items()}

    @property
    def table(self) -> Table:
        caption = f"{self.n_rows:,} rows worth {self.effective:,.0f} equal ones; mean weight {self.mean_weight:.3f}"
        return Table(caption, ("estimator", "value"), [(name, found) for name, found in self.estimates.items()])

    def __repr__(self) -> str:
        return "\n".join([self.table.caption, self.table.text(), *self.notes])


def estimate_value(
    reward: ArrayLike,
    pscore: ArrayLike,
    target: ArrayLike,
    *,
    imputed: tuple[ArrayLike, ArrayLike] | None = None,
    seen: ArrayLike | None = None,
    cells: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    policy: ArrayLike | None = None,
    clip: float | None = None,
) -> PolicyValue:
    """Estimate the mean reward that another policy would have had where a log's policies were at work.

    `pscore` are the logged chances of what was shown, `target` those of the other policy. `imputed` are (q, q_t) and
    add dr; `clip` is the largest weight of a clipped estimate; `groups` are users or requests whose rows go together.
    `seen` are rows whose reward is known, all without it, and `cells` how many rows each stands for. With several
    policies `pscore` has a column for each, and `policy` is the number of the one that showed the row.
    """
    r, t = finite_vector(reward, "reward"), finite_vector(target, "target")
    p, n = _logged(np.asarray(pscore, np.float64), policy, len(r)), len(r)
    known = np.ones(n, np.bool_) if seen is None else np.asarray(seen, np.bool_)
    c = np.ones(n) if cells is None else finite_vector(cells, "cells")
    group = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    model = [finite_vector(column, "imputed") for column in imputed or ()]
    columns = (t, "target chances"), (known, "flags of what was seen"), (c, "cells"), (group, "groups")
    for column, name in (*columns, *((each, "imputed rewards") for each in model)):
        if column.shape != r.shape:
            raise DataError(f"there are {n:,} rewards and {column.size:,} {name}: give one a row.")
    if (bad := ~((t >= 0) & (t <= 1))).any():
        row = int(bad.argmax())
        raise DataError(f"the target chance of row {row + 1} is {t[row]:g}: it must lie between 0 and 1.")
    w = np.where(known, t / p, 0.0)
    if not w.any():
        raise DataError("the other policy shows nothing of what this log has shown: no row tells its value.")
    if clip is not None and not clip > 0:
        raise ParameterError(f"clip must be above 0, not {clip!r}.")
    one = np.ones(n)
    parts = {"naive": (known * r, known * one), "ips": (w * r, one), "snips": (w * r, w)}  # of sums, one over the other
    if model:
        q, q_t = model
        parts["dr"] = q_t + w * (r - q), one
    if clip is not None:
        parts["clipped"] = np.minimum(w, clip) * r, one
    parts |= {"weight": (w, one), "lost": (np.maximum(w - (clip or np.inf), 0) * max(float(r.max()), 0.0), one)}
    value = {name: float((c * top).sum() / (c * bottom).sum()) for name, (top, bottom) in parts.items()}
    sums = {
        name: np.bincount(group, c * (top - value[name] * bottom)) / (c * bottom).sum()
        for name, (top, bottom) in parts.items()
    }
    found = {name: _interval(value[name], sums[name]) for name in parts}
    mean, bias = found.pop("weight"), found.pop("lost")
    notes = _warnings(c * w, mean)
    if clip is not None:
        notes.append(f"clipping at {clip:g} lowers the value by up to {bias.value:.4g}.")
    worth = effective_sample_size(c * w)
    return PolicyValue(found, n, worth, mean.value, tuple(notes), None if clip is None else bias, sums)


def _logged(p: Values, policy: ArrayLike | None, n: int) -> Values:
    """Return the chance that what was shown would be shown, by all policies of the log together."""
    columns = p[:, None] if policy is None and p.ndim == 1 else p
    if columns.ndim != 2 or len(p) != n or (policy is None and p.ndim != 1):
        shape = "(rows,)" if policy is None else "(rows, policies)"
        raise DataError(f"pscore must have the shape {shape} for {n:,} rows, not {p.shape}.")
    number = np.zeros(n, np.int64) if policy is None else np.asarray(policy)
    if number.shape != (n,) or number.dtype.kind not in "iu" or not np.isin(number, np.arange(columns.shape[1])).all():
        raise DataError(f"policy must hold a number from 0 to {columns.shape[1] - 1} for each of {n:,} rows.")
    by_row = columns[np.arange(n), number]
    if (bad := ~((by_row > 0) & (by_row <= 1))).any():
        row = int(bad.argmax())
        raise DataError(f"the logged chance of row {row + 1} is {by_row[row]:g}: it must be above 0 and at most 1.")
    if not ((columns >= 0) & (columns <= 1)).all():
        raise DataError("the chances of the log's policies must lie between 0 and 1.")
    return np.asarray(columns @ (np.bincount(number, minlength=columns.shape[1]) / n))


def _interval(value: float, sums: Values) -> Interval:
    """Return a value with an interval by the sums of its rows' influence within groups."""
    n = len(sums)
    return normal_interval(value, math.sqrt(float((sums**2).sum()) * n / max(n - 1, 1)), ".5f")


def _warnings(w: Values, mean: Interval) -> list[str]:
    """Say what is wrong with weights: too few rows that count, one that outweighs all, a mean that is not 1."""
    notes = list[str]()
    worth, share, row = effective_sample_size(w), float(w.max() / w.sum()), int(w.argmax())
    if share > HEAVY:
        notes.append(f"row {row + 1} has {share:.0%} of all weight: look at its logged chance before believing ips.")
    if worth < FEW:
        notes.append(f"weights leave {worth:.1f} rows' worth: intervals are too short to be believed.")
    if abs(mean.value - 1) > OFF / 1.96 * (mean.high - mean.value) + 1e-12:
        notes.append(
            f"weights have a mean of {mean.value:.3f} where true chances give 1: chances are wrong, in another "
            "order, cut off, or leave out what the other policy shows."
        )
    return notes
