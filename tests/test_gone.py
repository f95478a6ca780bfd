"""Names that went answer with one sentence that says what to use, and what they name is there."""

import pytest
from typer.testing import CliRunner

import unskew
from unskew import gone
from unskew.cli import app
from unskew.errors import ParameterError

REGISTERED = {entry.name for entry in unskew.methods()}


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
    first = gone.NAMES[name].partition(" ")[0].rstrip(",")
    assert first == "the" or hasattr(unskew, first)


@pytest.mark.parametrize("words", [[name] for name in gone.COMMANDS] + [["fit", name] for name in gone.OPTIONS])
def test_a_command_or_option_that_went_is_refused_in_a_sentence(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: {words[-1]} is gone: ")
    assert found.stderr.count("\n") == 1
