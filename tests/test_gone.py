"""Names that went answer with one sentence that says what to use, and what they name is there."""

import re

import pytest
from typer.testing import CliRunner

import unskew
from unskew import gone
from unskew.cli import app
from unskew.errors import ParameterError
from unskew.store.recipe import from_plain

REGISTERED = {entry.name for entry in unskew.registered()}


@pytest.mark.parametrize("name", gone.METHODS)
def test_a_method_that_went_names_a_registered_one(name):
    assert name not in REGISTERED
    with pytest.raises(ParameterError, match=f"^The method '{name}' is gone: use '[a-z-]+'.$") as refused:
        unskew.make(name)
    assert str(refused.value).split("'")[3] in REGISTERED


@pytest.mark.parametrize("name", gone.NAMES)
def test_a_class_that_went_names_what_exists(name):
    with pytest.raises(AttributeError, match=rf"^unskew.{name} is gone: use .*\.$"):
        getattr(unskew, name)
    first = re.split(r"[ ,(]", gone.NAMES[name])[0]
    assert first == "the" or hasattr(unskew, first)


@pytest.mark.parametrize("words", [[name] for name in gone.COMMANDS] + [["fit", name] for name in gone.OPTIONS])
def test_a_command_or_option_that_went_is_refused_in_a_sentence(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: {words[-1]} is gone: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("name", gone.TRAINING)
def test_an_option_of_training_that_went_is_refused_in_a_sentence(name):
    with pytest.raises(ParameterError, match=rf"^Training has no option '{name}' any more: .*\.$"):
        unskew.Training(**{name: 1})


def test_settings_that_went_are_refused_in_a_sentence():
    with pytest.raises(ParameterError, match=r"^The setting 'n_members' is gone: .*\.$"):
        unskew.make("dce-dr", n_members=5)
    for setting in ("l2", "clip"):
        with pytest.raises(ParameterError, match=rf"^{setting}='auto' is gone: .* `unskew tune`\.$"):
            unskew.make("ips", **{setting: "auto"})


def test_old_files_are_read_where_what_went_changes_nothing():
    old = {"kind": "Training", "max_epochs": 3, "checkpoint": "", "spread": False, "member": 0, "engine": "compiled"}
    assert from_plain(old) == unskew.Training(max_epochs=3)
    net = {"kind": "MF", "n_factors": 4, "features": "auto", "feature_l2": 0.7}
    assert from_plain(net) == unskew.MF(n_factors=4)
    for broken in (old | {"checkpoint": "states"}, net | {"features": "always"}):
        with pytest.raises(ParameterError, match=r"has no setting '\w+' any more, and here it is '\w+': fit again\.$"):
            from_plain(broken)
