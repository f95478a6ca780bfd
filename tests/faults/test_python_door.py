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
import scipy.sparse

import unskew
from unskew.data.log import LogSettings

SHORT = unskew.Training(max_epochs=1, progress=False)
FRAME = {"user_id": [1, 1, 2, 2, 3, 3], "item_id": [1, 2, 1, 2, 1, 2], "rating": [5, 1, 1, 5, 3, 2]}


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
        pl.Series([[1], [2]]),
        pd.DataFrame(FRAME).set_index("user_id"),
        tuple(FRAME.values()),
    ]
    frames += [scipy.sparse.eye(3, format="csr"), scipy.sparse.csr_array((2, 2)), scipy.sparse.random(9, 9, 0.5)]
    others = [object(), object, len, iter([1]), (n for n in range(2)), pathlib.Path("nowhere.csv"), pathlib.Path(".")]
    others += [datetime.datetime(2020, 1, 1), model, model.log, model.log.user_ids, Exception("x"), unskew]
    others += [lambda users, items: np.full(len(users), 0.5), lambda users, items: "x", model.predict]
    return plain + lists + arrays + frames + others


def calls(model):
    """Every door by name, as a function of so many arguments as it has of its own."""
    three, log, fitted = tuple(FRAME.values()), model.log, model.predict_codes
    found = {
        "read_log": lambda a: unskew.read_log(a),
        "from_frame": lambda a: unskew.RatingLog.from_frame(a),
        "columns": lambda a, b, c, d: unskew.read_log(pa.table(FRAME), a, b, c, d),
        "from_arrays": lambda a, b, c: unskew.RatingLog.from_arrays(a, b, c),
        "some arrays": lambda a: unskew.RatingLog.from_arrays(three[0], a, three[2]),
        "fit": lambda a: unskew.fit(a, "naive", training=SHORT),
        "fit by": lambda a, b: unskew.fit(log, a, training=SHORT, seed=b),
        "make": lambda a: unskew.make(a),
        "predict": lambda a, b: model.predict(a, b),
        "predict frame": lambda a: model.predict(a),
        "predict one": lambda a: model.predict(a, [1]),
        "recommend": lambda a, b: model.recommend(a, b),
        "similar": lambda a, b: model.similar(items=a, k=b),
        "similar users": lambda a, b: model.similar(users=a, k=b),
        "explain": lambda a, b: model.explain(a, b),
        "fold_in": lambda a: model.fold_in(a),
        "evaluate": lambda a: unskew.evaluate(model, a),
        "evaluate scores": lambda a: unskew.evaluate(a, log),
        "evaluate how": lambda a, b: unskew.evaluate(model, log, k=a, baselines=b),
        "estimate_risk": lambda a: unskew.estimate_risk(a, log),
        "estimate_risk log": lambda a: unskew.estimate_risk(fitted, a),
        "estimate_risk metrics": lambda a: unskew.estimate_risk(fitted, log, metrics=a),
        "estimate_risk estimators": lambda a, b: unskew.estimate_risk(fitted, log, estimators=a, seed=b),
        "estimate_risk propensity": lambda a: unskew.estimate_risk(fitted, log, propensity=a),
        "compare": lambda a, b: unskew.compare(a, b, log),
        "compare log": lambda a: unskew.compare(fitted, model, a),
        "compare random": lambda a: unskew.compare(model, fitted, log, random_ratings=a),
        "diagnose": lambda a: unskew.diagnose(a),
        "diagnose random": lambda a, b: unskew.diagnose(log, random_ratings=a, seed=b),
        "split": lambda a, b, c: unskew.holdout_split(log, a, by=b, seed=c),
        "split of": lambda a: unskew.holdout_split(a),
        "load": lambda a: unskew.load(a),
        "simulate": lambda a, b, c: unskew.simulate(n_users=a, n_items=b, density=c),
        "dataset": lambda a, b: unskew.datasets.load(a, b),
    }
    found |= {
        f"log {name}": lambda a, name=name: unskew.read_log(three, **{name: a}) for name in LogSettings.__annotations__
    }
    for name in ("by", "items", "filter_items", "candidates", "on_unknown", "seed", "exclude_seen"):
        found[f"recommend {name}"] = lambda a, name=name: model.recommend([1], 2, **{name: a})
    for name in ("as_", "liked_from", "on_unknown", "return_std"):
        found[f"predict {name}"] = lambda a, name=name: model.predict([1], [1], **{name: a})
    return found


def test_no_foreign_error_comes_out(tmp_path, monkeypatch, long):
    monkeypatch.chdir(tmp_path)
    users, items = np.divmod(np.arange(60), 6)
    log = unskew.RatingLog.from_arrays(users, items, 1 + (users * items) % 5, item_ids=range(9))
    model = unskew.make("naive").fit(log, training=SHORT)
    rng, given, made, foreign = random.Random(7), things(model), calls(model), []
    n_calls = 10_000 if long else 2_000
    for _ in range(n_calls):
        name, function = rng.choice(list(made.items()))
        arguments = [rng.choice(given) for _ in range(function.__code__.co_argcount - len(function.__defaults__ or ()))]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*arguments)
        except unskew.UnskewError as error:
            if "\n" in str(error).strip():
                foreign.append((name, "several lines", str(error)[:200]))
        except Exception as error:
            foreign.append((name, [repr(one)[:60] for one in arguments], f"{type(error).__name__}: {error}"[:160]))
    assert not foreign, f"{len(foreign)} of {n_calls}: " + "\n".join(map(str, foreign[:60]))
