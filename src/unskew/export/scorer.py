"""A model as an ONNX file that takes external ids, checked against the model before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import ParameterError, UnskewError
from unskew.export.graph import graph_of
from unskew.model import Recommender
from unskew.store.atomic import PathLike, checked_path, reason, replace_file

TOLERANCE = 1e-5  # of the scale, between the scorer and the model
PAIRS_CHECKED = 10_000
LARGEST_FILE = 2_000_000_000  # bytes: what ONNX files can hold, nearly


@dataclass(frozen=True)
class Scorer:
    """Where the scorer is, and by how much it differed from the model on random pairs, a share of the scale."""

    path: Path
    n_checked: int
    largest_difference: float


def to_onnx(model: Recommender, path: PathLike) -> Scorer:
    """Write the prediction as one ONNX file with inputs user_id and item_id, equally long, and output prediction.

    Ids are those of the log, integers or texts, and predictions are on its scale; an unknown user or item is answered
    for as the average one. onnxruntime is asked about random pairs, strangers among them, and the file is written only
    if it answers as the model does, to 1e-5.
    """
    target = checked_path(path)
    _refuse_too_large(model)
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ParameterError(
            f"Exporting to ONNX needs the package {error.name}: install it by pip install 'unskew[onnx]'."
        ) from error
    made = graph_of(model)
    onnx.checker.check_model(made)
    data = made.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    n_checked, difference = _compared(model, session)
    if not difference <= TOLERANCE:
        raise UnskewError(
            f"The ONNX scorer differs from the model by up to {difference:.2g} of its scale, more than {TOLERANCE:g}; "
            "nothing was written."
        )
    try:
        replace_file(target, data)
    except OSError as error:
        raise ParameterError(f"{target} cannot be written: {reason(error)}.") from error
    return Scorer(target, n_checked, difference)


def _compared(model: Recommender, session: Any) -> tuple[int, float]:
    """How many pairs were asked about, and the largest difference; the last pairs have strangers."""
    log, generator = model.log, np.random.default_rng(0)
    users = generator.integers(-1, log.n_users, PAIRS_CHECKED)
    items = generator.integers(-1, log.n_items, PAIRS_CHECKED)
    users[-3:], items[-3:] = (-1, 0, -1), (0, -1, -1)
    expected = log.scale.from_unit(model.predict_codes(users, items))
    asked = {"user_id": _ids(log.user_ids, users), "item_id": _ids(log.item_ids, items)}
    (said,) = session.run(["prediction"], asked)
    span = 1.0 if log.binary else log.scale.high - log.scale.low
    return len(users), float(np.abs(said - expected).max() / span)


def _ids(vocabulary: Any, codes: Any) -> Any:
    """External ids of codes; -1 becomes an id that the vocabulary does not have."""
    known = vocabulary.take(np.maximum(codes, 0)).to_numpy(zero_copy_only=False)
    if known.dtype.kind == "i":
        stranger: Any = next(n for n in range(len(vocabulary) + 1) if vocabulary.codes([n])[0] < 0)
    else:
        known, stranger = known.astype(object), ""
    known = known.copy()
    known[codes < 0] = stranger
    return known


def _refuse_too_large(model: Recommender) -> None:
    """An id takes its bytes and its code; a net takes its rows."""
    log = model.log
    size = sum(value.nbytes for value in model.part("prediction").state().values())
    size += sum(2 * ids.arrow.nbytes for ids in (log.user_ids, log.item_ids))
    if size > LARGEST_FILE:
        raise ParameterError(
            f"The scorer would take {size / 1e9:.1f} GB, and an ONNX file holds at most 2: export it as Parquet."
        )
