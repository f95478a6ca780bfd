"""Keep what was measured as JSON lines, and make tables and tests of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_ind

import unskew
from unskew.bench import standings
from unskew.store.atomic import write_file

Record = dict[str, Any]
Key = tuple[str, str, int]
KEY = ("case", "method", "seed")
OURS, PLAIN, PAPER = "dce-bayes", "naive", ("dr-jl", "dce-dr", "dce-tdr")
EARLIER = ("naive-utility",)  # of version 0.1.0: its records stay, and are not shown
COMPARED = ("auc", "ndcg@5", "ndcg@10", "mse", "choice: liked in ten")
LOWER_IS_BETTER = ("mse",)
PLACE = re.compile(r"(<!-- table (\w+) (\w+) ?(.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
VARIED = ("jester", "simulated", "clicks")
"""Cases that a seed makes anew, so that methods are compared pair by pair of seeds."""


def key_of(record: Record) -> Key:
    return record["case"], record["method"], record["seed"]


def read(file: Path) -> list[Record]:
    """Read the records of a file, none if there is no such file."""
    records, lines = [], file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            records.append(found | {"metrics": dict(found["metrics"]), **dict(zip(KEY, key_of(found), strict=True))})
        except (ValueError, KeyError, TypeError) as error:
            raise unskew.DataError(f"{file}, line {number} is no record of a fit ({error!r}); remove it.") from error
    return records


def record(file: Path, new: Record) -> None:
    """Put a record in place of the one with its key, at the end."""
    lines = [json.dumps(each) for each in read(file) if key_of(each) != key_of(new)]
    write(file, "\n".join([*lines, json.dumps(new)]) + "\n")


def write(file: Path, text: str) -> None:
    """Write a file that is whole at any time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text.encode())


def values(records: Iterable[Record], case: str, method: str, metric: str) -> dict[int, float]:
    """Return a metric by seed."""
    mine = [r for r in records if (r["case"], r["method"]) == (case, method)]
    return {r["seed"]: float(r["metrics"][metric]) for r in mine if metric in r["metrics"]}


def shown(found: Iterable[float]) -> str:
    """Show mean and standard deviation over seeds as 0.1646(6), the deviation in units of the last digit."""
    each = list(found)
    if not each:
        return ""
    mean = float(np.mean(each))
    decimals = max(0, 4 - math.ceil(math.log10(max(abs(mean), 1))))
    spread = f"({np.std(each, ddof=1) * 10**decimals:.0f})" if len(each) > 1 else ""
    return f"{mean:.{decimals}f}{spread}"


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Make a Markdown table; the first row holds the names of columns."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def overview(records: Sequence[Record], metrics: Sequence[str] = ("mse", "auc", "ndcg@10")) -> str:
    """Make a table of mean(sd) over seeds: a row a method, a column a case."""
    cases, methods = (list(dict.fromkeys(r[name] for r in records if "auc" in r["metrics"])) for name in KEY[:2])
    rows = [[" / ".join(metrics), *cases]]
    for method in methods:
        found = [[shown(values(records, case, method, metric).values()) for metric in metrics] for case in cases]
        rows.append([f"`{method}`", *(" / ".join(each) if all(each) else "" for each in found)])
    return grid(rows)


def figures(records: Sequence[Record], group: str = "") -> str:
    """Make a table of one group of metrics, or of those without a group: mean(sd) over seeds."""
    names = dict.fromkeys(m for r in records for m in r["metrics"] if (m.split(": ")[0] if ": " in m else "") == group)
    rows = [["case", "method", "seeds", *(name.removeprefix(f"{group}: ") for name in names)]]
    for case, method in dict.fromkeys((r["case"], r["method"]) for r in records):
        found = [values(records, case, method, name).values() for name in names]
        if n := max(map(len, found), default=0):
            rows.append([case, f"`{method}`", str(n), *map(shown, found)])
    return grid(rows)


class Comparison(NamedTuple):
    """The default against another method: the difference of means, positive if the default is better, and p."""

    case: str
    metric: str
    other: str
    kind: str
    gain: float
    p: float


def compare(records: Sequence[Record]) -> list[Comparison]:
    """Compare the default with naive training and with the best (by its mean on the test) of the paper and of peers.

    t-tests: paired by seed where a seed makes the case anew, else Welch's; p is corrected for all of them (Holm).
    """
    known, found = {PLAIN, OURS, "bayes", *PAPER}, []
    peers = [m for m in dict.fromkeys(r["method"] for r in records) if m not in known]
    for case, metric in dict.fromkeys((r["case"], metric) for r in records for metric in COMPARED):
        sign = -1 if metric in LOWER_IS_BETTER else 1
        ours = values(records, case, OURS, metric)
        for kind, methods in {"naive": [PLAIN], "paper": PAPER, "peer": peers}.items():
            others = {m: v for m in methods if len(v := values(records, case, m, metric)) > 1}
            if len(ours) < 2 or not others:
                continue
            best = max(others, key=lambda m: sign * np.mean(list(others[m].values())))
            gain = sign * (np.mean(list(ours.values())) - np.mean(list(others[best].values())))
            p = p_value(ours, others[best], case.startswith(VARIED))
            found.append(Comparison(case, metric, best, kind, float(gain), p))
    corrected = standings.holm([each.p for each in found])
    return [each._replace(p=p) for each, p in zip(found, corrected, strict=True)]


