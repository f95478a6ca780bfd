"""Whatever bytes stand in a log's file, it is read or refused in one sentence: no other error, no crash, no hang."""

from __future__ import annotations

import gzip
import io
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data.read import read_frame, read_log

many = settings.get_profile("faults")
COLUMNS = ["user_id", "item_id", "rating"]
CELLS = [
    *('"', '""', '"a,b"', '"open', "\r", "\n", "\r\n", "\0", "\t", ";", "|", "", " ", "\ufeff", "\u2028", "é"),
    *("nan", "NaN", "inf", "-inf", "1e999", "-1e999", "1e-999", "0x1p3", "1_000", "１", "1,5", "True", "none", "NULL"),
    *(str(2**63), str(-(2**63)), str(2**64), "9" * 400, "0.1e-400", "00", "-0", "+1", "1.", ".5", "1e", "--1"),
    *("1", "2", "3", "4", "5", "u", "user_id", "x" * 300, "=cmd()", "<script>", "../../etc", "%s%n", "\x1b[0m"),
]  # fmt: skip
RAW = [b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"\x00\x00", b"\x1f\x8b", b"PAR1", b"\r\r\n", b'"' * 9]
GOOD = b"user_id,item_id,rating\n" + b"".join(b"u%d,%d,%d\n" % (n % 7, n // 3, 1 + n % 5) for n in range(30))


cell = st.sampled_from(CELLS).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.sampled_from(RAW)
line = st.lists(cell, max_size=5)
text_of_cells = st.tuples(
    st.sampled_from(
        [b"user_id,item_id,rating", b"user_id\titem_id\trating", b"user_id:token,item_id:token,rating:float"]
    )
    | line.map(b",".join),
    st.sampled_from([b"\n", b"\r\n", b"\r", b""]),
    st.lists(line, max_size=8),
).map(lambda parts: parts[1].join([parts[0], *map(b",".join, parts[2])]) + parts[1])
edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), cell), min_size=1, max_size=3)


def edited(original: bytes, changes) -> bytes:
    """Some stretches of the bytes replaced by others."""
    for place, length, new in changes:
        place %= len(original) + 1
        original = original[:place] + new + original[place + length :]
    return original


def retold(changes) -> bytes:
    """The good log with other contents of some of its cells."""
    rows = [row.split(b",") for row in GOOD.splitlines()]
    for row, column, new in changes:
        rows[1 + row][column] = new
    return b"".join(b",".join(row) + b"\n" for row in rows)


cells = st.lists(st.tuples(st.integers(0, 29), st.sampled_from([0, 1, 0, 1, 2]), cell), min_size=1, max_size=2)
edited_texts = edits.map(lambda changes: edited(GOOD, changes)) | cells.map(retold)
contents = st.binary(max_size=200) | text_of_cells | edited_texts
log_settings = st.just({}) | st.fixed_dictionaries(
    {},
    optional={
        "positive": st.sampled_from([None, 3, -1e308, 1e308, 0]),
        "rating_scale": st.sampled_from([(1, 5), (0, 1e308), (-1e308, 1e308), (0, 1e-300), (5, 1)]),
        "duplicates": st.sampled_from(["error", "last", "mean"]),
        "delimiter": st.sampled_from([",", "\t", ";", " ", "\0", "a", "\x7f"]),
        "user_ids": st.just(["u0", "u1"]),
    },
)


def test_any_text_is_read_or_refused(contained, in_our_words, tmp_path):
    @many
    @given(contents, st.sampled_from([*[".csv"] * 4, ".tsv", ".txt", ".inter", ".csv.gz"]), log_settings, st.booleans())
    def case(content, ending, asked, cut):
        path = tmp_path / f"log{ending}"
        path.write_bytes(gzip.compress(content)[: -9 if cut else None] if ending.endswith("gz") else content)
        in_our_words(read_log, path, **asked)
        in_our_words(read_frame, path)

    contained(case, at_least=0.02)


