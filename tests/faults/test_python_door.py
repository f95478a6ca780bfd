"""Whatever is handed to Python works or is refused in one sentence: no foreign error comes out of the door."""

from __future__ import annotations

import datetime
import pathlib
import random
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import unskew
from unskew.data.log import LogSettings

CALLS = 10_000
SHORT = unskew.Training(max_epochs=1, progress=False)
FRAME = {"user_id": [1, 1, 2, 2, 3, 3], "item_id": [1, 2, 1, 2, 1, 2], "rating": [5, 1, 1, 5, 3, 2]}


@pytest.fixture(scope="module")
def model():
    users, items = np.divmod(np.arange(60), 6)
    log = unskew.RatingLog.from_arrays(users, items, 1 + (users * items) % 5, item_ids=range(9))
    return unskew.make("naive").fit(log, training=SHORT)


def things(model):
    """Values of every kind, most of them wrong everywhere."""
    nan = float("nan")
    plain = [
        None,
        True,
        False,
        0,
        1,
        -1,
        5,
        2**70,
        1.5,
        nan,
        float("inf"),
        1j,
        "",
        "abc",
        "user_id",
        "naive",
        b"x",
        ...,
    ]
    lists = [[], [1], [1, 2], [None], [nan], ["a", 1], [[1], [2]], (), (1, 2, 3), ([1], [2], [3]), range(3), {1}, {}]
    lists += [{"a": 1}, {"user_id": [1]}, [2**70], [object()], [True], [datetime.date(2020, 1, 1)], ([1, 2], [1], [1])]
    arrays = [np.array([]), np.zeros((2, 2)), np.array(["a", None], object), np.array([1, 2], "m8[s]"), np.float64(2)]
    frames = [pa.table({}), pd.DataFrame(), pl.DataFrame(), pl.LazyFrame(FRAME), pa.table(FRAME), pd.DataFrame(FRAME)]
    frames += [pd.DataFrame([[1, 2]], columns=["user_id", "user_id"]), pd.DataFrame({1: [1], 2: [3]}), pa.array([1, 2])]
    frames += [
        pd.Series([1, 2]),
        scipy.sparse.eye(3, format="csr"),
        scipy.sparse.csr_array((2, 2)),
        pl.Series([[1], [2]]),
    ]
    others = [object(), object, len, iter([1]), (n for n in range(2)), pathlib.Path("nowhere.csv"), pathlib.Path(".")]
    others += [datetime.datetime(2020, 1, 1), model, model.log, model.log.user_ids, Exception("x"), unskew]
    return plain + lists + arrays + frames + others


def calls(model, tmp_path):
    log = model.log
    three = (FRAME["user_id"], FRAME["item_id"], FRAME["rating"])
    named = [*LogSettings.__annotations__]
    found = {
        "read_log": unskew.read_log,
        "from_frame": unskew.RatingLog.from_frame,
        "columns": lambda a, b, c: unskew.read_log(pa.table(FRAME), a, b, c),
        "time": lambda a: unskew.read_log(pa.table(FRAME), time=a),
        "from_arrays": unskew.RatingLog.from_arrays,
        "some arrays": lambda a: unskew.RatingLog.from_arrays(three[0], a, three[2]),
        "fit": lambda a: unskew.fit(a, "naive", training=SHORT),
        "method": lambda a: unskew.make(a),
        "predict": model.predict,
        "predict one": lambda a: model.predict(a, [1]),
        "recommend": model.recommend,
        "similar": lambda a, b: model.similar(items=a, k=b),
        "explain": model.explain,
        "fold_in": model.fold_in,
        "evaluate": lambda a: unskew.evaluate(model, a),
        "split": lambda a, b: unskew.holdout_split(log, a, by=b),
        "folds": lambda a: unskew.folds(log, a),
        "load": unskew.load,
        "simulate": lambda a, b, c: unskew.simulate(n_users=a, n_items=b, density=c),
    }
    found |= {f"log {name}": lambda a, name=name: unskew.read_log(three, **{name: a}) for name in named}
    for name in ("by", "items", "filter_items", "candidates", "on_unknown", "seed", "exclude_seen"):
        found[f"recommend {name}"] = lambda a, name=name: model.recommend([1], 2, **{name: a})
    for name in ("as_", "liked_from", "on_unknown"):
        found[f"predict {name}"] = lambda a, name=name: model.predict([1], [1], **{name: a})
    return found


def test_no_foreign_error_comes_out(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, given, made = random.Random(7), things(model), calls(model, tmp_path)
    counts = {
        name: function.__code__.co_argcount if hasattr(function, "__code__") else 1 for name, function in made.items()
    }
    counts |= {
        "from_arrays": 3,
        "predict": 2,
        "explain": 2,
        "from_frame": 1,
        "read_log": 1,
        "recommend": 2,
        "fold_in": 1,
    }
    counts |= {"load": 1}
    counts = {
        name: 1 if name.startswith(("log ", "recommend ", "predict ")) else count for name, count in counts.items()
    }
    foreign = []
    for _ in range(CALLS):
        name = rng.choice(list(made))
        arguments = [rng.choice(given) for _ in range(counts[name])]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name](*arguments)
        except unskew.UnskewError as error:
            if "\n" in str(error).strip():
                foreign.append((name, "several lines", str(error)[:200]))
        except Exception as error:
            foreign.append((name, [repr(one)[:60] for one in arguments], f"{type(error).__name__}: {error}"[:160]))
    assert not foreign, f"{len(foreign)} of {CALLS}: " + "\n".join(map(str, foreign[:60]))
