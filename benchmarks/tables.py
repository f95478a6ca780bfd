"""Keep what was measured as JSON lines, and make tables of it: selections of records by columns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
OURS = "dce-bayes"
KINDS = {"naive": ("naive",), "paper": ("dr-jl", "dce-dr", "dce-tdr"), "peer": ()}  # peers: all but these and ours
EARLIER = ("naive-utility",)  # of version 0.1.0: its records stay, and are not shown
COMPARED = ("auc", "ndcg@5", "ndcg@10", "mse", "choice: liked in ten")
LOWER_IS_BETTER = ("mse",)
PLACE = re.compile(r"(<!-- table (\w+) (\w+) ?([^:]*?)(?:: (.*?))? -->\n).*?(<!-- end -->)", re.DOTALL)
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


def gathered(folder: Path, experiment: str) -> list[Record]:
    """Read the records of an experiment; those of peers and of ours are read together, ours first."""
    names = ("quality", "peers") if experiment in ("quality", "peers") else (experiment,)
    found = [each for name in names for each in read(folder / f"{name}.jsonl")]
    return [each for each in found if each["method"] not in EARLIER]


def values(records: Iterable[Record], case: str, method: str, metric: str) -> dict[int, float]:
    """Return a metric by seed."""
    mine = [r for r in records if (r["case"], r["method"]) == (case, method)]
    return {r["seed"]: float(r["metrics"][metric]) for r in mine if metric in r["metrics"]}


def shown(found: dict[int, float]) -> str:
    """Show mean and standard deviation over seeds as 0.1646(6), the deviation in units of the last digit."""
    each = list(found.values())
    if not each:
        return ""
    mean = float(np.mean(each))
    decimals = max(0, 4 - math.ceil(math.log10(max(abs(mean), 1))))
    spread = f"({np.std(each, ddof=1) * 10**decimals:.0f})" if len(each) > 1 else ""
    return f"{mean:.{decimals}f}{spread}"


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Make a Markdown table; the first row holds the names of columns. Nothing becomes of that row alone."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if len(rows) > 1 else ""


def group_of(metric: str) -> str:
    return metric.split(": ")[0] if ": " in metric else ""


def overview(records: Sequence[Record], metrics: str | None = None) -> str:
    """Make a table of mean(sd) over seeds: a row a method, a column a case."""
    names = (metrics or "mse, auc, ndcg@10").split(", ")
    cases, methods = (list(dict.fromkeys(r[name] for r in records if "auc" in r["metrics"])) for name in KEY[:2])
    rows = [[" / ".join(names), *cases]]
    for method in methods:
        found = [[shown(values(records, case, method, name)) for name in names] for case in cases]
        rows.append([f"`{method}`", *(" / ".join(each) if all(each) else "" for each in found)])
    return grid(rows)


def figures(records: Sequence[Record], group: str = "") -> str:
    """Make a table of one group of metrics, or of those without a group: mean(sd) over seeds."""
    names = dict.fromkeys(m for r in records for m in r["metrics"] if group_of(m) == group)
    rows = [["case", "method", "seeds", *(name.removeprefix(f"{group}: ") for name in names)]]
    for case, method in dict.fromkeys((r["case"], r["method"]) for r in records):
        found = [values(records, case, method, name) for name in names]
        if n := max(map(len, found), default=0):
            rows.append([case, f"`{method}`", str(n), *map(shown, found)])
    return grid(rows)


class Comparison(NamedTuple):
    """The default against the best of a kind: the difference of means, positive if the default is better, and p."""

    case: str
    metric: str
    kind: str
    other: str
    gain: float
    p: float


def by_method(records: Sequence[Record]) -> Iterator[tuple[str, str, dict[str, dict[int, float]], dict[str, float]]]:
    """Yield for case and metric what each method has by seed, and the means, which are better the higher they are."""
    for case, metric in dict.fromkeys((r["case"], metric) for r in records for metric in COMPARED):
        methods, sign = dict.fromkeys(r["method"] for r in records), -1 if metric in LOWER_IS_BETTER else 1
        held = {m: own for m in methods if (own := values(records, case, m, metric))}
        yield case, metric, held, {m: sign * float(np.mean([*own.values()])) for m, own in held.items()}


def compare(records: Sequence[Record]) -> list[Comparison]:
    """Compare the default with naive training and with the best (by its mean on the test) of the paper and of peers.

    t-tests: paired by seed where a seed makes the case anew, else Welch's; p is corrected for all of them (Holm).
    """
    known, found = {OURS, "bayes", *KINDS["naive"], *KINDS["paper"]}, []
    for case, metric, held, level in by_method(records):
        several = [method for method, own in held.items() if len(own) > 1]
        for kind, own in KINDS.items() if OURS in several else ():
            if others := [m for m in several if m in own or (not own and m not in known)]:
                best = max(others, key=level.__getitem__)
                a, b = ([*held[method].values()] for method in (OURS, best))
                if case.startswith(VARIED):
                    both = sorted(held[OURS].keys() & held[best].keys())
                    a, b = ([held[method][seed] for seed in both] for method in (OURS, best))
                    p = standings.p_value(a, b) if len(both) > 1 else 1.0
                else:
                    p = float(ttest_ind(a, b, equal_var=False).pvalue)
                found.append(Comparison(case, metric, kind, best, level[OURS] - level[best], p))
    corrected = standings.holm([each.p for each in found])
    return [each._replace(p=p) for each, p in zip(found, corrected, strict=True)]


def comparisons(records: Sequence[Record], metrics: Sequence[str] = COMPARED, cases: str = "") -> str:
    """Make a table of how far the default is ahead of others, with p-values corrected for all metrics and cases."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for case, metric, kind, other, gain, p in compare(records):
        if metric in metrics and case.startswith(tuple(cases.split(", "))):
            name = "" if kind == "naive" else f" `{other}`"
            cell = f"{gain:+.4f} ({'p < .001' if p < 0.001 else f'p {p:.3f}'}){name}"
            rows.setdefault((case, metric), {})[kind] = cell
    head = ["case", "metric", "ahead of `naive`", "of the best of the paper", "of the best peer"]
    return grid([head, *([*place, *(own.get(kind, "") for kind in KINDS)] for place, own in rows.items())])


