"""A fitted recommender as a folder of safetensors, Arrow and JSON, and back without executing anything."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as arrays_to_bytes

from unskew._version import __version__
from unskew.calibration.report import CalibrationReport, Figures, RoleCalibration, WeightReport
from unskew.data.features import Features
from unskew.data.guess import Names
from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.data.population import ListedRows
from unskew.data.scale import Scale
from unskew.errors import ModelFileError, ParameterError, UnskewError, flag
from unskew.losses.batch import Parts
from unskew.methods.base import Method
from unskew.model import Recommender
from unskew.nets.base import Part, PartSpec
from unskew.selection.random_ratings import Correction, Line, RandomRatings
from unskew.store.atomic import PathLike, checked_path, reason, refuse_others, replaced_folder, standing, write_synced
from unskew.store.legacy import upgraded
from unskew.store.plain import Arrays, Plain, prefixed, under
from unskew.store.recipe import FitRecipe, plain
from unskew.training.options import Epoch, History, Training

RATINGS, USERS, ITEMS = "log.arrow", "users.arrow", "items.arrow"
SHOWN, RANDOM, CONTEXT = "shown.arrow", "random.arrow", "context.arrow"  # of impressions
USER_FEATURES, ITEM_FEATURES = "user_features.arrow", "item_features.arrow"
COLUMNS = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float32()}
FURTHER = {"stars": pa.float32(), "times": pa.float64(), "cells": pa.float32(), "chances": pa.float32()}
MANIFEST, WEIGHTS, RECIPE = "model.json", "weights.safetensors", "recipe.toml"
JUDGE = "judge.bin"  # what the judge has fitted since, which may be deleted
LOGGER = logging.getLogger(__name__)
FORMAT, VERSION = "unskew model", 3
# Files that a folder may hold besides.
OWN = (WEIGHTS, RECIPE, RATINGS, USERS, ITEMS, SHOWN, RANDOM, CONTEXT, USER_FEATURES, ITEM_FEATURES)
UNREADABLE = (pa.ArrowException, SafetensorError)


@dataclass(frozen=True)
class LogFacts:
    """What the columns of a log do not say."""

    scale: Scale
    duplicates_merged: int
    names: dict[str, str] = field(default_factory=dict)
    library: str = "pyarrow"
    target: str | None = None


@dataclass(frozen=True)
class Contents:
    """All of a model that is not arrays."""

    unskew: str
    method: Method
    seed: int
    parts: tuple[str, ...]
    clips: dict[str, float]
    calibrators: dict[str, str]
    history: History
    weights: WeightReport | None
    calibration: CalibrationReport | None
    log: LogFacts
    training: Training | None = None
    n_fitted_users: int | None = None
    random_ratings: RandomRatings | None = None
    corrections: dict[str, Line] = field(default_factory=dict)
    fitted_on: Literal["train", "all"] = "train"


KEPT = tuple({of.name for of in fields(Contents)} & {of.name for of in fields(Recommender)} - {"log", "parts"})
# Every dataclass that the annotations of `Contents` lead to, recipes apart.
RECORDS = (
    *(Contents, LogFacts, Scale, History, Epoch, WeightReport),
    *(CalibrationReport, RoleCalibration, Figures, RandomRatings, Correction, Line),
)


def save(model: Recommender, path: PathLike, *, without_log: bool = False) -> None:
    """Write the model as a folder that appears whole or not at all.

    A model that stands there is replaced; anything else but an empty folder is refused. A propensity that is
    a function is left out, and the saved history has a note of it. The folder holds the log, ids included; without it
    the model still answers, but nobody can tell what users have rated, fold new users in or diagnose it.
    """
    target, without_log = checked_path(path), flag(without_log, "without_log")
    log = model.log.take(np.zeros(len(model.log), np.bool_)) if without_log else model.log
    recipe, why_none = _recipe(model)
    contents, arrays = _contents(model, log, why_none)
    written = plain(RECORDS, arrays).write(contents)  # which may add arrays
    weights = arrays_to_bytes({name: np.asarray(array, order="C") for name, array in arrays.items()})
    files = recipe | {WEIGHTS: weights} | {name: _arrow_bytes(table) for name, table in _log_tables(log).items()}
    try:
        refuse_foreign(target)
        with replaced_folder(target) as folder:
            digests = {name: hashlib.sha256(held).hexdigest() for name, held in files.items()}
            for name, held in files.items():
                write_synced(folder / name, held)
            manifest = {"format": FORMAT, "version": VERSION, **written, "files": digests}
            write_synced(folder / MANIFEST, (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode())
    except OSError as error:
        raise ModelFileError(
            f"The model cannot be saved to {target}: {reason(error)}; nothing has been changed there."
        ) from error


def load(path: PathLike) -> Recommender:
    """Return the model saved in a folder; it answers with the same bits.

    Every file is checked by its SHA-256 before it is used, and nothing in it is executed. The checks detect damage, not
    forgery: whoever can write the folder can write another model.

    Examples:
        >>> import tempfile
        >>> model = unskew.make("naive").fit(unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0).log)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model")
        ...     bool(unskew.load(f"{folder}/model").predict(3, 7) == model.predict(3, 7))
        True
    """
    folder = standing(checked_path(path))
    with _one_sentence(folder):
        if not folder.is_dir():
            raise ModelFileError("it is not a folder." if folder.exists() else "there is no such folder.")
        content = _manifest(folder)
        files = _files(folder, content)
        LOGGER.debug("read %s files of the model %s", len(files), folder)
        return replace(_model(content, files), folder=folder)


def refuse_foreign(target: Path) -> None:
    """Refuse to replace what is no model: a file, or a folder that holds anything else."""
    refuse_others(target, (MANIFEST, JUDGE, *OWN) if _described(target) is not None else (), ModelFileError)


def _described(folder: Path) -> dict[str, Any] | None:
    """Return what model.json says; None if there is none, or if it is not ours."""
    try:
        content = json.loads((folder / MANIFEST).read_bytes()) if (folder / MANIFEST).is_file() else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.pop("format", None) == FORMAT else None


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the same of a version that is known, refused if it is not."""
    if not (folder / MANIFEST).is_file():
        raise ModelFileError(f"{MANIFEST} is missing.")
    content = _described(folder)
    if content is None:
        raise ModelFileError(f"{MANIFEST} does not describe an unskew model.")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ModelFileError(
            f"{MANIFEST} has format version {version!r}, where this unskew reads 1 to {VERSION}: update unskew."
        )
    content.pop("sha256", None)  # of versions before 3
    return content


