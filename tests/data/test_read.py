"""Claims about files: what can be read, and the one sentence for each way a file can be wrong."""

import bz2
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unskew
from unskew.data import read as read_module
from unskew.data.read import read_log
from unskew.errors import DataError, ParameterError


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as inside:
        for name, content in files.items():
            inside.writestr(name if "." in name else f"{name}.csv", content)
    return buffer.getvalue()


GOOD = "user_id,item_id,rating\nu,7,5\nv,7,1\nu,8,2\n"
FRAME = {"user_id": ["u", "v", "u"], "item_id": [7, 7, 8], "rating": [5, 1, 2]}
ROWS = list(zip(*FRAME.values(), strict=True))
RECORDS = "".join(json.dumps(dict(zip(FRAME, row, strict=True))) + "\n" for row in ROWS)
NOTED = "user_id,item_id,rating,note\nu,7,5,good\nv,7,1,"
many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path):
    """Writes text or bytes to a file and answers with its path."""

    def write(content, name="log.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def parquet(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(FRAME | columns), buffer)
    return buffer.getvalue()


def refused(path, **settings):
    with pytest.raises(DataError) as caught:
        read_log(path, **settings)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence[-1] in ".?"
    assert len(sentence) < 250 or sentence.startswith("a" * 80)
    return sentence


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.csv", GOOD),
        ("LOG.CSV", GOOD),
        ("log.v2.txt", GOOD),
        ("log.tsv", GOOD.replace(",", "\t")),
        ("log.inter", GOOD.replace(",", "\t").replace("id", "id:token").replace("rating", "rating:float")),
        ("log.csv.gz", gzip.compress(GOOD.encode())),
        ("log.parquet", parquet()),
        ("log.csv.bz2", bz2.compress(GOOD.encode())),
        ("log.csv.zst", pa.compress(GOOD.encode(), "zstd", asbytes=True)),
        ("log.zip", zipped(ratings=GOOD)),
        ("log.parquet.gz", gzip.compress(parquet())),
        ("no ending", GOOD),
        ("packed.csv", gzip.compress(GOOD.encode())),
        ("plain.csv.gz", GOOD),
        ("decimal.csv", GOOD.replace(",", ";").replace(";5\n", ";5,0\n")),
        ("log.jsonl", RECORDS),
        ("blank first.csv", "\n\n" + GOOD),
        ("no header.csv", GOOD.partition("\n")[2]),
        ("ids.csv", GOOD.replace("user_id", "User ID")),
        ("bom.csv", b"\xef\xbb\xbf" + GOOD.encode()),
        ("windows.csv", GOOD.replace("\n", "\r\n")),
        ("mac.csv", GOOD.replace("\n", "\r")),
        ("quoted.csv", GOOD.replace("u,", '"u",')),
        ("open end.csv", GOOD.rstrip()),
        ("blank lines.csv", GOOD.replace("v,", "\n\nv,") + "\n\n"),
        ("padded.csv", GOOD.replace(",2", ", 2 ")),
        ("odd notes.csv", (NOTED + "\xe9\nu,8,2,\n").encode("latin-1")),  # which nobody asked for
        ("long notes.csv", NOTED + '"bad,\nbut ""nice""\n"\nu,8,2,"fine"\n'),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "content",
)
def test_every_format_gives_the_same_log(file, name, content):
    log = read_log(file(content, name), positive=3)
    assert list(log.to_arrow().to_pydict().values()) == list((FRAME | {"rating": [1, 0, 0]}).values())


def test_a_folder_as_downloaded_is_read_by_its_file_of_ratings(tmp_path):
    (tmp_path / "README.txt").write_text("About: these, files.\n")
    (tmp_path / "movies.csv").write_text("movieId,title\n7,Heat\n")
    (tmp_path / "ratings.csv").write_text(GOOD)
    log = read_log(tmp_path, item_names=tmp_path / "movies.csv")
    assert any("ratings.csv is taken for the ratings" in note for note in log.notes)
    assert log.titles.to_pylist() == ["Heat", None]