def p_value(ours: dict[int, float], other: dict[int, float], paired: bool) -> float:
    """Return the p-value of a difference over seeds; 1 of fewer than two."""
    seeds = sorted(ours.keys() & other.keys())
    a, b = ([each[s] for s in seeds] if paired else list(each.values()) for each in (ours, other))
    if len(a) < 2:
        return 1.0
    return standings.p_value(a, b) if paired else float(ttest_ind(a, b, equal_var=False).pvalue)


def comparisons(records: Sequence[Record], metrics: Sequence[str] = COMPARED, cases: tuple[str, ...] = ("",)) -> str:
    """Make a table of how far the default is ahead of others, with p-values corrected for all metrics and cases."""
    kinds, everything = ("naive", "paper", "peer"), compare(records)
    found = [each for each in everything if each.metric in metrics and each.case.startswith(cases)]
    if not found:
        return ""
    rows = [["case", "metric", "ahead of `naive`", "of the best of the paper", "of the best peer"]]
    for case, metric in dict.fromkeys((each.case, each.metric) for each in found):
        mine = {each.kind: each for each in found if (each.case, each.metric) == (case, metric)}
        rows.append([case, metric, *(cell(mine[kind]) if kind in mine else "" for kind in kinds)])
    return grid(rows)


def cell(each: Comparison) -> str:
    name = "" if each.kind == "naive" else f" `{each.other}`"
    return f"{each.gain:+.4f} ({'p < .001' if each.p < 0.001 else f'p {each.p:.3f}'}){name}"


def behind(records: Sequence[Record]) -> str:
    """Make a table of where another method has a better mean than the default, the best one first."""
    rows = [["case", "metric", f"`{OURS}`", "better"]]
    for case, metric in dict.fromkeys((r["case"], metric) for r in records for metric in COMPARED):
        sign = -1 if metric in LOWER_IS_BETTER else 1
        found = {m: v for m in {r["method"] for r in records} if (v := values(records, case, m, metric).values())}
        level = {method: sign * float(np.mean(list(each))) for method, each in found.items()}
        better = sorted((m for m in level if level[m] > level.get(OURS, math.inf)), key=level.__getitem__, reverse=True)
        if better:
            names = ", ".join(f"`{method}` {shown(found[method])}" for method in better)
            rows.append([case, metric, shown(found[OURS]), names])
    return grid(rows)


def gathered(folder: Path, experiment: str) -> list[Record]:
    """Read the records of an experiment; those of peers and of ours are read together, ours first."""
    names = ("quality", "peers") if experiment in ("quality", "peers") else (experiment,)
    found = [each for name in names for each in read(folder / f"{name}.jsonl")]
    return [each for each in found if each["method"] not in EARLIER]


def report(everything: Sequence[Record], cases: Sequence[str], methods: Sequence[str]) -> str:
    """Make all tables of an experiment: means by data set, mean(sd) of everything, and the default against others."""
    everything = [each for each in everything if each["case"] in cases]
    records = [each for each in everything if each["method"] in methods]
    if not records:
        raise unskew.DataError("There are no records of this; `python -m benchmarks run` makes them.")
    sets = dict.fromkeys(each["case"].split()[0].rstrip(",") for each in records if "auc" in each["metrics"])
    found = [overview([each for each in records if each["case"].startswith(name)]) for name in sets]
    groups = dict.fromkeys(m.split(": ")[0] if ": " in m else "" for each in records for m in each["metrics"])
    found += [figures(records, group) for group in groups]
    return "\n\n".join([*found, comparisons(everything)]).strip()


def with_tables(page: str, folder: Path) -> str:
    """Return a page with what stands between `<!-- table EXPERIMENT KIND NAME -->` and `<!-- end -->` made anew.

    KIND is overview (NAME: how cases begin, and metrics after a colon), figures (NAME: a group of metrics),
    comparisons (NAME: a metric, and how cases begin after a colon) or behind (NAME: how cases begin). Below stand
    the number of records and their dates.
    """

    def made(place: re.Match[str]) -> str:
        kind, (name, _, rest) = place[3], place[4].partition(": ")
        records = gathered(folder, place[2])
        if kind in ("overview", "behind"):
            records = [each for each in records if each["case"].startswith(name)]
        if kind == "overview":
            table = overview(records, rest.split(", ")) if rest else overview(records)
        elif kind == "figures":
            records = [each for each in records if any(metric.startswith(f"{name}: ") for metric in each["metrics"])]
            table = figures(records, name)
        else:
            table = behind(records) if kind == "behind" else comparisons(records, [name], tuple(rest.split(", ")))
        below = "Nothing is recorded." if len(table.splitlines()) < 3 else f"{table}\n\n{origin(records)}"
        return f"{place[1]}\n{below}\n\n{place[5]}"

    return PLACE.sub(made, page)


def origin(records: Sequence[Record]) -> str:
    """Tell how many records there are, and when they were made."""
    dates = sorted({record["date"] for record in records if "date" in record})
    return f"*{len(records)} fits, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.*" if dates else ""
