"""Claims about saved models: the same bits come back, damage of any kind is one sentence, and old ones are read."""

import hashlib
import importlib.util
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as arrays_to_bytes

import unskew
from unskew import DRJL, IPS, MF, Additive, Factors, GlobalPlatt, Known, Naive, RatingLog, Training
from unskew.data.features import Features
from unskew.data.split import holdout_split
from unskew.errors import DataError, ModelFileError, ParameterError
from unskew.methods.calibrated import DoublyCalibrated
from unskew.model import Recommender
from unskew.store.legacy import renamed, upgraded
from unskew.store.model import VERSION
from unskew.store.recipe import read_fit, to_plain
from unskew.training.loop import train

N_USERS, N_ITEMS, N_RATINGS = 30, 20, 220
BRIEF = Training(max_epochs=2)
FILES = ("weights.safetensors", "users.arrow", "items.arrow", "log.arrow", "recipe.toml", "model.json")


def drawn(seed, **settings):
    generator = np.random.default_rng(seed)
    users, items = np.divmod(generator.permutation(N_USERS * N_ITEMS)[:N_RATINGS], N_ITEMS)
    ratings = generator.integers(1, 6, N_RATINGS)
    names = np.array([f"user {code} é" for code in range(N_USERS)])
    catalogue = {"user_ids": names, "item_ids": np.arange(N_ITEMS) * 10}
    return RatingLog.from_arrays(names[users], items * 10, ratings, **catalogue, **settings)


def described(log):
    generator = np.random.default_rng(5)
    user_values, item_values = (generator.normal(size=(n, 2)) for n in (log.n_users, log.n_items))
    user_values[3, 1] = np.nan
    users = Features(("age", "größe"), user_values)
    return replace(log, user_features=users, item_features=Features(("price", "year"), item_values))


LOG = drawn(1)
COLUMN = np.random.default_rng(3).uniform(0.1, 1, N_RATINGS)


def fitted(method, log=LOG, seed=7):
    scale = {} if log.binary else {"positive": None, "rating_scale": (log.scale.low, log.scale.high)}
    return method.fit(log, seed=seed, training=BRIEF, random_ratings=drawn(2, **scale))


def fitted_to_seen_pairs(method):
    """Fitted without looking at unseen pairs, of which a known column says nothing."""
    split = holdout_split(LOG, BRIEF.holdout, seed=7)
    trained = train(method.plan(), split, seed=7, training=BRIEF)
    return Recommender(method, LOG, trained.parts, trained.history, 7)


def all_pairs(log):
    users, items = np.divmod(np.arange(log.n_pairs), log.n_items)
    return log.user_ids.take(users), log.item_ids.take(items)


def propensities(model):
    """Of all pairs, or of the seen ones if that is all the model knows; or the sentence that refuses."""
    log = model.log
    try:
        return model.propensity(*all_pairs(log)).tolist()
    except DataError:
        return model.propensity(log.user_ids.take(log.users), log.item_ids.take(log.items)).tolist()
    except ParameterError as refused:
        return str(refused)


def assert_same_answers(model, other):
    assert other.predict(*all_pairs(model.log)).tobytes() == model.predict(*all_pairs(model.log)).tobytes()
    assert propensities(other) == propensities(model)
    assert other.recommend(k=4).equals(model.recommend(k=4))
    unknown = {"users": ["nobody"], "k": 3, "on_unknown": "fallback"}
    assert other.recommend(**unknown).equals(model.recommend(**unknown))
    assert str(other.history) == str(model.history)
    for fact in {field.name for field in fields(Recommender)} - {"method", "log", "parts", "folder"}:
        assert getattr(other, fact) == getattr(model, fact)
    for facts in ("clips", "calibrators"):
        assert dict(getattr(other.parts, facts)) == dict(getattr(model.parts, facts))
    assert set(other.parts.parts) == set(model.parts.parts)


def saved_and_loaded(model, path):
    model.save(path)
    return unskew.load(path)