VALUES = {
    pa.null(): [None],
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.uint64(): [2**64 - 1, 0],
    pa.int64(): [-(2**63), 2**63 - 1, 1],
    pa.float16(): [1.0, float("nan")],
    pa.float32(): [float("inf"), 3.0],
    pa.float64(): [float("nan"), -0.0, 1e308, 3.0],
    pa.decimal128(38, 2): [Decimal("1.25"), Decimal("99999999.99")],
    pa.string(): ["", "1", "ü", "x" * 2000],
    pa.large_string(): ["a", "7"],
    pa.binary(): [b"\xff", b"1"],
    pa.binary(2): [b"ab", b"\xff\xff"],
    pa.date32(): [date(1, 1, 1), date(9999, 12, 31)],
    pa.timestamp("ns"): [datetime(1970, 1, 1), datetime(2200, 1, 1)],
    pa.duration("us"): [0, 2**62],
    pa.time32("s"): [0, 86399],
    pa.list_(pa.int32()): [[], [1, 2]],
    pa.struct([("a", pa.int32())]): [{"a": 1}, {"a": None}],
    pa.map_(pa.string(), pa.int32()): [[("k", 1)], []],
    pa.dictionary(pa.int32(), pa.string()): ["red", "blue"],
}


@st.composite
def columns(draw, rows):
    kind = draw(st.sampled_from(list(VALUES)))
    of = draw(st.lists(st.sampled_from([*VALUES[kind], None]), min_size=rows, max_size=rows))
    return pa.array(of, kind)


@st.composite
def tables(draw):
    """Any columns where a log has three of its own."""
    rows = draw(st.integers(0, 12))
    names = draw(st.just(COLUMNS) | st.lists(st.sampled_from([*COLUMNS, *COLUMNS, "", "é", "user_id "]), max_size=5))
    own = {
        "user_id": pa.array([f"u{n % 3}" for n in range(rows)]),
        "item_id": pa.array(range(rows)),
        "rating": pa.array([n % 5 + 1 for n in range(rows)]),
    }
    usual = st.just(None)
    filled = [own.get(name) if draw(st.booleans()) else draw(columns(rows) | usual) for name in names]
    return pa.Table.from_arrays([one if one is not None else pa.array(range(rows)) for one in filled], names=names)


def test_parquet_of_any_types_is_read_or_refused(contained, in_our_words, tmp_path):
    @many
    @given(tables(), log_settings, st.sampled_from([None, 1, 3]), st.sampled_from(["snappy", "zstd", "none"]))
    def case(table, asked, group, compression):
        path = tmp_path / "log.parquet"
        pq.write_table(table, path, row_group_size=group, compression=compression)
        in_our_words(read_log, path, **{name: value for name, value in asked.items() if name != "delimiter"})
        in_our_words(read_frame, path)

    contained(case, at_least=0.05)


def written(**options) -> bytes:
    rows = range(300)
    table = pa.table(
        {
            "user_id": [f"u{n % 40}" for n in rows],
            "item_id": [n // 4 for n in rows],
            "rating": [1 + n % 5 for n in rows],
        }
    )
    pq.write_table(table, buffer := io.BytesIO(), row_group_size=100, **options)
    return buffer.getvalue()


PARQUET = [
    written(),
    written(compression="none", use_dictionary=False),
    written(compression="zstd", data_page_version="2.0"),
    written(compression="gzip", write_page_checksum=True),
]


def test_altered_parquet_is_read_or_refused(contained, in_our_words, tmp_path):
    @many
    @given(
        st.sampled_from(PARQUET),
        st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=6),
        st.none() | st.integers(1, 2000),
        st.booleans(),
    )
    def case(original, places, cut, near_the_end):
        content = bytearray(original)
        for place, value in places:
            content[-1 - place % 900 if near_the_end else place % len(content)] = value
        path = tmp_path / "log.parquet"
        path.write_bytes(content if cut is None else content[:-cut])
        in_our_words(read_log, path)
        in_our_words(read_frame, path)

    contained(case, at_least=0.05)