def test_a_column_is_never_guessed_for_a_second_role(file):
    with pytest.raises(DataError, match=r"no column that is known to hold items, only 'user_id', 'item_id', 'rating'"):
        read_log(file(GOOD), user="item_id")
    with pytest.raises(ParameterError, match=r"column 'user_id' is named twice: users, items, ratings and times need"):
        read_log(file(GOOD), user="user_id", item="user_id")


def test_of_several_names_of_an_item_the_first_is_taken_and_noted(file):
    names = file("item_id,title\n7,Heat\n8,Toy Story\n7,Heat (1995)\n8,Toy Story\n9,Other\n", "movies.csv")
    log = read_log(file(GOOD), item_names=names)
    assert log.titles.to_pylist() == ["Heat", "Toy Story"]
    assert log.notes[-1] == "log.csv: 1 items have several names, of which the first is taken"


def test_titles_and_features_of_files_without_a_header(file):
    log, people = file(GOOD), file("u::F::30\nv::M::40\n", "users.dat")
    titles = file("7|Heat wave|01-Jan-1995|0\n8|Toy Story|01-Jan-1996|1\n", "u.item")
    found = read_log(log, item_names=titles, user_features=people)
    assert found.titles.to_pylist() == ["Heat wave", "Toy Story"]
    assert found.user_features.names == ("2=F", "2=M", "3")
    with pytest.raises(DataError, match=r"item_names='title' is neither a column of log.csv nor a file"):
        read_log(log, item_names="title")
    with pytest.raises(DataError, match=r"no column of titles, only 'user_id', 'item_id', 'rating'"):
        read_log(log, item_names=log)


@pytest.mark.parametrize("odd", ["soon", "12/31/2024", "2024-01-01T10:00:00Z"])
@pytest.mark.parametrize("place", [1, 4, 6])
@pytest.mark.parametrize("start", ["2024-01-0", "170000000"])
def test_the_first_time_that_is_none_is_named(file, odd, place, start):
    times = [f"{start}{day}" for day in range(1, 8)]
    times[place] = times[-1] = odd
    rows = "".join(f"{user},{user % 3},{1 + user % 2},{at}\n" for user, at in enumerate(times))
    log = read_log(file(f"user_id,item_id,rating,date\n{rows}"))
    assert log.times is None
    assert f"column 'date' of log.csv is not read: row {place + 1} holds '{odd}', no time of a known" in log.notes[-1]


@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
def test_times_with_a_zone_are_read(file, zone):
    rows = "".join(f"{u},{i},{r},2020-01-0{day}T00:00:00{zone}\n" for day, (u, i, r) in enumerate(ROWS, 1))
    assert np.diff(read_log(file(f"user_id,item_id,rating,date\n{rows}")).times).tolist() == [86400, 86400]


def test_standard_input_is_a_file(file):
    code = "from unskew.data.read import read_log; print(len(read_log('-')))"
    done = subprocess.run([sys.executable, "-c", code], input=parquet(), capture_output=True, check=True)
    assert done.stdout.strip() == b"3"


@pytest.mark.parametrize("kind", ["tuple", "csr", "coo", "pandas", "polars", "lazy", "arrow", "path", "log"])
def test_whatever_holds_ratings_is_a_source(file, kind):
    path = file("user_id,item_id,rating\n0,1,5\n0,0,3\n1,1,1\n")
    frame = {"user_id": [0, 0, 1], "item_id": [1, 0, 1], "rating": [5, 3, 1]}
    users, items, ratings = frame.values()
    matrix = scipy.sparse.coo_array((ratings, (users, items)))
    sources = {"tuple": (users, items, ratings), "csr": matrix.tocsr(), "coo": matrix, "pandas": pd.DataFrame(frame)}
    sources |= {"polars": pl.DataFrame(frame), "lazy": pl.LazyFrame(frame), "arrow": pa.table(frame), "path": path}
    log = read_log(sources.get(kind) if kind != "log" else read_log(path))
    found = {tuple(row.values()) for row in log.to_arrow().to_pylist()}
    assert found == {(0, 1, 1), (0, 0, 1), (1, 1, 0)}
    assert (len(log), log.n_users, log.n_items, log.n_pairs) == (3, 2, 2, 4)
    assert list(log.item_ids) == ([0, 1] if kind in ("csr", "coo") else [1, 0])  # in the order of first appearance
    assert log.library == {"pandas": "pandas", "polars": "polars", "lazy": "polars"}.get(kind, "pyarrow")


