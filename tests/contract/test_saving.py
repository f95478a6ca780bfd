"""Every method survives being written as a recipe, and its model being saved; new users can be folded in."""

import pytest

from unskew.registry import make, registered
from unskew.testing.check import SHORT, check_saving
from unskew.testing.worlds import ordinary


@pytest.mark.parametrize("name", [entry.name for entry in registered()])
def test_recipe_and_model_come_back(name):
    method = make(name)
    check_saving(method, method.fit(ordinary()[0], training=SHORT))