@pytest.mark.parametrize("scale", [{"positive": None, "rating_scale": (1, 5)}, {"positive": 4, "rating_scale": (0, 9)}])
def test_the_log_comes_back_with_scale_ids_and_features(scale, tmp_path):
    log = described(drawn(4, **scale))
    other = saved_and_loaded(fitted(Naive(), log), tmp_path / "model").log
    for name in ("users", "items", "ratings"):
        assert getattr(other, name).dtype == getattr(log, name).dtype
        assert getattr(other, name).tobytes() == getattr(log, name).tobytes()
    assert other.scale == log.scale
    assert (list(other.user_ids), list(other.item_ids)) == (list(log.user_ids), list(log.item_ids))
    for side in ("user_features", "item_features"):
        was, now = getattr(log, side), getattr(other, side)
        assert now.names == was.names
        assert np.array_equal(now.values, was.values, equal_nan=True)


CALIBRATED = DoublyCalibrated(DRJL(propensity=Additive()), imputation=GlobalPlatt())
GRADED = {"positive": None, "rating_scale": (1, 5)}


@pytest.mark.parametrize(("method", "scale"), [(Naive(error="squared"), GRADED), (CALIBRATED, {"positive": 4})])
def test_every_folder_holds_the_recipe_that_makes_the_same_bits_again(method, scale, tmp_path):
    log = drawn(6, **scale)
    training = Training(max_epochs=2, batch_size=32, progress=False)
    method.fit(log, seed=11, training=training).save(tmp_path / "model")
    recipe = read_fit(tmp_path / "model" / "recipe.toml")
    assert (recipe.method, recipe.seed, recipe.scale) == (method, 11, log.scale)
    recipe.method.fit(log, seed=recipe.seed, training=recipe.training).save(tmp_path / "again")
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("model", "again"))
    assert one == other


def test_a_known_column_is_data_and_comes_back_in_model_and_recipe(tmp_path):
    model = fitted_to_seen_pairs(IPS(propensity=Known(COLUMN)))
    other = saved_and_loaded(model, tmp_path / "model")
    assert_same_answers(model, other)
    assert other.method.propensity.pairs.tobytes() == COLUMN.tobytes()
    assert len((tmp_path / "model" / "model.json").read_text()) < 5_000  # long arrays stand with the weights
    by_tuple = fitted_to_seen_pairs(IPS(propensity=Known(tuple(COLUMN.tolist()))))
    assert saved_and_loaded(by_tuple, tmp_path / "model").method == by_tuple.method
    assert propensities(by_tuple) == propensities(model)


def test_a_propensity_by_function_is_left_out_with_a_note(tmp_path):
    model = fitted_to_seen_pairs(IPS(propensity=Known(lambda u, i: np.full(len(u), 0.4))))
    other = saved_and_loaded(model, tmp_path / "model")
    assert other.predict(*all_pairs(LOG)).tobytes() == model.predict(*all_pairs(LOG)).tobytes()
    assert other.weights == model.weights
    assert "propensity was a function" in other.history.notes[-1]
    assert not any("function" in note for note in model.history.notes)
    with pytest.raises(ParameterError, match="IPS has no propensity"):
        other.propensity("user 1 é", 10)
    with pytest.raises(ParameterError, match="make the recipe again with the function"):
        fitted(other.method)
    with pytest.raises(ParameterError, match=r"of Known is LostFunction\(.*, which is not data"):
        to_plain(other.method)
    assert_same_answers(other, saved_and_loaded(other, tmp_path / "again"))


@pytest.fixture(scope="module")
def model():
    return fitted(IPS(propensity=Factors(n_folds=2, net=MF(n_factors=2)), net=MF(n_factors=2)))


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def refusal(path):
    with pytest.raises(ModelFileError) as refused:
        unskew.load(path)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    return sentence


