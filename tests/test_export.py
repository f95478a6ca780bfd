"""Exported models answer as the model does, by external ids."""

import json
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, logit

import unskew
from unskew import ParameterError, UnskewError, export
from unskew.export import to_onnx, to_parquet
from unskew.selection.random_ratings import Line

onnxruntime = pytest.importorskip("onnxruntime")

BRIEF = unskew.Training(max_epochs=2, progress=False)
N_USERS, N_ITEMS = 30, 20


def log(ids="text", **scale):
    generator = np.random.default_rng(0)
    users, items = np.divmod(generator.permutation(N_USERS * N_ITEMS)[:240], N_ITEMS)
    names = np.array([f"user {n} é" for n in range(N_USERS)]) if ids == "text" else np.arange(N_USERS) * 3 - 7
    ratings = generator.integers(1, 6, 240)
    return unskew.RatingLog.from_arrays(
        names[users], items * 10, ratings, user_ids=names, item_ids=np.arange(N_ITEMS) * 10, **scale
    )


NETS = {
    "factors with biases": unskew.Naive(net=unskew.MF(n_factors=5)),
    "factors without biases": unskew.Naive(net=unskew.MF(n_factors=5, biases=False)),
    "towers": unskew.MultiDR(net=unskew.MF(n_factors=4, biases=False)),
    "calibrated twice": unskew.DoublyCalibrated(unskew.DRJL(net=unskew.MF(n_factors=4), propensity=unskew.Additive())),
}
MODELS = (*NETS, "corrected", "new user")


@pytest.fixture(scope="module")
def models():
    """Of each net, corrected by random ratings, and with a new user."""
    found = {name: method.fit(log(), training=BRIEF) for name, method in NETS.items()}
    own = log().take(log().users == 3)
    new = {"user_id": ["new"] * len(own), "item_id": own.item_ids.take(own.items), "rating": own.stars}
    corrected = replace(found["towers"], corrections={"prediction": Line(0.8, -0.9)})
    return found | {"corrected": corrected, "new user": found["towers"].fold_in(pa.table(new))}


def asked(path, users, items):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ids = {"user_id": np.array(users, object if isinstance(users[0], str) else np.int64), "item_id": np.array(items)}
    return session.run(None, ids)[0]


def assert_scores_alike(model, path):
    """All pairs, or some thousands of them, and unknown ids on either side."""
    found = to_onnx(model, path)
    assert found.largest_difference < 1e-5
    known = model.log
    unknown = ["nobody"] if isinstance(known.user_ids[0], str) else [10_001]
    users, items = [*known.user_ids, *unknown], [*known.item_ids, 999_999]
    n_pairs = len(users) * len(items)
    pairs = np.divmod(np.arange(n_pairs - 1, -1, -max(1, n_pairs // 3000)), len(items))
    asked_users, asked_items = [users[n] for n in pairs[0]], [items[n] for n in pairs[1]]
    expected = model.predict(asked_users, asked_items, on_unknown="fallback")
    span = 1 if known.binary else known.scale.high - known.scale.low
    np.testing.assert_allclose(asked(path, asked_users, asked_items), expected, atol=1e-5 * span)


@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_scorer_answers_as_the_model_does_for_everybody_and_strangers(models, name, tmp_path):
    assert_scores_alike(models[name], tmp_path / "model.onnx")


@pytest.mark.parametrize("scale", [{}, {"positive": None, "rating_scale": (1, 5)}], ids=["binary", "graded"])
def test_integer_ids_and_graded_ratings_keep_their_kind(scale, tmp_path):
    model = unskew.Naive(net=unskew.MF(n_factors=3)).fit(log("integer", **scale), training=BRIEF)
    assert_scores_alike(model, tmp_path / "model.onnx")
    assert_scores_alike(replace(model, corrections={"prediction": Line(1.0, -1.0)}), tmp_path / "corrected.onnx")


def vectors(folder, side):
    table = pq.read_table(folder / f"{side}s.parquet")
    return dict(zip(table[f"{side}_id"].to_pylist(), np.array(table["vector"].to_pylist()), strict=True)), table.schema


@pytest.mark.parametrize("name", MODELS)
def test_the_inner_product_of_vectors_is_the_models_logit(models, name, tmp_path):
    model = models[name]
    found = to_parquet(model, tmp_path / "vectors")
    users, _ = vectors(tmp_path / "vectors", "user")
    items, schema = vectors(tmp_path / "vectors", "item")
    assert (list(users), list(items)) == (list(model.log.user_ids), list(model.log.item_ids))
    assert (found.n_users, found.n_items, found.n_columns) == (len(users), N_ITEMS, len(items[0]))
    assert found.notes == ()
    assert ("new" in users) == (name == "new user")
    products = np.array([[user @ item for item in items.values()] for user in users.values()])
    pairs = np.divmod(np.arange(len(users) * N_ITEMS), N_ITEMS)
    np.testing.assert_allclose(expit(products.ravel()), model.predict_codes(*pairs), atol=1e-6)
    np.testing.assert_allclose(products.ravel(), logit(model.predict_codes(*pairs)), atol=1e-4)
    assert json.loads(schema.metadata[b"unskew"])["inner_product"] == "logit"


def test_vectors_replace_only_vectors(models, tmp_path):
    whole = to_parquet(models["towers"], tmp_path / "whole")
    to_parquet(models["towers"], whole.folder)
    (tmp_path / "whole" / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match=r"holds 'notes\.txt', which would be lost"):
        to_parquet(models["towers"], whole.folder)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ParameterError, match="is a file"):
        to_parquet(models["towers"], tmp_path / "file")


def test_what_has_no_such_form_is_refused_in_a_sentence(models, tmp_path, monkeypatch):
    hidden = unskew.Naive(net=unskew.NCF(n_factors=4)).fit(log(), training=BRIEF)
    for write in (to_parquet, to_onnx):
        with pytest.raises(ParameterError, match=r"The predictions of Naive are no inner products .* a net such as MF"):
            write(hidden, tmp_path / "place")
    with monkeypatch.context() as small:
        small.setattr(export, "LARGEST_FILE", 100)
        with pytest.raises(ParameterError, match="an ONNX file holds at most 2: export it as Parquet"):
            to_onnx(models["towers"], tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ParameterError, match=r"needs the package onnx: .* pip install 'unskew\[onnx\]'"):
        to_onnx(models["towers"], tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_scorer_that_answers_differently_is_not_written(models, tmp_path, monkeypatch):
    monkeypatch.setattr("unskew.model.Recommender.predict_codes", lambda *_: np.full(10_000, 0.5))
    with pytest.raises(UnskewError, match=r"differs from the model by up to .*; nothing was written"):
        to_onnx(models["towers"], tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
