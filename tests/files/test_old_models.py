"""Models of every version that was ever written can still be read, and answer as they did."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.files.manifest import VERSION
from unskew.recipe import read_fit

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
    for found in (answers(model), answers(saved_again(model, tmp_path / "model"))):
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-7, err_msg=name)
    assert read_fit(path / "recipe.toml").method == model.method


def saved_again(model, path):
    model.save(path)
    return unskew.load(path)