def _files(folder: Path, content: dict[str, Any]) -> dict[str, bytes]:
    """Return the bytes of the files that are listed, which must be those saved; versions before 3 also list sizes."""
    listed, found = content.pop("files", None), dict[str, bytes]()
    if not isinstance(listed, dict):
        raise ModelFileError(f"the files in {MANIFEST} must be a table of names and digests.")
    for name, entry in listed.items():
        if name not in OWN:
            raise ModelFileError(f"{MANIFEST} lists {name!r}, which is not a file of a model.")
        if not (folder / name).is_file():
            raise ModelFileError(f"{name} is missing.")
        found[name] = (folder / name).read_bytes()
        if hashlib.sha256(found[name]).hexdigest() != (entry.get("sha256") if isinstance(entry, dict) else entry):
            raise ModelFileError(f"{name} has been altered or damaged: its SHA-256 is not the one saved.")
    return found


def _contents(model: Recommender, log: RatingLog, notes: Sequence[str]) -> tuple[Contents, Arrays]:
    """Return all of a model that is plain, and arrays by role; of a part that is not data there is only a note."""
    learned = {role: part.state() for role, part in model.parts.parts.items() if part.is_data}
    lost = [
        f"The {role} was a function, which is not data, and is not in the model file."
        for role in model.parts.parts
        if role not in learned
    ]
    kept: dict[str, Any] = {name: getattr(model, name) for name in KEPT}
    kept["history"] = replace(model.history, notes=[*model.history.notes, *notes, *lost])
    kept["training"] = None if model.training is None else model.training.lasting
    contents = Contents(
        unskew=__version__,
        parts=tuple(learned),
        clips=dict(model.parts.clips),
        calibrators=dict(model.parts.calibrators),
        log=LogFacts(log.scale, log.duplicates_merged, log.names._asdict(), log.library, log.target),
        **kept,
    )
    return contents, {name: array for part, own in learned.items() for name, array in prefixed(part, own).items()}


