"""Fitted models for other systems: vectors for a nearest-neighbour index as Parquet, and a scorer as ONNX.

Both are the model's inner products of users and items, and exist for models that are such products.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unskew._version import __version__
from unskew.errors import ParameterError, UnskewError, of_class
from unskew.model import Recommender
from unskew.nets.base import Linear, Net
from unskew.store.atomic import PathLike, checked_path, reason, refuse_others, replaced_folder, write_file

OPSET, ENCODER_OPSET, IR_VERSION = 17, 2, 8  # of 2022: old runtimes read them too
USERS, ITEMS = "users.parquet", "items.parquet"
ROWS_AT_ONCE = 1 << 16  # of a group in a file
TOLERANCE = 1e-5  # of the scale, between the scorer and the model
PAIRS_CHECKED = 10_000
LARGEST_FILE = 2_000_000_000  # bytes: what ONNX files can hold, nearly
MAPPED = (
    "the inner product is what the model knows of liking; its answers are mapped from there, which changes no user's "
    "ranking by a calibrated net, and that by a posterior hardly"
)


class Vectors(NamedTuple):
    """What was written where, and what to know of it."""

    folder: Path
    n_users: int
    n_items: int
    n_columns: int
    notes: tuple[str, ...]


class Scorer(NamedTuple):
    """Where the scorer is, and by how much it differed from the model on random pairs, a share of the scale."""

    path: Path
    n_checked: int
    largest_difference: float


def to_parquet(model: Recommender, folder: PathLike) -> Vectors:
    """Write users.parquet and items.parquet into a folder: ids, and vectors of single precision with equal lengths.

    The inner product of a user's and an item's vector is the model's logit: biases are columns of the vectors.
    """
    model = of_class(model, "model", Recommender)
    target, form = checked_path(folder), _form(model)
    notes = (MAPPED,) if _is_mapped(model) else ()
    about = json.dumps({"unskew": __version__, "inner_product": "logit", "notes": list(notes)})
    width, last = form.users.shape[1] + 1, np.ones(len(form.users))
    sides = {
        USERS: ("user_id", model.log.user_ids, form.users, last),
        ITEMS: ("item_id", model.log.item_ids, form.items, form.offsets),
    }
    try:
        refuse_others(target, sides)
        with replaced_folder(target) as fresh:
            for name, (key, ids, vectors, column) in sides.items():
                rows = np.hstack([vectors, column[:, None]]).astype(np.float32)[: len(ids)]
                held = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width)
                table = pa.table({key: ids.arrow, "vector": held}).replace_schema_metadata({"unskew": about})
                pq.write_table(table, fresh / name, row_group_size=ROWS_AT_ONCE)
    except OSError as error:
        raise ParameterError(f"The vectors cannot be written to {target}: {reason(error)}.") from error
    return Vectors(target, model.log.n_users, model.log.n_items, width, notes)


def to_onnx(model: Recommender, path: PathLike) -> Scorer:
    """Write the prediction as one ONNX file with inputs user_id and item_id, equally long, and output prediction.

    Ids are those of the log, integers or texts, and predictions are on its scale; an unknown user or item is answered
    for as the average one. onnxruntime is asked about random pairs, unknown ids among them, and the file is written
    only if it answers as the model does, to 1e-5.
    """
    model = of_class(model, "model", Recommender)
    target, form = checked_path(path), _form(model)
    if _is_mapped(model):
        raise ParameterError(
            f"{type(model.method).__name__} maps the inner products to its predictions, which has no form as ONNX: "
            "export its vectors as Parquet."
        )
    ids = model.log.user_ids.arrow.nbytes + model.log.item_ids.arrow.nbytes
    size = sum(side.nbytes for side in form) + 2 * ids
    if size > LARGEST_FILE:
        raise ParameterError(
            f"The scorer would take {size / 1e9:.1f} GB, and an ONNX file holds at most 2: export it as Parquet."
        )
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ParameterError(
            f"Exporting to ONNX needs the package {error.name}: install it by pip install 'unskew[onnx]'."
        ) from error
    made = _graph(model, form)
    onnx.checker.check_model(made)
    data = made.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    difference = _largest_difference(model, session)
    if not difference <= TOLERANCE:
        raise UnskewError(
            f"The ONNX scorer differs from the model by up to {difference:.2g} of its scale, more than {TOLERANCE:g}; "
            "nothing was written."
        )
    write_file(target, data)
    return Scorer(target, PAIRS_CHECKED, difference)


def _is_mapped(model: Recommender) -> bool:
    """Return whether answers are more than the sigmoid of an inner product."""
    return "prediction" in model.parts.calibrators or not isinstance(model.part("prediction"), Net)


def _form(model: Recommender) -> Linear:
    """Inner products with the average user and item behind all others, and the line that random ratings have put
    through the logit taken in."""
    form, line = model.inner_products(), model.corrections.get("prediction")
    if line is None or _is_mapped(model):
        return form
    return Linear(form.users, line.slope * form.items, line.slope * form.offsets + line.shift)


def _graph(model: Recommender, form: Linear) -> Any:
    """sigmoid(users[u] . items[i] + offsets[i]) on the log's scale, by external ids."""
    from onnx import TensorProto, helper, numpy_helper

    log, nodes, inputs, constants = model.log, list[Any](), list[Any](), list[Any]()
    low, span = (0.0, 1.0) if log.binary else (log.scale.low, log.scale.high - log.scale.low)
    held: dict[str, Any] = {"users": form.users, "items": form.items, "offsets": form.offsets, "low": low, "span": span}
    for name, value in held.items():
        constants.append(numpy_helper.from_array(np.array(value, np.float32, order="C"), name))
    constants.append(numpy_helper.from_array(np.array([1]), "axis"))

    def node(kind: str, out: str, *given: str, **settings: Any) -> None:
        nodes.append(helper.make_node(kind, list(given), [out], **settings))

    for side, ids in (("user", log.user_ids), ("item", log.item_ids)):
        text = not pa.types.is_integer(ids.arrow.type)
        kind, keys = (TensorProto.STRING, "keys_strings") if text else (TensorProto.INT64, "keys_int64s")
        inputs.append(helper.make_tensor_value_info(f"{side}_id", kind, ["pairs"]))
        settings = {keys: ids.arrow.to_pylist(), "values_int64s": list(range(len(ids))), "default_int64": len(ids)}
        node("LabelEncoder", f"{side}_code", f"{side}_id", domain="ai.onnx.ml", **settings)
        node("Gather", side, f"{side}s", f"{side}_code", axis=0)
    node("Mul", "products", "user", "item")
    node("ReduceSum", "product", "products", "axis", keepdims=0)
    node("Gather", "offset", "offsets", "item_code", axis=0)
    node("Add", "logit", "product", "offset")
    node("Sigmoid", "mean", "logit")
    node("Mul", "scaled", "mean", "span")
    node("Add", "prediction", "scaled", "low")
    output = helper.make_tensor_value_info("prediction", TensorProto.FLOAT, ["pairs"])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ENCODER_OPSET)]
    about = {"producer_name": "unskew", "producer_version": __version__, "ir_version": IR_VERSION}
    return helper.make_model(
        helper.make_graph(nodes, "unskew", inputs, [output], constants), opset_imports=opsets, **about
    )


def _largest_difference(model: Recommender, session: Any) -> float:
    """Measure how far the scorer is from the model on random pairs, as a share of the scale; the last are unknown."""
    log, rng, asked = model.log, np.random.default_rng(0), dict[str, Any]()
    users, items = (rng.integers(-1, n, PAIRS_CHECKED) for n in (log.n_users, log.n_items))
    users[-3:], items[-3:] = (-1, 0, -1), (0, -1, -1)
    for name, ids, codes in (("user_id", log.user_ids, users), ("item_id", log.item_ids, items)):
        known = ids.take(np.maximum(codes, 0)).to_numpy(zero_copy_only=False).copy()
        whole = known.dtype.kind == "i"
        known[codes < 0] = next(n for n in range(len(ids) + 1) if ids.codes([n])[0] < 0) if whole else ""
        asked[name] = known if whole else known.astype(object)
    (found,) = session.run(["prediction"], asked)
    span = 1.0 if log.binary else log.scale.high - log.scale.low
    return float(np.abs(found - log.scale.from_unit(model.predict_codes(users, items))).max() / span)
