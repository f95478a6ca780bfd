"""Users and items as vectors whose inner products are the model's logits, for a nearest-neighbour index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew._version import __version__
from unskew.data.ids import Vocabulary
from unskew.errors import ParameterError
from unskew.model import Recommender
from unskew.nets.base import Linear, Net
from unskew.store.atomic import PathLike, checked_path, reason, replaced_folder

Array = NDArray[Any]
USERS, ITEMS = "users.parquet", "items.parquet"
ROWS_AT_ONCE = 1 << 16
MAPPED = (
    "the inner product is what the model knows of liking; its answers are mapped from there, which changes no user's "
    "ranking by a calibrated net, and that by a posterior hardly"
)


@dataclass(frozen=True)
class Vectors:
    """What was written where, and what to know of it."""

    folder: Path
    n_users: int
    n_items: int
    n_columns: int
    notes: tuple[str, ...]


def to_parquet(model: Recommender, folder: PathLike) -> Vectors:
    """Write users.parquet and items.parquet into a folder: ids, and vectors of single precision with equal lengths.

    The inner product of a user's and an item's vector is the model's logit: biases are columns of the vectors.
    """
    target = checked_path(folder)
    mapped = "prediction" in model.parts.calibrators or not isinstance(model.part("prediction"), Net)
    form, notes = _form(model) if mapped else _corrected(model, _form(model)), (MAPPED,) if mapped else ()
    sides = {
        USERS: (model.log.user_ids, "user_id", form.users, np.ones((len(form.users), 1), np.float32)),
        ITEMS: (model.log.item_ids, "item_id", form.items, form.offsets[:, None]),
    }
    try:
        _refuse_foreign(target)
        with replaced_folder(target) as fresh:
            for name, (ids, key, vectors, last) in sides.items():
                _write(fresh / name, ids, key, vectors, last, notes)
    except OSError as error:
        raise ParameterError(f"The vectors cannot be written to {target}: {reason(error)}.") from error
    return Vectors(target, len(form.users), len(form.items), form.users.shape[1] + 1, notes)


def _form(model: Recommender) -> Linear:
    net = model.part("prediction")
    form = net.linear()
    if form is None:
        raise ParameterError(
            f"A {type(net).__name__} is no inner product of users and items and has no vectors: export it as ONNX."
        )
    return Linear(form.users[:-1], form.items[:-1], form.offsets[:-1])  # without the average ones


def _corrected(model: Recommender, form: Linear) -> Linear:
    """The form with the line that random ratings have put through the logit, which its offsets and items take in."""
    line = model.corrections.get("prediction")
    if line is None:
        return form
    return Linear(form.users, line.slope * form.items, line.slope * form.offsets + line.shift)


def _write(path: Path, ids: Vocabulary, key: str, vectors: Array, last: Array, notes: tuple[str, ...]) -> None:
    """In stretches, so that no second copy of all vectors is ever held."""
    width = vectors.shape[1] + 1
    about = {"unskew": __version__, "inner_product": "logit", "notes": list(notes)}
    kind = pa.list_(pa.float32(), width)
    schema = pa.schema([(key, ids.arrow.type), ("vector", kind)], {"unskew": json.dumps(about)})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(ids), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            rows = np.hstack([vectors[part], last[part]]).astype(np.float32)
            column = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows)), width)
            writer.write_table(pa.table([ids.arrow[part], column], schema=schema))


def _refuse_foreign(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise ParameterError(f"{target} is a file: give the path of a folder.")
    foreign = sorted({path.name for path in target.iterdir()} - {USERS, ITEMS}) if target.exists() else []
    if foreign:
        raise ParameterError(f"{target} holds {foreign[0]!r}, which would be lost: give another folder.")