def behind(records: Sequence[Record]) -> str:
    """Make a table of where another method has a better mean than the default, the best one first."""
    rows = [["case", "metric", f"`{OURS}`", "better"]]
    for case, metric, held, level in by_method(records):
        better = [m for m in sorted(level, key=level.__getitem__, reverse=True) if level[m] > level.get(OURS, math.inf)]
        if better:
            rows.append([case, metric, shown(held[OURS]), ", ".join(f"`{m}` {shown(held[m])}" for m in better)])
    return grid(rows)


def report(everything: Sequence[Record], cases: Sequence[str], methods: Sequence[str]) -> str:
    """Make all tables of an experiment: means by data set, mean(sd) of everything, and the default against others."""
    everything = [each for each in everything if each["case"] in cases]
    records = [each for each in everything if each["method"] in methods]
    if not records:
        raise unskew.DataError("There are no records of this; `python -m benchmarks run` makes them.")
    sets = dict.fromkeys(each["case"].split()[0].rstrip(",") for each in records if "auc" in each["metrics"])
    found = [overview([each for each in records if each["case"].startswith(name)]) for name in sets]
    groups = dict.fromkeys(group_of(m) for r in records for m in r["metrics"])
    found += [f"{group}\n\n{figures(records, group)}".strip() for group in groups]
    return "\n\n".join([*found, comparisons(everything)]).strip()


def with_tables(page: str, folder: Path) -> str:
    """Return a page with what stands between `<!-- table EXPERIMENT KIND NAME -->` and `<!-- end -->` made anew.

    KIND is overview (NAME: how cases begin, and metrics after a colon), figures (NAME: a group of metrics),
    comparisons (NAME: a metric, and how cases begin after a colon) or behind (NAME: how cases begin). Below stand
    the number of records and their dates.
    """

    def made(place: re.Match[str]) -> str:
        opening, experiment, kind, name, rest, end = place.groups()
        records = gathered(folder, experiment)
        of_case = [each for each in records if each["case"].startswith(name)]
        of_group = [each for each in records if name in map(group_of, each["metrics"])]
        kinds: dict[str, tuple[Callable[..., str], list[Record], tuple[Any, ...]]] = {
            "overview": (overview, of_case, (rest,)),
            "behind": (behind, of_case, ()),
            "figures": (figures, of_group, (name,)),
            "comparisons": (comparisons, records, ((name,), rest)),
        }
        make, records, asked = kinds[kind]
        table = make(records, *asked)
        dates = sorted({record["date"] for record in records if "date" in record})
        origin = f"\n\n*{len(records)} fits, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.*" if dates else ""
        return f"{opening}\n{table + origin if table else 'Nothing is recorded.'}\n\n{end}"

    return PLACE.sub(made, page)
