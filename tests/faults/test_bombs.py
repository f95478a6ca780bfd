"""Files that are small on the disk and vast in memory are refused in one sentence and in bounded memory."""

from __future__ import annotations

import gzip
import math
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.data import read, room
from unskew.data.parquet import parquet_batches
from unskew.data.read import read_frame, read_log
from unskew.data.tablefile import TableFile, present_columns, table_file
from unskew.errors import DataError, UnskewError

GIGABYTE = 1 << 30
HEAD = b"user_id,item_id,rating\n"


def refused(read, path):
    with pytest.raises(UnskewError) as error:
        read(path)
    assert "\n" not in str(error.value)
    print(error.value)


def sparse(path, *parts):
    """A file of a gigabyte of zeros after and before some bytes; it takes no room on the disk."""
    with path.open("wb") as file:
        for part in parts:
            file.seek(part, os.SEEK_CUR) if isinstance(part, int) else file.write(part)
    return path


@pytest.mark.parametrize("read", [read_log, read_frame])
@pytest.mark.parametrize(
    "parts",
    [
        (GIGABYTE, b"\n"),
        (HEAD, GIGABYTE, b"\n"),
        (HEAD + b"u,1,", GIGABYTE, b"\n"),
        (HEAD + b'"', GIGABYTE, b'",1,1\n'),
    ],
    ids=["header", "row", "last cell", "quoted cell"],
)
def test_a_line_of_a_gigabyte_is_refused_in_little_memory(read, parts, peak, tmp_path):
    path = sparse(tmp_path / "log.csv", *parts)
    assert peak(partial(refused, read, path)) < 150


def test_a_header_of_a_megabyte_is_refused_and_not_cut(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"a," * (1 << 19) + b"user_id,item_id,rating\n")
    with pytest.raises(DataError, match=r"the first line of log.csv has 1,048,576 bytes or more"):
        read_log(path)


def test_finding_columns_among_very_many_takes_no_time_that_grows_with_their_square(contained, tmp_path):
    names = [f"column {number}" for number in range(200_000)]
    source = TableFile(tmp_path / "log.csv", ".csv", ",")
    contained(lambda: present_columns(None, names, source), seconds=10)


@pytest.mark.parametrize("read", [read_log, read_frame])
@pytest.mark.parametrize("head", [b"", HEAD, HEAD + b'"'], ids=["header", "row", "quoted cell"])
def test_a_packed_line_of_a_gigabyte_is_refused_in_little_memory(read, head, peak, tmp_path):
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(head) + gzip.compress(bytes(1 << 20), 1) * 1024)
    assert peak(partial(refused, read, path)) < 150


ROWS = 300_000
SAME, OTHER = np.zeros(ROWS, np.int32), np.arange(ROWS, dtype=np.int32) % 2
COLUMNS = {
    "user_id": (pa.array(["u", "v"]), SAME),
    "item_id": (pa.array([1, 2]), SAME),
    "rating": (pa.array([1.0, 5.0]), OTHER),
}


def bomb(path, **columns):
    """Parquet of some kilobytes: each column has its distinct values, and which of them stands where."""
    arrays = [pa.DictionaryArray.from_arrays(pa.array(places), values) for values, places in columns.values()]
    pq.write_table(pa.table(dict(zip(columns, arrays, strict=True))), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 20
    return path


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["x" * 100_000]),
        pa.array([b"x" * 100_000]),
        pa.array(["x" * (4 << 20)]),
        pa.array([["x" * 100_000]]),
    ],
    ids=["30 GB of text", "bytes", "values of 4 MB", "lists"],
)
def test_a_value_that_stands_once_in_the_file_and_in_many_rows_is_refused_in_little_memory(values, peak, tmp_path):
    if pa.types.is_nested(values.type):
        table = pa.table({"user_id": pa.concat_arrays([values] * 100), "item_id": range(100), "rating": range(100)})
        pq.write_table(table, path := tmp_path / "log.parquet", compression="zstd")
    else:
        path = bomb(tmp_path / "log.parquet", **COLUMNS | {"user_id": (values, SAME)})
    assert peak(partial(refused, read_log, path)) < 400
    assert peak(partial(refused, read_frame, path)) < 400


def test_values_of_one_length_are_read_a_few_at_a_time(tmp_path):
    wide = pa.array([b"x" * 10_000] * 300, pa.binary(10_000))
    pq.write_table(pa.table({"user_id": wide}), path := tmp_path / "log.parquet", compression="zstd")
    sizes = [len(batch) for batch in parquet_batches(table_file(path, None), None, most_rows=1000, most_bytes=500_000)]
    assert sum(sizes) == 300
    assert max(sizes) <= 51


def test_more_rows_than_memory_can_hold_are_refused_before_they_are_read(peak, tmp_path, monkeypatch):
    path = bomb(tmp_path / "log.parquet", **COLUMNS)
    monkeypatch.setattr(read, "free_memory", lambda: 9e6)
    with pytest.raises(DataError, match=r"has 300,000 rows or more, which needs 0.0 GB of memory where 0.0 are free"):
        read_log(path)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(HEAD) + gzip.compress(b"u,1,1\n" * 100_000, 1) * 4)
    with pytest.raises(DataError, match=r"has \d\d\d,\d\d\d rows or more, .*: pass a folder as cache"):
        read_log(tmp_path / "log.csv.gz")
    for name in ("log.parquet", "log.csv.gz"):
        with pytest.raises(DataError, match=f"{name} is no small frame, which needs"):
            read_frame(tmp_path / name)


def test_free_memory_is_what_system_and_container_leave(tmp_path, monkeypatch):
    assert room.free_memory() > 1e6
    for name in ("_SYSTEM", "_CONTAINER"):
        monkeypatch.setattr(room, name, tmp_path / name)
    assert room.free_memory() == math.inf
    (tmp_path / "_SYSTEM").write_text("MemTotal: 9 kB\nMemAvailable:    7 kB\n")
    (tmp_path / "_CONTAINER").write_text("max\n")
    assert room.free_memory() == 7 * 1024
    (tmp_path / "_CONTAINER").write_text("5000\n")
    assert room.free_memory() == 5000


def test_saving_a_model_takes_no_memory_that_grows_with_its_log(peak, tmp_path):
    few, many = (np.arange(count) for count in (100, 1_600_000))
    small, large = (unskew.RatingLog.from_arrays(places // 40, places % 40, 1 + places % 5) for places in (few, many))
    model = unskew.Naive(net=unskew.MF(n_factors=1)).fit(small, training=unskew.Training(max_epochs=1, progress=False))
    assert peak(lambda: replace(model, log=large).save(tmp_path / "model")) < 19
    assert (tmp_path / "model" / "log.arrow").stat().st_size > 19e6
