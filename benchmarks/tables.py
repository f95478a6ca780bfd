"""Keep records of fits as JSON lines and make tables of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import unskew

Record = dict[str, Any]
KEY = ("label", "case", "method", "seed")


class Summary(NamedTuple):
    """Mean, standard deviation and standard error over seeds; NaN where there are too few of them."""

    mean: float
    sd: float
    error: float
    n: int

    def __str__(self) -> str:
        spread = "" if math.isnan(self.sd) else f" ± {shown(self.sd, self.mean)} ({shown(self.error, self.mean)})"
        return f"{shown(self.mean, self.mean)}{spread}"


def key_of(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in KEY)


def read(file: Path) -> list[Record]:
    """Read the records of a file, none if there is no such file."""
    records, lines = [], file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            records.append(record | {"metrics": dict(record["metrics"])} | dict(zip(KEY, key_of(record), strict=True)))
        except (ValueError, KeyError, TypeError) as error:
            raise unskew.DataError(f"{file}, line {number} is no record of a fit ({error!r}); remove it.") from error
    return records


def append(file: Path, record: Record) -> None:
    """Add a record, on the disk before the next fit begins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(record) + "\n")
        opened.flush()
        os.fsync(opened.fileno())


def summary(values: Sequence[float]) -> Summary:
    n = len(values)
    sd = float(np.std(values, ddof=1)) if n > 1 else math.nan
    return Summary(float(np.mean(values)) if n else math.nan, sd, sd / math.sqrt(max(n, 1)), n)


def z_of(first: Summary, second: Summary) -> float:
    """(second - first) / sqrt(se^2 + se^2): seeds of two labels are taken as independent."""
    error = math.hypot(first.error, second.error)
    return (second.mean - first.mean) / error if error > 0 else math.nan


def table(records: Sequence[Record], labels: Sequence[str] | None = None) -> str:
    """Make a Markdown table: a row for each case, method and label, `mean ± sd (standard error)` over seeds.

    Where exactly two labels have a method, a row of z says by how many standard errors the second differs.
    """
    if missing := set(labels or ()) - {record["label"] for record in records}:
        raise unskew.ParameterError(f"There are no records of the label {sorted(missing)[0]!r}.")
    if not records:
        raise unskew.DataError("There are no records; `python -m benchmarks run` makes them.")
    labels = list(labels or dict.fromkeys(record["label"] for record in records))
    metrics = list(dict.fromkeys(name for record in records for name in record["metrics"]))
    rows = [["case", "method", "label", "seeds", *metrics], ["---"] * (4 + len(metrics))]
    for case, method in dict.fromkeys((record["case"], record["method"]) for record in records):
        found = {}
        for label in labels:
            mine = [r["metrics"] for r in records if key_of(r)[:3] == (label, case, method)]
            if mine:
                found[label] = {name: summary([m[name] for m in mine if name in m]) for name in metrics}
                rows.append([case, method, label, str(len(mine)), *map(str, found[label].values())])
        if len(found) == len(labels) == 2:
            first, second = found.values()
            rows.append([case, method, "z", "", *(f"{z_of(first[name], second[name]):+.2f}" for name in metrics)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def shown(value: float, like: float) -> str:
    """Four decimals for what lies between -1 and 1, fewer for what is larger."""
    digits = 0 if math.isnan(like) else math.ceil(math.log10(max(abs(like), 1)))
    return f"{value:.{max(0, 4 - digits)}f}"
