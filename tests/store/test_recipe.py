"""Claims about recipes as plain data and as TOML: what survives, and how everything else is refused."""

import json
import math
import tomllib
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unskew import IPS, MF, NCF, Known, Naive, ParameterError, Training, register, registered
from unskew.nets.base import NetSpec
from unskew.store.recipe import as_toml, from_plain, kinds, read_fit, to_plain, write_recipe

REGISTERED = [entry.build() for entry in registered()]
PARTS = [entry.cls for kind in ("net", "propensity", "imputation", "calibrator") for entry in registered(kind)]
DEFAULTS = [Training(), *(part() for part in PARTS if part is not Known)]


def changed(recipe):
    """The recipe with every setting changed that may be, at all depths."""
    for setting in fields(recipe):
        value, annotation = getattr(recipe, setting.name), get_type_hints(type(recipe))[setting.name]
        other = value
        if is_dataclass(value):
            other = NCF(n_factors=3, hidden=False) if isinstance(value, MF) else changed(value)
        elif get_origin(annotation) is Literal:
            other = next(choice for choice in get_args(annotation) if choice != value)
        elif isinstance(value, bool):
            other = not value
        elif isinstance(value, (int, float)):
            other = value + 1 if isinstance(value, int) else value * 0.7
        elif value is None and int in get_args(annotation):
            other = 9
        recipe = replace(recipe, **{setting.name: other})
    return recipe


@pytest.mark.parametrize("recipe", REGISTERED + DEFAULTS, ids=lambda recipe: type(recipe).__name__)
def test_every_recipe_survives_json_and_toml_with_default_and_with_changed_settings(recipe):
    for original in (recipe, changed(recipe)):
        plain = to_plain(original)
        for copy in (from_plain(json.loads(json.dumps(plain))), from_plain(tomllib.loads(as_toml(plain)))):
            assert copy == original
            assert type(copy) is type(original)
            assert repr(copy) == repr(original)


ODD_TEXT = "\x00\x1f\x7f\x85\u2028\"\\\n\r\t'''#= \U0001f600"
texts = st.text(max_size=8)
scalars = texts | st.integers() | st.floats(allow_nan=False) | st.booleans()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(texts, values, max_size=4))
@settings(deadline=None, max_examples=50)
@example({"a.b": {"": ODD_TEXT}, ODD_TEXT: [-0.0, math.inf, 5e-324, 1e16, 10**30], "t": [{"x": [{}]}, []]})
def test_the_toml_of_any_data_reads_back_as_the_same_data(data):
    assert tomllib.loads(as_toml(data)) == data
    assert json.dumps(tomllib.loads(as_toml(data)), sort_keys=True) == json.dumps(data, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Several(Naive):
    """A method with settings of every shape."""

    nets: tuple[NetSpec, ...] = ()
    sizes: tuple[int, float] = (1, 2.0)
    limit: int | None = 5
    label: str | None = "a"
    other: NetSpec | None = None


@pytest.fixture
def several():
    return register("several", Several)


@pytest.mark.parametrize(
    "settings",
    [
        {"nets": (MF(), NCF(n_factors=2)), "sizes": (3, 4.5)},
        {"limit": None, "other": MF(init_std=0.5)},
        {"label": 'quote " and \\', "nets": ()},
    ],
)
def test_tuples_and_none_survive_json_and_toml(several, settings, tmp_path):
    method = several(**settings)
    assert from_plain(json.loads(json.dumps(to_plain(method)))) == method
    write_recipe(tmp_path / "r.toml", method)
    assert read_fit(tmp_path / "r.toml")[:2] == (method, Training())


def test_numpy_numbers_and_arrays_are_data():
    net = MF(n_factors=np.int64(3), init_std=np.float32(0.5), biases=np.True_)
    recipe = IPS(net=net, l2=np.float64(0.5), propensity=Known(np.array([0.25, 0.5])))
    copy = from_plain(json.loads(json.dumps(to_plain(recipe))))
    assert copy == IPS(net=MF(n_factors=3, init_std=0.5), l2=0.5, propensity=Known((0.25, 0.5)))


def test_a_class_nobody_registered_is_refused_on_both_ways():
    with pytest.raises(ParameterError, match=r"Several is not a registered kind of recipe"):
        to_plain(Several())
    with pytest.raises(ParameterError, match="unknown kind 'Several'"):
        from_plain({"kind": "Several"})


def test_a_name_that_is_taken_cannot_be_registered_for_another_class():
    imposter = dataclass(frozen=True)(type("MF", (NetSpec,), {"__module__": __name__}))
    with pytest.raises(ParameterError, match=r"'mf' is taken by unskew\.nets\.factors"):
        register("mf", imposter)
    with pytest.raises(ParameterError, match=r"a class MF in unskew\.nets\.factors already"):
        register("another", imposter)
    assert kinds()["MF"] is MF
    again = register("several", register("several", Several))
    assert kinds()["Several"] is again


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "ips"}, "The recipe has the unknown kind 'ips'; did you mean 'IPS'?"),
        ({}, "The recipe has no kind; choose from Naive, IPS"),
        (["IPS"], "The recipe must be a table of the kind Naive or IPS"),
        ({"kind": "MF", "n_facters": 3}, "MF has no setting 'n_facters'; did you mean 'n_factors'?"),
        ({"kind": "DoublyCalibrated"}, "DoublyCalibrated needs the setting 'base', which is missing."),
        ({"kind": "Popularity", "exponent": True}, "exponent of Popularity must be a number, not True."),
        ({"kind": "MF", "biases": 1}, "biases of MF must be true or false, not 1."),
        ({"kind": "Naive", "l2": "0.1"}, "l2 of Naive must be a number or 'none', not '0.1'."),
        ({"kind": "Naive", "error": "Log"}, "error of Naive must be one of 'log', 'squared', not 'Log'."),
        ({"kind": "Naive", "net": {"kind": "IPS"}}, "net of Naive cannot be of the kind 'IPS'; choose from MF"),
        ({"kind": "Training", "max_epochs": 0}, "max_epochs of Training must be a whole number at least 1, not 0."),
        ({"kind": "IPS", "clip": 2}, "clip of IPS must be a number at least 0 and at most 1, not 2."),
    ],
)
def test_a_wrong_recipe_is_refused_with_one_sentence(data, sentence):
    with pytest.raises(ParameterError) as refused:
        from_plain(data)
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith((".", "?"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "names no method"),
        (b'[method]\nkind = "MF"', "The method cannot be of the kind 'MF'; choose from Naive"),
        (b'method = "ips"\n[trainings]', "not 'trainings'; did you mean 'training'?"),
        (b'method = "ips"\ntraining = 3', "The training must be a table of the kind Training, not 3."),
        (b"method = '\xff'", "is not TOML"),
        (b"method = " + b"[" * 100_000, "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_one_sentence(text, sentence, tmp_path):
    path = tmp_path / "r.toml"
    path.write_bytes(text)
    with pytest.raises(ParameterError) as refused:
        read_fit(path)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
