"""Methods, datasets, and sources of the form NAME:FOLDER."""

from dataclasses import fields

import numpy as np
import pytest

import unskew
from unskew.cli.settings import Settings, literal
from unskew.data.scale import Scale


def method_from(name, assignments):
    return Settings(assignments).method(unskew.make(name))


def test_list_has_every_method_with_its_settings_and_every_dataset_with_its_terms(run, facts):
    listed, text = facts("list"), run("list").stdout
    for row, entry in zip(listed["methods"], unskew.registered(), strict=True):
        assert (row["name"], row["summary"]) == (entry.name, entry.summary)
        assert list(row["settings"]) == [setting.name for setting in fields(entry.build())]
        assert any(line.startswith(f"{entry.name} ") for line in text.splitlines())
    ips = next(row for row in listed["methods"] if row["name"] == "ips")
    assert (ips["settings"]["propensity"], ips["settings"]["clip"]) == ("factors", unskew.IPS().clip)
    for row, source in zip(listed["datasets"], unskew.datasets.available(), strict=True):
        assert row["name"] == source.name
        for fact in (source.title, source.where, source.terms, *source.files):
            assert fact in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("0.5", 0.5), ("True", True), ("None", None), ("(1, 2)", (1, 2)), ("log", "log"), ("", "")),
        *((text, text) for text in ("__import__('os')", "1+1", "[" * 500, "\0", "9" * 5000, "1_000")),
    ],
)
def test_values_are_python_literals_or_else_text(text, value):
    assert literal(text) == value
    assert type(literal(text)) is type(value)


def test_settings_apply_in_order_so_that_a_part_can_be_chosen_and_then_set():
    method = method_from(
        "ips", ["propensity=popularity", "propensity.exponent=0.7", "net.n_factors=5", "error=squared"]
    )
    assert method == unskew.IPS(propensity=unskew.Popularity(exponent=0.7), net=unskew.MF(n_factors=5), error="squared")
    for clip in ("clip=0.1", "base.clip=0.1"):  # a wrapper hands on the settings of its base
        assert method_from("dce-dr", [clip]) == unskew.make("dce-dr", clip=0.1)


@pytest.fixture
def small_coat(tmp_path):
    """Files in the format of Coat, but of 30 users and 20 items."""
    rng = np.random.default_rng(2)
    for name in ("train.ascii", "test.ascii"):
        grid = rng.integers(1, 6, (30, 20)) * (rng.random((30, 20)) < 0.4)
        (tmp_path / name).write_text("\n".join(" ".join(map(str, row)) for row in grid) + "\n")
    return tmp_path


def test_a_dataset_is_fitted_on_its_train_and_evaluated_on_its_test_part(run, facts, small_coat):
    source, model = f"coat:{small_coat}", small_coat / "model"
    fitted = run("fit", source, "--method", "naive", "--set", "training.max_epochs=1", "--out", model)
    dataset = unskew.datasets.load("coat", small_coat)
    assert repr(dataset.train) in fitted.stderr
    assert all(f"coat: {note}" in fitted.stderr for note in dataset.notes)
    assert facts("evaluate", model, source)["n_pairs"] == len(dataset.test)


def test_a_graded_dataset_must_be_asked_for_on_its_own_scale(run, small_coat):
    words = ("fit", f"coat:{small_coat}", "--method", "naive", "--set", "training.max_epochs=1")
    assert "give --graded 1 5" in run(*words, "--out", small_coat / "m", "--graded", 0, 9, code=2).stderr
    run(*words, "--out", small_coat / "m", "--graded", 1, 5)
    again = ("fit", f"coat:{small_coat}", "--method", small_coat / "m" / "recipe.toml", "--out", small_coat / "again")
    run(*again)  # with the scale of the recipe
    assert unskew.load(small_coat / "m").log.scale == unskew.load(small_coat / "again").log.scale == Scale(None, 1, 5)