def test_the_folder_holds_the_documented_files_and_no_more(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    content = json.loads((folder / "model.json").read_text())
    assert (content["format"], content["version"]) == ("unskew model", VERSION)
    assert set(content["files"]) == set(FILES) - {"model.json"}


@pytest.mark.parametrize("name", FILES[:-1])
def test_no_flipped_cut_or_added_byte_goes_unnoticed(folder, name):
    original, generator = (folder / name).read_bytes(), np.random.default_rng(len(name))
    for place in generator.integers(len(original), size=8):
        flipped = original[:place] + bytes([original[place] ^ (1 << place % 8)]) + original[place + 1 :]
        for damaged in (flipped, original[:place], original + b"\0"):
            (folder / name).write_bytes(damaged)
            assert f"{name} has been altered or damaged" in refusal(folder)
    (folder / name).write_bytes(original)
    unskew.load(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_and_a_pipe_is_none(folder, name):
    (folder / name).unlink()
    assert f"{name} is missing" in refusal(folder)
    os.mkfifo(folder / name)  # opening it would wait for ever
    assert f"{name} is missing" in refusal(folder)


def test_what_is_no_model_is_refused(folder):
    for path in ("", "a\0b", b"bytes", 3, None):
        with pytest.raises(ParameterError, match="path"):
            unskew.load(path)
    assert "there is no such folder" in refusal(folder / "nothing")
    assert "it is not a folder" in refusal(str(folder / "model.json"))
    for text in (b"", b"{}", b"[1]", b"null", b"\xff", b"[" * 100_000, b'{"format": "unskew model"}'):
        (folder / "model.json").write_bytes(text)
        assert "model.json" in refusal(folder)


def forge(folder, change):
    """Rewrite model.json, as somebody could on purpose, and say how that is refused."""
    content = json.loads((folder / "model.json").read_text())
    change(content)
    (folder / "model.json").write_text(json.dumps(content))
    return refusal(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(version=4), "has format version 4, where this unskew reads 1 to 3: update unskew"),
        (lambda c: c["files"].update({"../secret": "0" * 64}), "lists '../secret', which is not a file of a model"),
        (lambda c: c["method"].update(kind="os.system"), "has the unknown kind 'os.system'"),
        (lambda c: c.pop("seed"), "Contents needs the setting 'seed'"),
        (lambda c: c["files"].pop("weights.safetensors"), "does not list weights.safetensors"),
        (lambda c: c["parts"].append("dictator"), "IPS has no role 'dictator'"),
        (lambda c: c["method"]["net"].update(n_factors=3), "A table of 4 columns cannot hold values of shape (31, 3)"),
        (lambda c: c["log"]["scale"].update(low=9), "rating_scale"),
    ],
)
def test_a_forged_manifest_is_refused(folder, change, sentence):
    """tests/faults alters every file of a model, with the right digest."""
    assert sentence in forge(folder, change)


def test_forged_weights_are_refused(folder):
    arrays = arrays_from_bytes((folder / "weights.safetensors").read_bytes())
    for changed, sentence in (
        ({"prediction/users": arrays["prediction/users"][1:]}, "FactorNet knows 29 users, but the log has 30"),
        ({"prediction/more": arrays["prediction/users"]}, "FactorNet consists of the arrays"),
        (
            {"propensity/folds": arrays["prediction/offset"]},
            "the arrays of its Factors are damaged, or those of anothe",
        ),
    ):
        contents = arrays_to_bytes(arrays | changed)
        (folder / "weights.safetensors").write_bytes(contents)
        digest = hashlib.sha256(contents).hexdigest()
        assert sentence in forge(folder, lambda c, digest=digest: c["files"].update({"weights.safetensors": digest}))


