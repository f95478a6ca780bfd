"""Whatever stands in a recipe or in a model's folder, it works or is refused in one sentence.

Not only damage, which digests detect, but malice too: every file altered here has the digest that the manifest states.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as arrays_to_bytes

import unskew
from unskew.registry import make
from unskew.store.recipe import FitRecipe, read_fit

many = settings.get_profile("faults")
BRIEF = unskew.Training(max_epochs=1, batch_size=64, progress=False)
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


changes = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from(HOW), odd),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1).log


def as_toml(value):
    """What TOML can say of a value, and nonsense for the rest."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(held)}" for key, held in value.items()) + "}"
    return str(value) if isinstance(value, float) else json.dumps(value)


def test_any_recipe_is_fitted_or_refused_and_writes_nothing(contained, in_our_words, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = {name: tomllib.loads(FitRecipe(make(name), BRIEF, 3, log.scale).as_text()) for name in METHODS}
    path = tmp_path / "recipe.toml"

    def fitted(recipe):
        training = replace(recipe.training, max_epochs=1, progress=False)
        return recipe.method.fit(log, seed=recipe.seed or 0, training=training)

    @many
    @given(st.sampled_from(METHODS), changes, st.none() | st.tuples(st.integers(0, 2000), st.binary(max_size=4)))
    def case(name, changed, cut):
        told = altered(whole[name], changed)
        text = "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in told.items())
        text = text.encode("utf-8", "surrogatepass")
        if cut is not None:
            place = cut[0] % (len(text) + 1)
            text = text[:place] + cut[1] + text[place + len(cut[1]) :]
        path.write_bytes(text)
        with np.errstate(all="ignore"):
            if (recipe := in_our_words(read_fit, path)) is not None:
                in_our_words(fitted, recipe)

    contained(case, about=path, at_least=0.1)
    assert [found.name for found in tmp_path.rglob("*")] == ["recipe.toml"]


@pytest.mark.parametrize("place", ["states", "../states", "/tmp/states"])
def test_a_recipe_cannot_say_where_to_write(place, commanded, ratings, tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    for text, sentence in (
        (f'method = "naive"\n[training]\ncheckpoint = "{place}"\n', "Training has no setting 'checkpoint' any more"),
        (f'method = "naive"\nout = "{place}"\n', "may hold 'method', 'training', 'seed', 'scale', not 'out'"),
    ):
        (inside / "recipe.toml").write_text(text)
        assert sentence in commanded("fit", ratings, "--method", "recipe.toml", code=2)
    assert [path.name for path in tmp_path.rglob("*")] == ["inside", "recipe.toml"]


@pytest.fixture(scope="module")
def folders(log, tmp_path_factory):
    """Models of several kinds: calibrated twice, with features, corrected by a slice."""
    world = unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1)
    ages = {"user_id": list(range(20)), "age": [n / 7 for n in range(20)], "town": [f"t{n % 3}" for n in range(20)]}
    told = world.log.users, world.log.items, 1 + 4 * world.log.ratings
    described = unskew.RatingLog.from_arrays(*told, user_features=pa.table(ages))
    base = unskew.IPS(propensity=unskew.Additive())
    models = {
        "dce": make("dce-tdr").fit(world.log, training=BRIEF),
        "features": base.fit(described, training=BRIEF),
        "slice": base.fit(world.log, training=BRIEF, random_ratings=world.test),
    }
    root = tmp_path_factory.mktemp("hostile")
    for name, model in models.items():
        model.save(root / name)
    return root


def reseal(folder, name, contents):
    """Put other bytes into a file of a model and say in the manifest that they are right."""
    (folder / name).write_bytes(contents)
    content = json.loads((folder / "model.json").read_text())
    content["files"][name] = hashlib.sha256(contents).hexdigest()
    (folder / "model.json").write_text(json.dumps(content))


def used(folder):
    """A model is loaded and asked everything that is asked of models."""
    model = unskew.load(folder)
    users, items = np.divmod(np.arange(model.log.n_pairs), model.log.n_items)
    model.predict_codes(users[:500], items[:500])
    model.recommend(k=3)
    return str(model.history), str(model.weights), str(model.calibration), str(model.random_ratings)


def test_any_manifest_with_the_right_digest_is_used_or_refused(contained, in_our_words, folders, tmp_path):
    @many
    @given(st.sampled_from(["dce", "features", "slice"]), changes)
    def case(name, changed):
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / name, folder)
        content = json.loads((folder / "model.json").read_text())
        try:
            (folder / "model.json").write_text(json.dumps(altered(content, changed)))
        except ValueError:  # what JSON cannot hold
            return
        with np.errstate(all="ignore"):
            in_our_words(used, folder)

    contained(case, about=tmp_path / "model" / "model.json", at_least=0.1)


def test_any_weights_with_the_right_digest_are_used_or_refused(contained, in_our_words, folders, tmp_path):
    kinds = st.sampled_from(["<f4", "<f8", "<i8", "<i4", "|b1", "<f2", "|u1"])
    values = st.sampled_from([float("nan"), float("inf"), -1.0, 1e38, 0.0, 1e9])

    @many
    @given(
        st.sampled_from(["dce", "features", "slice"]),
        st.lists(
            st.tuples(
                st.integers(0, 100), st.sampled_from(["gone", "kind", "shape", "value", "name", "empty"]), kinds, values
            ),
            min_size=1,
            max_size=3,
        ),
    )
    def case(name, edits):
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / name, folder)
        arrays = arrays_from_bytes((folder / "weights.safetensors").read_bytes())
        for place, how, kind, value in edits:
            key = sorted(arrays)[place % len(arrays)]
            array = arrays.pop(key)
            if how == "kind":
                arrays[key] = array.astype(kind)
            elif how == "shape":
                arrays[key] = array.reshape(-1)[: place % (array.size + 1)]
            elif how == "value":
                arrays[key] = np.full_like(array, value)
            elif how == "name":
                arrays[f"{key}x"] = array
            elif how == "empty":
                arrays[key] = array[:0].copy() if array.ndim else array
            if not arrays:
                break
        reseal(folder, "weights.safetensors", arrays_to_bytes({k: a.copy(order="C") for k, a in arrays.items()}))
        with np.errstate(all="ignore"):
            in_our_words(used, folder)

    contained(case, about=tmp_path / "model" / "model.json", at_least=0.1)


def test_any_bytes_with_the_right_digest_are_used_or_refused(contained, in_our_words, folders, tmp_path):
    names = ("log.arrow", "users.arrow", "items.arrow", "user_features.arrow", "weights.safetensors", "recipe.toml")

    @many
    @given(
        st.sampled_from(names),
        st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=6),
        st.none() | st.integers(1, 2000),
        st.sampled_from(["front", "end", "anywhere"]),
    )
    def case(name, places, cut, where):
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / "features", folder)
        content = bytearray((folder / name).read_bytes())
        for place, value in places:
            at = place % 400 if where == "front" else -1 - place % 700 if where == "end" else place
            content[at % len(content)] = value
        reseal(folder, name, bytes(content if cut is None else content[:-cut]))
        with np.errstate(all="ignore"):
            in_our_words(used, folder)

    contained(case, about=tmp_path / "model" / "model.json", at_least=0.1)
