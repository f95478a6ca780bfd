"""How long a log takes to load and how much memory it needs: `python benchmarks/load.py [rows] [folder]`.

Writes ten million distinct pairs of 500,000 users and 50,000 items as Parquet and CSV, with integer and with
text ids, and loads each in fresh interpreters: into memory, into a cache, and from the cache. "Anonymous" memory
is what is the process's own, unlike pages of files that are mapped into it (RssAnon of Linux): "peak" is the most
that was seen in samples every 2 ms, "rest" what the log still holds, both less what the interpreter had before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from unskew.data.read import read_log

N_USERS, N_ITEMS = 500_000, 50_000
STEP = 1_000_000  # rows written at once


def chunk(start: int, stop: int, text: bool) -> pa.Table:
    """Rows start to stop of a fixed list: places times a unit modulo |U| |I|, so no pair comes twice."""
    places = np.arange(start, stop, dtype=np.int64)
    pairs = places * 15_450_849_719 % (N_USERS * N_ITEMS)
    users, items = pairs // N_ITEMS, pairs % N_ITEMS
    columns = {
        "user_id": pa.array(users),
        "item_id": pa.array(items),
        "rating": pa.array(1 + places * 7919 % 5),
    }
    if text:
        for name in ("user_id", "item_id"):
            columns[name] = pa.array(np.char.add(f"{name[:4]}-", columns[name].to_numpy().astype(str)))
    return pa.table(columns)


def write(path: Path, rows: int, text: bool) -> None:
    schema = chunk(0, 1, text).schema
    writer = pq.ParquetWriter if path.suffix == ".parquet" else pcsv.CSVWriter
    with writer(path, schema) as file:
        for start in range(0, rows, STEP):
            file.write_table(chunk(start, min(start + STEP, rows), text))


def anonymous(process: int | str = "self") -> int:
    """The anonymous memory of a process in bytes; 0 when it has ended."""
    status = Path(f"/proc/{process}/status").read_text().partition("RssAnon:")[2]
    return 1024 * int(status.split()[0]) if status else 0


def load(path: str, cache: str | None) -> None:
    before, start, computing = anonymous(), time.perf_counter(), time.process_time()
    log = read_log(path, cache=cache)
    seconds, computing = time.perf_counter() - start, time.process_time() - computing
    columns = log.users.nbytes + log.items.nbytes + log.ratings.nbytes
    ids = log.user_ids.arrow.nbytes + log.item_ids.arrow.nbytes
    figures = {"before": before, "seconds": seconds, "computing": computing, "rest": anonymous() - before}
    print(json.dumps(figures | {"bytes_a_row": columns / len(log), "ids": ids}))


def measured(*words: str) -> dict[str, float]:
    """What a fresh interpreter says of its load, and the most anonymous memory it was seen with."""
    peak = 0
    with subprocess.Popen([sys.executable, __file__, "load", *words], stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
            time.sleep(0.002)
        said = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(process.returncode)
    figures: dict[str, float] = json.loads(said)
    return figures | {"peak": peak - figures["before"]}


def line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main(rows: int, where: str | None) -> None:
    print(f"{rows:,} rows, {N_USERS:,} users, {N_ITEMS:,} items\n")
    columns = ("format", "ids", "", "seconds", "of computing", "anonymous MB, peak", "rest", "columns, bytes a row")
    line(*columns, "vocabularies, MB")
    line(*["---"] * 9)
    with tempfile.TemporaryDirectory(dir=where) as folder:
        cache = str(Path(folder) / "cache")
        for ids in ("integers", "text"):
            for ending in ("parquet", "csv"):
                path = Path(folder) / f"{ids}.{ending}"
                write(path, rows, ids == "text")
                for way, words in {"in memory": (), "cache built": (cache,), "cache opened": (cache,)}.items():
                    found = measured(str(path), *words)
                    seconds = (f"{found[name]:.1f}" for name in ("seconds", "computing"))
                    memory = (f"{found[name] / 1e6:.0f}" for name in ("peak", "rest"))
                    sizes = f"{found['bytes_a_row']:.1f}", f"{found['ids'] / 1e6:.1f}"
                    line(ending, ids, way, *seconds, *memory, *sizes)
                path.unlink()


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2], next(iter(sys.argv[3:]), None))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000, next(iter(sys.argv[2:]), None))