@pytest.mark.parametrize("source", [None, 3, b"log.csv", ROWS[:2], FRAME, np.array(ROWS), pd.Series([1]), object()])
def test_what_is_no_source_is_told_what_is_one(source):
    with pytest.raises(DataError, match=r"a log is read from a path, .* or three arrays: this is of type \w+\."):
        read_log(source)


def test_empty_and_broken_frames_and_loose_arrays():
    for frame, sentence in (
        (pd.DataFrame(), "has no columns"),
        (pl.LazyFrame(FRAME).select("no"), "be collected: .*no"),
    ):
        with pytest.raises(DataError, match=sentence):
            read_log(frame)
    with pytest.raises(ParameterError, match="give three arrays as one tuple"):
        read_log(*map(np.array, FRAME.values()))


@pytest.mark.parametrize("levels", [["user_id"], ["user_id", "item_id"]])
def test_named_levels_of_an_index_are_columns(levels):
    log, plain = read_log(pd.DataFrame(FRAME).set_index(levels)), read_log(pd.DataFrame(FRAME, index=[7, 8, 9]))
    assert log.to_arrow().equals(plain.to_arrow())


def test_advice_about_columns_can_be_followed_at_every_door(file):
    path = file("who;what;stars\n" + "".join(f"{n % 5};{n};{n % 5 + 1}\n" for n in range(40)))
    for door in (unskew.fit, unskew.diagnose, unskew.holdout_split):
        with pytest.raises(DataError, match=r"set user= to the right one, in unskew\.read_log\.$"):
            door(path)
    how = {"user": "who", "item": "what", "positive": 5}
    model = unskew.fit(path, "naive", **how, training=unskew.Training(max_epochs=1, progress=False), l2=0.5)
    assert model.log.to_arrow().equals(read_log(path, **how).to_arrow())
    assert model.method.l2 == 0.5
    for wrong, end in {"users": "; did you mean 'user'?", "by": ": it has net, learning_rate, l2, error."}.items():
        with pytest.raises(ParameterError, match=re.escape(f"'naive' has no setting {wrong!r}{end}")):
            unskew.fit(path, "naive", **{wrong: "who"})


def test_text_ids_become_integers_only_if_all_are_spelled_as_such(file):
    assert list(read_log(file(GOOD)).item_ids) == [7, 8]
    assert list(read_log(file(GOOD.replace("v,", "NA,").replace("u,", "null,"))).user_ids) == ["null", "NA"]
    assert list(read_log(file(GOOD.replace("8", "08"))).item_ids) == ["7", "08"]
    assert list(read_log(file(GOOD.replace("8", str(2**63)))).item_ids) == ["7", str(2**63)]
    assert list(read_log(file(parquet(item_id=["7", "7", "8"]), "log.parquet")).item_ids) == ["7", "8"]


