"""Whatever comes in works or is refused in one sentence: logs, recipes, models, and what is handed to Python.

No other error, no crash, no hang. Not only damage, which digests detect, but malice too: every file of a model that is
altered here has the digest that its manifest states.
"""

import datetime
import gzip
import hashlib
import io
import json
import pathlib
import random
import shutil
import tomllib
import warnings
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as arrays_to_bytes

import unskew
from unskew.data.read import read_frame, read_log
from unskew.data.rows import LogSettings
from unskew.registry import make, settings_of
from unskew.store.recipe import FitRecipe, read_fit

many = settings.get_profile("faults")
BRIEF = unskew.Training(max_epochs=1, batch_size=64, progress=False)
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
heads = st.sampled_from([b"user_id,item_id,rating", b"user_id:token,item_id:token,rating:float"]) | line.map(b",".join)
text_of_cells = st.tuples(heads, st.sampled_from([b"\n", b"\r\n", b"\r", b""]), st.lists(line, max_size=8)).map(
    lambda parts: parts[1].join([parts[0], *map(b",".join, parts[2])]) + parts[1]
)
edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), cell), min_size=1, max_size=3)
cells = st.lists(st.tuples(st.integers(0, 29), st.sampled_from([0, 1, 0, 1, 2]), cell), min_size=1, max_size=2)


def edited(changes):
    """The good log with some stretches replaced by other bytes."""
    found = GOOD
    for place, length, new in changes:
        place %= len(found) + 1
        found = found[:place] + new + found[place + length :]
    return found


def with_cells(changes):
    """The good log with other contents of some of its cells."""
    rows = [row.split(b",") for row in GOOD.splitlines()]
    for row, column, new in changes:
        rows[1 + row][column] = new
    return b"".join(b",".join(row) + b"\n" for row in rows)


contents = st.binary(max_size=200) | text_of_cells | edits.map(edited) | cells.map(with_cells)
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


byte_changes = st.tuples(
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=6),
    st.none() | st.integers(1, 2000),
    st.sampled_from(["front", "end", "anywhere"]),
)


def with_bytes(content, places, cut, where):
    """Other bytes at some places, and the end cut off."""
    content = bytearray(content)
    for place, value in places:
        at = place % 400 if where == "front" else -1 - place % 800 if where == "end" else place
        content[at % len(content)] = value
    return bytes(content if cut is None else content[:-cut])


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
    pa.date32(): [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    pa.timestamp("ns"): [datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1)],
    pa.duration("us"): [0, 2**62],
    pa.time32("s"): [0, 86399],
    pa.list_(pa.int32()): [[], [1, 2]],
    pa.struct([("a", pa.int32())]): [{"a": 1}, {"a": None}],
    pa.map_(pa.string(), pa.int32()): [[("k", 1)], []],
    pa.dictionary(pa.int32(), pa.string()): ["red", "blue"],
}


@st.composite
def tables(draw):
    """Any columns where a log has three of its own."""
    rows = draw(st.integers(0, 12))
    names = draw(st.just(COLUMNS) | st.lists(st.sampled_from([*COLUMNS, *COLUMNS, "", "é", "user_id "]), max_size=5))
    own = {"user_id": [f"u{n % 3}" for n in range(rows)], "rating": [n % 5 + 1 for n in range(rows)]}
    filled = []
    for name in names:
        kind = draw(st.sampled_from([*[None] * len(VALUES) * 3, *VALUES]))  # mostly what a log has
        odd = st.lists(st.sampled_from([*VALUES.get(kind, ()), None]), min_size=rows, max_size=rows)
        filled.append(pa.array(own.get(name, range(rows)) if kind is None else draw(odd), kind))
    return pa.Table.from_arrays(filled, names=names)


def written(table=None, **options):
    rows = [(f"u{n % 40}", n // 4, 1 + n % 5) for n in range(300)]
    table = pa.table(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))) if table is None else table
    pq.write_table(table, buffer := io.BytesIO(), **{"row_group_size": 100} | options)
    return buffer.getvalue()


