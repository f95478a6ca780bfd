"""How long a log takes to load and how much memory it needs: `python benchmarks/load.py [rows]`.

Writes ten million distinct pairs of 500,000 users and 50,000 items as Parquet and CSV, with integer and with
text ids, and loads each in a fresh interpreter. "Rest" is what the log's columns hold; "peak" is the most
resident memory that the interpreter ever had, less what it had before loading.
"""

from __future__ import annotations

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


def memory(field: str) -> int:
    """A field of this process's memory account, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


def load(path: str) -> None:
    before, start = memory("VmRSS"), time.perf_counter()
    log = read_log(path)
    seconds, peak = time.perf_counter() - start, memory("VmHWM") - before
    rows = len(log)
    columns = log.users.nbytes + log.items.nbytes + log.ratings.nbytes
    ids = log.user_ids.arrow.nbytes + log.item_ids.arrow.nbytes
    print(
        f"{seconds:8.1f} {columns / rows:14.1f} {ids / 1e6:16.1f} {peak / 1e6:10.0f} {peak / rows:12.1f}",
        flush=True,
    )


def main(rows: int) -> None:
    print(f"{rows:,} rows, {N_USERS:,} users, {N_ITEMS:,} items")
    print("format    ids       seconds  bytes/row rest  vocabularies MB    peak MB  peak B/row")
    with tempfile.TemporaryDirectory() as folder:
        for text in (False, True):
            for ending in (".parquet", ".csv"):
                path = Path(folder) / f"log{ending}"
                write(path, rows, text)
                print(f"{ending[1:]:9} {'text' if text else 'integers':8}", end="", flush=True)
                subprocess.run([sys.executable, __file__, "load", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