def _recipe(model: Recommender) -> tuple[dict[str, bytes], list[str]]:
    """Return the file by which the model can be fitted again, or a note that says why there is none."""
    recipe = FitRecipe(model.method, (model.training or Training()).lasting, model.seed, model.log.scale)
    random = model.random_ratings
    also = "" if random is None else f"# With {random.n_ratings:,} random ratings (--random-ratings) next to its log.\n"
    try:
        return {RECIPE: (also + recipe.as_text()).encode()}, []
    except (ParameterError, UnicodeEncodeError):
        note = f"The model file has no {RECIPE}, as the method holds what TOML cannot."
        return {}, [note] if note not in model.history.notes else []


def _model(content: dict[str, Any], files: dict[str, bytes]) -> Recommender:
    if WEIGHTS not in files:
        raise ModelFileError(f"{MANIFEST} does not list {WEIGHTS}.")
    arrays, version = arrays_from_bytes(files[WEIGHTS]), content.pop("version")
    log = _log(files, Plain({}, RECORDS, {}).read(LogFacts, content.get("log"), "log"))
    if version == 1:
        content, arrays = upgraded(content, arrays)
    kept: Contents = plain(RECORDS, arrays).read(Contents, content, MANIFEST)
    plan, parts = kept.method.plan(), dict[str, Part]()
    for name in kept.parts:
        if name not in plan.roles:
            raise ModelFileError(f"{type(kept.method).__name__} has no role {name!r}.")
        role = plan.roles[name]
        parts[name] = _part(role.part, under(name, arrays), log, parts.get(role.shares_with))
    found = Parts(parts, clips=kept.clips, calibrators=kept.calibrators, error=plan.error)
    found.still = frozenset(parts)
    return Recommender(log=log, parts=found, **{name: getattr(kept, name) for name in KEPT})


def _part(spec: PartSpec, arrays: Arrays, log: RatingLog, owner: Part | None = None) -> Part:
    """Return the part of this specification with these arrays, refused if it is not a part of this log."""
    try:
        part = spec.from_state(arrays, owner)
    except UnskewError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ParameterError(
            f"the arrays of its {type(spec).__name__} are damaged, or those of another version of unskew: fit again."
        ) from error
    name, own = type(part).__name__, sorted(part.state())
    if sorted(arrays) != own:
        raise ParameterError(f"{name} consists of the arrays {own}, not {sorted(arrays)}.")
    for side, known, size in zip(("users", "items"), part.sizes(), (log.n_users, log.n_items), strict=True):
        if known is not None and known != size:
            raise ParameterError(f"{name} knows {known} {side}, but the log has {size}.")
    return part


@contextmanager
def _one_sentence(folder: Path) -> Iterator[None]:
    """Whatever is wrong with a model's files, say it as a `ModelFileError` that names the folder."""
    try:
        yield
    except OSError as error:
        raise ModelFileError(f"The model {folder} cannot be read: {reason(error)}.") from error
    except UnskewError as error:
        raise ModelFileError(f"The model {folder} cannot be loaded: {error}") from error
    except (*UNREADABLE, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"The model {folder} does not fit together: {error}.") from error