PARQUET = [written(), written(compression="none", use_dictionary=False)]
PARQUET += [written(compression="zstd", data_page_version="2.0"), written(compression="gzip", write_page_checksum=True)]
LOGS = {  # the bytes of a file, how it is called, and what share must be read
    "text": (contents, [*[".csv"] * 4, ".tsv", ".txt", ".inter"], 0.02),
    "gzip": (
        st.tuples(contents.map(gzip.compress), st.booleans()).map(lambda drawn: drawn[0][: -9 * drawn[1] or None]),
        [".csv.gz"],
        0.02,
    ),
    "parquet of any types": (st.builds(written, tables(), row_group_size=st.sampled_from([1, 3])), [".parquet"], 0.05),
    "altered parquet": (
        st.tuples(st.sampled_from(PARQUET), byte_changes).map(lambda drawn: with_bytes(drawn[0], *drawn[1])),
        [".parquet"],
        0.02,
    ),
}


@pytest.mark.parametrize("what", LOGS)
def test_any_log_is_read_or_refused(what, contained, works_or_refuses, tmp_path):
    drawings, endings, at_least = LOGS[what]

    @many
    @given(drawings, st.sampled_from(endings), log_settings)
    def case(content, ending, asked):
        path = tmp_path / f"log{ending}"
        path.write_bytes(content)
        if ending == ".parquet":
            asked = {name: value for name, value in asked.items() if name != "delimiter"}
        works_or_refuses(read_log, path, **asked)
        works_or_refuses(read_frame, path)

    contained(case, at_least=at_least)


METHODS = ("naive", "ips", "dr-jl", "dce-tdr", "multi-dr", "cvib")
ODD = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**64), 10**30, 0.0, 0.5, -0.5, 1e-300, 1e300, float("inf")),
    *(float("nan"), "", "none", "inf", "auto", "MF", "IPS", "Naive", "../../x", "/tmp/x", "\0", "é\ud800", "x" * 5000),
    *([], {}, [1], [[]], {"kind": "MF"}, {"kind": "Known"}, {"kind": []}, {"array": "x"}, {"float": "nan"}),
)
HOW = ("alike", "alike", "alike", "other", "gone", "company")
odd = st.sampled_from(ODD) | st.sampled_from([one for one in ODD if type(one) in (int, float)])


def places_in(tree, path=()):
    """The paths of all values of nested tables and lists."""
    yield path
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        yield from places_in(value, (*path, key))


def altered(tree, changes):
    """A copy of nested tables in which some values are others, alike or not, are gone, or have company."""
    tree = deepcopy(tree)
    for place, how, value in ((place, how, deepcopy(value)) for place, how, value in changes):
        *way, key = list(places_in(tree))[1:][place % max(1, sum(1 for _ in places_in(tree)) - 1)]
        holder = tree
        for step in way:
            holder = holder[step]
        if how == "gone":
            del holder[key]
        elif how == "alike":
            holder[key] = next((one for one in (value, *ODD) if type(one) is type(holder[key])), value)
        elif how == "company" and isinstance(holder, dict):
            holder[f"{key}x"] = value
        else:
            holder[key] = value
        if not tree:
            break
    return tree


changes = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(HOW), odd), min_size=1, max_size=2)


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1).log


