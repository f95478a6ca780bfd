"""The tables of `utility.py`, from its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from scripts import mean_and_sd

from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Outcome

Found = list[dict[str, Any]]


def rows_of(outcome: Outcome, part: str, value: float, seeds: int) -> Found:
    found = [outcome.values.get(f"{part}/{value}/{seed}") for seed in range(seeds)]
    return [each for each in found if each]


def column(found: Found, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([each[name] for each in found])


def world_table(outcome: Outcome, slopes: Sequence[float], seeds: int) -> list[str]:
    rows = []
    for slope in slopes:
        found = rows_of(outcome, "worlds", slope, seeds)
        findings = [each["finding"] for each in found]
        sure = [each for each in found if each["finding"] == "evidence"]
        covers = [each["low"] <= slope <= each["high"] for each in sure]
        gap = column(found, "rate") - column(found, "true_rate")
        rates = (f"{column(found, name).mean():.3f}" for name in ("log_rate", "rate", "true_rate"))
        risks = (f"{np.mean([each['risk'][name] for each in found]):.4f}" for name in ("naive", "naive-utility"))
        rows.append(
            [
                f"{slope:g}",
                mean_and_sd(column(found, "estimate"), 3),
                f"{np.median(column(found, 'gain')):.1f}",
                mean_and_sd(column(found, "item_slope"), 3),
                ", ".join(f"{findings.count(name)} {name}" for name in dict.fromkeys(findings)),
                f"{sum(covers)} of {len(covers)}" if covers else "",
                " / ".join(rates),
                f"{gap.mean():+.3f}, {np.abs(gap).mean():.3f}",
                " / ".join(risks),
            ]
        )
    header = ["true slope", "estimate", "median gain", "item counts say", "verdicts", "interval covers, where evidence"]
    header += ["positive rate: log / estimate / truth", "its error: mean, mean size"]
    return [markdown_grid([*header, "true risk: naive / naive-utility"], rows)]


def risk_table(outcome: Outcome, slopes: Sequence[float], seeds: int) -> list[str]:
    everything = {slope: rows_of(outcome, "risks", slope, seeds) for slope in slopes}
    names, ours = list(next(iter(everything.values()))[0]["risk"]), "utility"
    rows = []
    for name in names:
        cells = []
        for found in everything.values():
            own, other = (np.array([each["risk"][which] for each in found]) for which in (ours, name))
            compared = len(own) > 1 and (own != other).any()
            more = f" (p {ttest_rel(own, other).pvalue:.1g})" if compared else ""
            cells.append(f"{other.mean():.4f}{more}")
        shown = name if name.startswith("naive") else f"DR-JL, {name}"
        rows.append([f"**{shown}**" if name == ours else shown, *cells])
    best = ["the true preferences", *(f"{column(found, 'best').mean():.4f}" for found in everything.values())]
    header = ["true risk (p: paired t-test against ours)", *(f"slope {s:g}" for s in slopes)]
    return [markdown_grid(header, [*rows, best])]


def taste_table(outcome: Outcome, slopes: Sequence[float], seeds: int) -> list[str]:
    rows = []
    for slope in slopes:
        found = rows_of(outcome, "taste", slope, seeds)
        rows.append(
            [
                f"{slope:g}",
                mean_and_sd(column(found, "estimate"), 3),
                f"{column(found, 'log_rate').mean():.3f} / {column(found, 'rate').mean():.3f} / "
                f"{column(found, 'rate_at_zero').mean():.3f} / {column(found, 'true_rate').mean():.3f}",
                mean_and_sd(column(found, "risk")),
                mean_and_sd(column(found, "risk_at_zero")),
                mean_and_sd(column(found, "slope_at_zero"), 3),
            ]
        )
    header = ["true slope", "estimate at k = 1", "positive rate: log / k = 1 / k = 0 / truth", "true risk at k = 1"]
    return [markdown_grid([*header, "at k = 0", "estimate at k = 0"], rows)]


def slice_table(outcome: Outcome, values: Sequence[float], seeds: int) -> list[str]:
    rows, gains = [], []
    for k in values:
        found = rows_of(outcome, "slice", k, seeds)
        difference = column(found, "with_slice") - column(found, "alone")
        gains.extend(difference)
        covers = (column(found, "low") <= k) & (k <= column(found, "high"))
        rows.append(
            [
                f"{k:g}",
                mean_and_sd(column(found, "alone")),
                mean_and_sd(column(found, "with_slice")),
                f"{difference.mean():+.4f}",
                f"{(column(found, 'used') != 1.0).sum()} of {len(found)}",
                f"{covers.sum()} of {len(found)}",
            ]
        )
    header = ["true k", "true risk, k = 1 assumed", "with 50 random ratings", "difference", "k was changed in"]
    table = markdown_grid([*header, "interval covers"], rows)
    return [table, f"Mean difference over all: {np.mean(gains):+.4f} (sd {np.std(gains, ddof=1):.4f})."]


def coat_table(outcome: Outcome, names: Sequence[str], seeds: int) -> str:
    metrics = {"mse": "MSE", "auc": "AUC", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10"}
    rows = []
    for name in names:
        found = [outcome.values[key] for seed in range(seeds) if (key := f"coat/{name}/{seed}") in outcome.values]
        if not found:
            rows.append([name, *["failed"] * (len(metrics) + 3)])
            continue
        slopes = column(found, "slope")
        evidence = f"{np.count_nonzero(slopes)} of {len(found)}" if slopes.any() else ""
        cells = [mean_and_sd(column(found, metric)) for metric in metrics]
        rows.append([name, *cells, mean_and_sd(column(found, "mean"), 3), mean_and_sd(slopes, 3), evidence])
    return markdown_grid(["", *metrics.values(), "mean over all pairs", "slope", "fits with evidence"], rows)