def test_a_file_read_in_many_batches_gives_the_same_log(file, monkeypatch):
    rng = np.random.default_rng(0)
    pairs = rng.permutation(40 * 50)[:900]
    table = pa.table({"user_id": pairs // 50, "item_id": pairs % 50, "rating": rng.integers(1, 6, 900)})
    text = "user_id,item_id,rating\n" + "".join(
        f"{u},{i},{r}\n" for u, i, r in zip(*table.to_pydict().values(), strict=True)
    )
    whole = read_log(file(text))
    monkeypatch.setattr(read_module, "BLOCK", 256)
    pq.write_table(table, path := file("", "log.parquet"), row_group_size=100)
    for part in (read_log(file(text)), read_log(path)):
        assert part.to_arrow().equals(whole.to_arrow())
        assert list(part.user_ids) == list(whole.user_ids)
    assert "row 901 of column 'rating' of log.csv holds 'many'" in refused(file(text + "1000,1,many\n"))
    assert "row 901 of log.csv has 2 fields where the first line has 3" in refused(file(text + "1,5\n"))


IN_TEXT = [
    ("v,7,1", "v,7,many", "row 2 of column 'rating' of log.csv holds 'many', which is not a number"),
    ("v,7,1", "v,7,", "row 2 of column 'rating' of log.csv has no rating"),
    ("v,7,1", ",7,1", "row 2 of column 'user_id' of log.csv has no id"),
    ("v,7,1", "v,7", "row 2 of log.csv has 2 fields where the first line has 3"),
    ("u,8,2", "u,8,2\nu,7,2", "user 'u' rated item 7 twice, in rows 1 and 4"),
    ("u,8,2", 'u,"8,2', "row 3 of log.csv has 2 fields"),
    ("user_id", "who", "log.csv has no column that is known to hold users, only 'who', 'item_id', 'rating': set"),
    ("user_id,", "user_id,rating,", "log.csv has 2 columns called 'rating'"),
    ("8", "9\n", "row 3 of log.csv has 2 fields"),
    ("v,7,1", "v\0,7,1", "log.csv holds NUL bytes"),
    ("u,7,5", GOOD[:29], "row 1 of column 'rating' of log.csv holds 'rating', which is not a"),
]
IN_PARQUET = [
    ({"rating": ["5", "x", "2"]}, "row 2 of column 'rating' of log.parquet holds 'x', which is not a number"),
    ({"rating": [[5], [1], [2]]}, "column 'rating' of log.parquet is of type list"),
    ({"user_id": ["u", None, "u"]}, "row 2 of column 'user_id' of log.parquet has no id"),
    ({"user_id": [b"u", b"\xff", b"u"]}, r"row 2 of column 'user_id' of log.parquet holds b'\xff', which is not UTF-8"),
    ({"user_id": ["u", "v", "v"], "item_id": [8, 7, 7]}, "user 'v' rated item 7 twice, in rows 2 and 3"),
]
NESTED = RECORDS.replace('"u"', json.dumps({str(at): at for at in range(99)})).replace('"v"', "{}")
BROKEN = [
    *(("log.csv", GOOD.replace(old, new).encode(), sentence) for old, new, sentence in IN_TEXT),
    *(("log.parquet", parquet(**columns), sentence) for columns, sentence in IN_PARQUET),
    ("log.csv", GOOD.replace("v", "\xe9").encode("latin-1"), "row 2 of column 'user_id' of log.csv is not UTF-8: save"),
    ("log.csv", (NOTED + '"bad\nu,9,2,fine\n').encode(), "left open near row 2"),
    ("log.csv", b"", "log.csv is empty: it has no bytes"),
    ("log.csv", b"user_id,item_id,rating\n\n\n", "names its columns but has no rows"),
    ("log.csv", b'",0', "no header and 1 columns"),
    ("log.csv", b"0,1,2,3,4,5,6,7,8,9\n" * 3, "no header and 10 columns, of which the first row holds 0, 1, 2, 3, "),
    ("log.parquet", parquet()[:-20], "log.parquet cannot be read"),
    ("log.csv.gz", gzip.compress(GOOD.encode())[:-12], "log.csv.gz cannot be read"),
    ("log.csv", GOOD.encode("utf-16"), "log.csv is text in UTF-16: save the file as UTF-8"),
    ("log.xlsx", zipped(**{"[Content_Types].xml": "", "xl/a": ""}), "log.xlsx is a spreadsheet: save it as CSV"),
    ("log.zip", zipped(a=GOOD, b=GOOD), "holds 2 files (a.csv, b.csv): unpack it and name one"),
    ("log.jsonl", RECORDS.replace('"v"', "{").encode(), "row 2 of log.jsonl cannot be read"),
    ("log.csv", b"<!DOCTYPE html>\n<p>Not found, sorry</p>\n", "log.csv is a web page: get the file itself"),
    ("log.json", json.dumps([FRAME]).encode(), "log.json is a JSON array: write an object a line"),
    ("log.jsonl", NESTED.encode(), "column 'user_id' of log.jsonl is of type struct<0: int64"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BROKEN, ids=[sentence for *_, sentence in BROKEN])
def test_a_fault_in_a_file_is_named_with_its_place(file, name, content, sentence):
    assert sentence in refused(file(content, name), positive=3, rating_scale=(1, 5))


def test_a_path_that_leads_nowhere_is_refused(file, tmp_path):
    assert "nowhere.csv does not exist: check the path." in refused(tmp_path / "nowhere.csv")
    packed = file(gzip.compress(GOOD.encode()), "ratings.csv.gz")
    assert "ratings.csv does not exist: did you mean 'ratings.csv.gz'?" in refused(packed.with_suffix(""))
    (tmp_path / "folder.csv").mkdir()
    assert "folder.csv is a folder without files" in refused(tmp_path / "folder.csv")
    assert "a path is empty" in refused("")
    assert "cannot be read" in refused("a\0b.csv")
    assert "cannot be read" in refused("a" * 5000 + ".csv")


def folder(path, **tables):
    """Write tables as the Parquet files of a folder and answer with its path."""
    (path / "parts").mkdir()
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), path / "parts" / f"{name}.parquet")
    return path / "parts"


def test_the_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path):
    other = {"item_id": [9, 7], "rating": [3, 4], "user_id": ["w", "w"]}  # columns go by name
    path = folder(tmp_path, b=FRAME, a=other)
    (path / "_SUCCESS").touch()
    (path / ".a.parquet.crc").write_bytes(b"crc")
    log = read_log(path, positive=3)
    expected = {name: other[name] + FRAME[name] for name in FRAME}
    assert log.to_arrow().to_pydict() == expected | {"rating": [1, 1, 1, 0, 0]}