def refused_save(model, path):
    with pytest.raises(ModelFileError) as refused:
        model.save(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_model_replaces_a_model_by_a_link_too_and_an_empty_folder(model, folder):
    """With all of its files: features of the older one do not stay behind."""
    fitted(Naive(), described(LOG)).save(folder)
    assert (folder / "user_features.arrow").exists()
    other, link, empty = fitted(Naive()), folder.parent / "link", folder.parent / "empty"
    link.symlink_to(folder)
    other.save(link)
    assert link.is_symlink()
    assert_same_answers(other, unskew.load(folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    empty.mkdir()
    model.save(empty)
    assert_same_answers(model, unskew.load(empty))
    assert sorted(path.name for path in folder.parent.iterdir()) == ["empty", "link", "model"]


def test_anything_else_is_never_replaced(model, folder, monkeypatch):
    parent = folder.parent
    (folder / "notes.txt").write_text("mine")
    assert "holds 'notes.txt', which would be lost" in refused_save(model, folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert_same_answers(model, unskew.load(folder))
    (parent / "photos").mkdir()
    (parent / "photos" / "model.json").write_text("{}")
    assert "holds 'model.json'" in refused_save(model, parent / "photos")
    (parent / "file").write_text("mine")
    assert "is a file" in refused_save(model, parent / "file")
    monkeypatch.chdir(folder)
    assert "holds 'notes.txt'" in refused_save(model, ".")
    (folder / "notes.txt").unlink()
    assert "is the current folder" in refused_save(model, ".")
    assert "no such file or directory" in refused_save(model, parent / "nowhere" / "model")
    assert sorted(path.name for path in parent.iterdir()) == ["file", "model", "photos"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_puts_the_previous_model_back(model, folder, monkeypatch, failing):
    rename, calls = Path.rename, []

    def once(self, target):
        calls.append(target)
        if len(calls) == failing:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", once)
    assert "permission denied" in refused_save(fitted(Naive()), folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert_same_answers(model, unskew.load(folder))


def test_an_old_model_that_cannot_be_removed_is_reported(model, folder, monkeypatch):
    def refuse(path, **settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.warns(UserWarning, match=r"is saved, but the old .* cannot be removed: permission denied"):
        model.save(folder)
    assert_same_answers(model, unskew.load(folder))


def test_a_model_saved_without_its_log_answers_and_says_what_it_cannot(tmp_path):
    model = fitted(IPS(propensity=Additive(), net=MF(n_factors=2)))
    model.save(tmp_path / "model", without_log=True)
    other = unskew.load(tmp_path / "model")
    users, items = list(LOG.user_ids)[:5], list(LOG.item_ids)[:5]
    assert model.predict(users, items).tobytes() == other.predict(users, items).tobytes()
    assert other.recommend(users[:1], k=3, exclude_seen=False).num_rows == 3
    new = {"user_id": ["new"], "item_id": items[:1], "rating": [1]}
    asks = (lambda: other.recommend(users[:1]), lambda: other.split, lambda: other.explain(users[0], items[0]))
    for ask in (*asks, lambda: other.fold_in(pa.table(new))):
        with pytest.raises(ParameterError, match="The model was saved without its log, and does not know what"):
            ask()
    other.save(tmp_path / "again")
    assert len(unskew.load(tmp_path / "again").log) == 0


MODELS = Path(__file__).parent / "models"
KEPT = sorted(path.with_suffix("") for path in MODELS.glob("version-*/*.json"))


def as_written(model):
    spec = importlib.util.spec_from_file_location("write", MODELS / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answers(model)


def test_there_are_models_of_every_version_up_to_this_one():
    versions = {json.loads((path / "model.json").read_text())["version"] for path in KEPT}
    assert versions == set(range(1, VERSION + 1))
    assert {path.name for path in KEPT} >= {"binary", "graded", "dce"}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_old_model_answers_as_it_did(path, tmp_path):
    expected = json.loads(path.with_suffix(".json").read_text())
    model = unskew.load(path)
    lost = {"propensity", "imputation"} & expected.keys() if path.parent.name == "version-1" else set()
    assert bool(lost) == any("was read without" in note for note in model.history.notes)
    for found in (as_written(model), as_written(saved_and_loaded(model, tmp_path / "model"))):
        assert set(found) == set(expected) - lost
        for name, values in ((name, expected[name]) for name in found):
            # The maps of these few ratings have slopes in the thousands, and single precision rounds them.
            close = {"atol": 1e-5} if name == "imputation" else {"rtol": 1e-5, "atol": 1e-7}
            np.testing.assert_allclose(found[name], values, err_msg=name, **close)
    assert read_fit(path / "recipe.toml").method == model.method


def test_what_is_gone_is_refused_with_what_replaces_it():
    for kind, sentence in (("DRML", "unskew.DRML is gone: use DRJL."), ("Dense", "unskew.Dense is gone: use MF.")):
        with pytest.raises(ParameterError) as refused:
            renamed({"kind": "Naive", "net": [{"kind": kind}]})
        assert str(refused.value) == sentence
    arrays = {"prediction/users.value": np.ones((2, 1)), "prediction/users.features": np.ones((2, 1))}
    with pytest.raises(ParameterError, match=r"read features of users and items.*fit again"):
        upgraded({"players": ["prediction"], "history": {"notes": []}}, arrays)


def test_old_names_are_read_as_todays():
    assert renamed({"kind": "Trunk", "spread": 1}) == {"kind": "MF", "biases": False, "init_std": 1}
    assert renamed({"kind": "RandomPlatt"}) == {"kind": "ExpertPlatt", "assignment": "random"}
    assert renamed({"kind": "StableDR", "imputation": "mrdr"}) == {"kind": "StableDR", "weighting": "mrdr"}
    assert renamed({"kind": "NCF", "spread": 0.1}) == {"kind": "NCF", "init_std": 0.1}