def as_toml(value):
    """What TOML can say of a value, and nonsense for the rest."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(held)}" for key, held in value.items()) + "}"
    return str(value) if isinstance(value, float) else json.dumps(value)


def test_any_recipe_is_fitted_or_refused_and_writes_nothing(contained, works_or_refuses, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = {name: tomllib.loads(FitRecipe(make(name), BRIEF, 3, log.scale).as_text()) for name in METHODS}
    path = tmp_path / "recipe.toml"

    def fitted(recipe):
        training = replace(recipe.training, max_epochs=1, progress=False)
        return recipe.method.fit(log, seed=recipe.seed or 0, training=training)

    cuts = st.tuples(st.integers(0, 2000), st.binary(max_size=4))

    @many
    @given(st.sampled_from(METHODS), changes, st.none() | st.just(None) | cuts)  # two of three files are whole
    def case(name, changed, cut):
        tree = altered(whole[name], changed)
        text = "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in tree.items())
        text = text.encode("utf-8", "surrogatepass")
        if cut is not None:
            place = cut[0] % (len(text) + 1)
            text = text[:place] + cut[1] + text[place + len(cut[1]) :]
        path.write_bytes(text)
        with np.errstate(all="ignore"):
            if (recipe := works_or_refuses(read_fit, path)) is not None:
                works_or_refuses(fitted, recipe)

    contained(case, about=path, at_least=0.1)
    assert [found.name for found in tmp_path.rglob("*")] == ["recipe.toml"]


@pytest.fixture(scope="module")
def folders(log, tmp_path_factory):
    """Models of several kinds: calibrated twice, with features, corrected by random ratings."""
    world = unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1)
    ages = {"user_id": list(range(20)), "age": [n / 7 for n in range(20)], "town": [f"t{n % 3}" for n in range(20)]}
    rows = world.log.users, world.log.items, 1 + 4 * world.log.ratings
    described = unskew.RatingLog.from_arrays(*rows, user_features=pa.table(ages))
    base = unskew.IPS(propensity=unskew.Additive())
    models = {
        "dce": make("dce-tdr").fit(world.log, training=BRIEF),
        "features": base.fit(described, training=BRIEF),
        "random": base.fit(world.log, training=BRIEF, random_ratings=world.test),
    }
    root = tmp_path_factory.mktemp("hostile")
    for name, model in models.items():
        model.save(root / name)
    return root


def used(folder):
    """A model is loaded and asked everything that is asked of models."""
    model = unskew.load(folder)
    users, items = np.divmod(np.arange(model.log.n_pairs), model.log.n_items)
    model.predict_codes(users[:500], items[:500])
    model.recommend(k=3)
    return str(model.history), str(model.weights), str(model.calibration), str(model.random_ratings)


def other_manifest(content, drawn):
    """The manifest with other values, or None of what JSON cannot hold."""
    try:
        return json.dumps(altered(json.loads(content), drawn)).encode()
    except ValueError:
        return None


def other_weights(content, edits):
    """Arrays that are gone, of another type, shape, value or name, or empty."""
    arrays = arrays_from_bytes(content)
    for place, how, kind, value in edits:
        key = sorted(arrays)[place % len(arrays)]
        array = arrays.pop(key)
        if how != "gone":
            arrays[f"{key}x" if how == "name" else key] = {
                "kind": array.astype(kind),
                "shape": array.reshape(-1)[: place % (array.size + 1)],
                "value": np.full_like(array, value),
                "empty": array[:0] if array.ndim else array,
            }.get(how, array)
        if not arrays:
            break
    return arrays_to_bytes({key: array.copy(order="C") for key, array in arrays.items()})


kinds = st.sampled_from(["<f4", "<f8", "<i8", "<i4", "|b1", "<f2", "|u1"])
values = st.sampled_from([float("nan"), float("inf"), -1.0, 1e38, 0.0, 1e9])
ways = st.sampled_from(["gone", "kind", "shape", "value", "name", "empty"])
model_names = st.sampled_from(["dce", "features", "random"])
file_names = st.sampled_from(
    ["log.arrow", "users.arrow", "items.arrow", "user_features.arrow", "weights.safetensors", "recipe.toml"]
)
HARM = {  # which model, which of its files, what is changed, and how
    "manifest": (model_names, st.just("model.json"), changes, other_manifest),
    "weights": (
        model_names,
        st.just("weights.safetensors"),
        st.lists(st.tuples(st.integers(0, 100), ways, kinds, values), min_size=1, max_size=3),
        other_weights,
    ),
    "bytes": (st.just("features"), file_names, byte_changes, lambda content, drawn: with_bytes(content, *drawn)),
}


@pytest.mark.parametrize("what", HARM)
def test_any_model_with_the_right_digest_is_used_or_refused(what, contained, works_or_refuses, folders, tmp_path):
    models, names, drawings, harm = HARM[what]
    folder = tmp_path / "model"

    @many
    @given(models, names, drawings)
    def case(model, name, drawn):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / model, folder)
        if (content := harm((folder / name).read_bytes(), drawn)) is None:
            return
        (folder / name).write_bytes(content)
        if name != "model.json":
            manifest = json.loads((folder / "model.json").read_text())
            manifest["files"][name] = hashlib.sha256(content).hexdigest()
            (folder / "model.json").write_text(json.dumps(manifest))
        with np.errstate(all="ignore"):
            works_or_refuses(used, folder)

    contained(case, about=folder / "model.json", at_least=0.05)


FRAME = {"user_id": [1, 1, 2, 2, 3, 3], "item_id": [1, 2, 1, 2, 1, 2], "rating": [5, 1, 1, 5, 3, 2]}


def things(model):
    """Values of every kind, most of them wrong everywhere."""
    nan = float("nan")
    plain = [None, True, False, 0, 1, -1, 5, 2**70, 1.5, nan, float("inf"), 1j, "", "abc", "user_id", "naive", b"x"]
    lists = [[], [1], [1, 2], [None], [nan], ["a", 1], [[1], [2]], (), (1, 2, 3), ([1], [2], [3]), range(3), {1}, {}]
    lists += [{"a": 1}, {"user_id": [1]}, [2**70], [object()], [True], [datetime.date(2020, 1, 1)], ([1, 2], [1], [1])]
    arrays = [np.array([]), np.zeros((2, 2)), np.array(["a", None], object), np.array([1, 2], "m8[s]"), np.float64(2)]
    frames = [pa.table({}), pd.DataFrame(), pl.DataFrame(), pl.LazyFrame(FRAME), pa.table(FRAME), pd.DataFrame(FRAME)]
    frames += [pd.DataFrame([[1, 2]], columns=["user_id", "user_id"]), pd.DataFrame({1: [1], 2: [3]}), pa.array([1, 2])]
    frames += [pd.Series([1, 2]), pl.Series([[1], [2]]), pd.DataFrame(FRAME).set_index("user_id")]
    frames += [tuple(FRAME.values()), ...]
    frames += [scipy.sparse.eye(3, format="csr"), scipy.sparse.csr_array((2, 2)), scipy.sparse.random(9, 9, 0.5)]
    others = [object(), object, len, iter([1]), (n for n in range(2)), pathlib.Path("nowhere.csv"), pathlib.Path(".")]
    others += [datetime.datetime(2020, 1, 1), model, model.log, model.log.user_ids, Exception("x"), unskew]
    others += [lambda users, items: np.full(len(users), 0.5), lambda users, items: "x", model.predict]
    return plain + lists + arrays + frames + others


def doors(log, model, sampled):
    """Every door with a call that works, or nearly: the function, and what it is given."""
    table, three = pa.table(FRAME), tuple(FRAME.values())
    new = pa.table({"user_id": [100, 100], "item_id": [1, 2], "rating": [5, 1]})
    world = unskew.simulate(20, 25, density=0.3, seed=0)
    truth, chances = np.array([0, 1, 1, 0]), np.array([0.1, 0.8, 0.6, 0.3])

    def half(users, items):
        return np.full(len(users), 0.5)

    yield unskew.read_log, {"source": table} | dict.fromkeys(LogSettings.__annotations__)
    yield unskew.RatingLog.from_frame, {"frame": table}
    yield unskew.RatingLog.from_arrays, dict(zip(("users", "items", "ratings"), three, strict=True))
    yield unskew.fit, {"source": log, "method": "naive", "training": BRIEF, "learning_rate": 0.1, "user": "user_id"}
    yield unskew.make, {"name": "naive"}
    yield sampled.predict, {"users": [1], "items": [1]}
    yield sampled.predict, {"users": table}
    yield sampled.recommend, {"users": [1], "k": 2}
    yield model.similar, {"items": [1]}
    yield model.explain, {"user": 1, "item": 2}
    yield model.propensity, {"users": [1], "items": [1]}
    yield model.fold_in, {"user_log": new}
    yield sampled.update, {"source": new}
    yield sampled.more_sweeps, {"sweeps": 1}
    yield model.save, {"path": "saved"}
    yield unskew.load, {"path": "saved"}
    yield unskew.export.to_parquet, {"model": model, "folder": "vectors"}
    yield unskew.export.to_onnx, {"model": model, "path": "model.onnx"}
    yield unskew.evaluate, {"model_or_scores": half, "test": log}
    yield unskew.estimate_risk, {"model_or_scores": model.predict_codes, "log": log}
    yield unskew.compare, {"first": half, "second": model, "log": log}
    yield unskew.diagnose, {"source": log}
    yield unskew.holdout_split, {"log": log}
    yield unskew.simulate, {"n_users": 20, "n_items": 25, "density": 0.3}
    yield unskew.datasets.simulate_funnel, {}
    yield unskew.datasets.simulate_loop, {"world": world, "method": "naive", "rounds": 1}
    yield unskew.datasets.load, {"name": "coat", "folder": "."}
    yield unskew.datasets.open_bandit, {"folder": "."}
    yield world.draw, {"seed": 0}
    yield unskew.register, {"name": "hostile"}
    yield unskew.registered, {}
    yield unskew.testing.check_method, {"method": None}
    yield unskew.bench.tune, {"log": None, "method": unskew.Naive(), "trials": 1}
    yield unskew.metrics.find, {"name": "mse"}
    yield unskew.metrics.roc_auc, {"y_true": truth, "y_pred": chances}
    yield unskew.metrics.calibration_error, {"y_true": truth, "y_prob": chances}
    yield unskew.Training, {}
    for kind in ("method", "net", "propensity", "calibrator"):
        for entry in unskew.registered(kind):
            yield entry.build, {} if isinstance(entry.defaults, type) else settings_of(entry.defaults)


def test_no_foreign_error_comes_out_of_python(tmp_path, monkeypatch, long):
    """One argument of each call is anything; in every fifth call, two of them."""
    monkeypatch.chdir(tmp_path)
    users, items = np.divmod(np.arange(60), 6)
    log = unskew.RatingLog.from_arrays(users, items, 1 + (users * items) % 5, item_ids=range(9))
    model, sampled = unskew.make("naive").fit(log, training=BRIEF), unskew.make("bayes", sweeps=8).fit(log)
    rng, given, foreign, done = random.Random(7), things(model), [], 0
    calls = []
    for function, usual in doors(log, model, sampled):
        named = [each.name for each in signature(function).parameters.values() if each.kind not in (2, 4)]
        calls += [(function, usual, name) for name in sorted({*named, *usual})]
    n_calls = 10_000 if long else 2_000
    for _ in range(n_calls):
        function, usual, name = rng.choice(calls)
        arguments = usual | {name: rng.choice(given)}
        if rng.random() < 0.2:
            arguments[rng.choice(sorted(arguments))] = rng.choice(given)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                function(**arguments)
            done += 1
        except unskew.UnskewError as error:
            if "\n" in str(error).strip():
                foreign.append((name, "several lines", str(error)[:200]))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:160]
            foreign.append((function.__name__, {key: repr(one)[:60] for key, one in arguments.items()}, what))
    assert not foreign, f"{len(foreign)} of {n_calls}: " + "\n".join(map(str, foreign[:60]))
    assert done > n_calls / 50, "calls that are all refused at the door try nothing behind it"