def test_ids_of_text_files_of_a_folder_are_integers_if_all_of_them_are(tmp_path):
    (tmp_path / "a.csv").write_text("user_id,item_id,rating\n1,7,5\n")
    (tmp_path / "b.tsv").write_text("rating\tuser_id\titem_id\n1\t2\t8\n")
    assert list(read_log(tmp_path).user_ids) == [1, 2]
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"user_id,item_id,rating\n03,7,5\n"))
    assert list(read_log(tmp_path).user_ids) == ["1", "2", "03"]
    (tmp_path / "more").mkdir()
    assert "holds the folder 'more': put all files of a log into one folder" in refused(tmp_path)


def test_folders_of_a_partitioned_log_are_read_in_the_order_of_their_names(tmp_path):
    for name, columns in {"day=2/hour=0": FRAME, "day=1/hour=7": {**FRAME, "user_id": ["w", "x", "z"]}}.items():
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table(columns), tmp_path / name / "part-0.parquet")
    log = read_log(tmp_path, positive=3)
    assert log.to_arrow()["user_id"].to_pylist() == ["w", "x", "z", *FRAME["user_id"]]
    assert any("folders are named by day, hour, which is not read" in note for note in log.notes)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"user_id": ["x", None, "x"]}, "row 5 of column 'user_id' of parts has no id"),
        ({"user_id": [1, 2, 3]}, "parts do not go together"),
        ({"user_id": ["x", "v", "y"]}, "user 'v' rated item 7 twice, in rows 2 and 5"),
        ({"rating": None}, "b.parquet has no column 'rating'"),
    ],
)
def test_a_fault_in_a_folder_is_named_with_its_row(tmp_path, columns, sentence):
    other = FRAME | {"user_id": ["x", "y", "x"]} | columns
    other = {name: held for name, held in other.items() if held is not None}
    assert sentence in refused(folder(tmp_path, a=FRAME, b=other))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@many
@given(st.lists(texts, min_size=2, max_size=6, unique=True), st.lists(texts, min_size=2, max_size=6, unique=True))
def test_ids_of_any_script_survive_csv_and_parquet(tmp_path, users, items):
    rows = [(user, item, 5 * (place % 2)) for user in users for place, item in enumerate(items)]
    with open(tmp_path / "log.csv", "w", encoding="utf-8", newline="") as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("user_id", "item_id", "rating"), *rows])
    columns = dict(zip(FRAME, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    for ending in ("csv", "parquet"):
        log = read_log(tmp_path / f"log.{ending}")
        assert [str(user) for user in log.user_ids] == users
        assert [str(item) for item in log.item_ids] == items
        assert log.to_arrow()["rating"].to_pylist() == [row[2] / 5 for row in rows]
