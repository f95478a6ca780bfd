"""Models of every version that was ever written can still be read, and answer as they did."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.errors import ParameterError
from unskew.store.legacy import renamed, upgraded
from unskew.store.model import VERSION
from unskew.store.recipe import read_fit

MODELS = Path(__file__).parent / "models"
KEPT = sorted(path.with_suffix("") for path in MODELS.glob("version-*/*.json"))


def answers(model):
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
    for found in (answers(model), answers(saved_again(model, tmp_path / "model"))):
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


def saved_again(model, path):
    model.save(path)
    return unskew.load(path)