def _log_tables(log: RatingLog) -> dict[str, pa.Table]:
    """Return what the files of a log hold, by name; ratings and ids are not copied."""
    further = {name: pa.array(held, kind) for name, kind in FURTHER.items() if (held := getattr(log, name)) is not None}
    tables = {
        RATINGS: pa.table(_rating_columns(log) | further),
        USERS: pa.table({"id": log.user_ids.arrow}),
        ITEMS: pa.table({"id": log.item_ids.arrow} | ({} if log.titles is None else {"title": log.titles})),
    }
    if log.listed is not None and len(log):
        tables[SHOWN] = pa.table(log.listed.arrays())
    if log.context is not None and len(log):
        tables[CONTEXT] = pa.table(dict(log.context))
    if log.random is not None and len(log):
        tables[RANDOM] = pa.table(_rating_columns(log.random))
    for name, features in ((USER_FEATURES, log.user_features), (ITEM_FEATURES, log.item_features)):
        if features is not None:
            held = dict(zip(features.names, features.values.T, strict=True))
            tables[name] = pa.table({of: np.ascontiguousarray(values) for of, values in held.items()})
    return tables


def _rating_columns(log: RatingLog) -> dict[str, pa.Array]:
    columns = zip(COLUMNS, (log.users, log.items, log.ratings), strict=True)
    return {name: pa.array(values, COLUMNS[name]) for name, values in columns}


def log_digest(log: RatingLog) -> str:
    """Return the same for the same log only: its rows in their order, ids, scale and features."""
    digest = hashlib.sha256(repr(log.scale).encode())
    for name, table in sorted(_log_tables(log).items()):
        known = [column for column in table.column_names if column not in ("times", "title")]
        digest.update(name.encode() + _arrow_bytes(table.select(known)))
    return digest.hexdigest()[:32]


def _log(files: Mapping[str, bytes], facts: LogFacts) -> RatingLog:
    """Return the log of these tables; it checks itself as every log does, unless it was saved without rows."""
    table, users, items = (_read(files, name) for name in (RATINGS, USERS, ITEMS))
    known = COLUMNS | FURTHER
    if not set(COLUMNS) <= set(table.column_names) or any(known.get(of.name) != of.type for of in table.schema):
        raise ModelFileError(f"{RATINGS} does not have the columns {', '.join(COLUMNS)} of the right types.")
    fields: dict[str, Any] = {"stars": None, "times": None} | _ratings(table)
    fields |= {"user_ids": Vocabulary(users["id"], USERS), "item_ids": Vocabulary(items["id"], ITEMS)}
    fields |= {"scale": facts.scale, "duplicates_merged": facts.duplicates_merged, "library": facts.library}
    fields |= {"names": Names(**facts.names), "notes": (), "target": facts.target}
    fields["titles"] = items["title"].combine_chunks() if "title" in items.column_names else None
    if SHOWN in files:
        fields["listed"] = ListedRows.of(_columns(_read(files, SHOWN)))
    if CONTEXT in files:
        fields["context"] = _columns(_read(files, CONTEXT))
    for name, side in ((USER_FEATURES, "user_features"), (ITEM_FEATURES, "item_features")):
        if name in files:
            held = _columns(_read(files, name))
            fields[side] = Features(tuple(held), np.column_stack([*held.values()]))
    if RANDOM in files:
        none = dict.fromkeys(("stars", "times", "cells", "chances", "context"))
        fields["random"] = RatingLog(**fields | none | _ratings(_read(files, RANDOM).select([*COLUMNS])))
    return RatingLog(**fields) if len(table) else RatingLog.proved(**fields)  # a model may be saved without its log


def _columns(table: pa.Table) -> Arrays:
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _ratings(table: pa.Table) -> Arrays:
    """Return the same by what a log calls them: the column user holds its users, item its items, rating its ratings."""
    return {f"{name}s" if name in COLUMNS else name: column for name, column in _columns(table).items()}


def _arrow_bytes(table: pa.Table) -> Any:
    """Return the table as an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(files: Mapping[str, bytes], name: str) -> pa.Table:
    if name not in files:
        raise ModelFileError(f"model.json does not list {name}.")
    table = pa.ipc.open_file(pa.BufferReader(files[name])).read_all()
    table.validate(full=True)  # Arrow believes the offsets inside a file unless asked not to
    return table
