"""Claims about the suites: every recipe they name exists on every dataset, and the paper's numbers are the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

import unskew
from unskew.bench.paper import TARGETS, dataset_of, suite
from unskew.errors import ParameterError

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.py"
needs_published = pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the repository's benchmarks/published.py")
DATASETS = ("coat", "yahoo-r3", "kuairec", "world")


@pytest.mark.parametrize("as_published", [False, pytest.param(True, marks=needs_published)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_entry_is_a_method_and_equal_keys_are_equal_methods(target, dataset, as_published):
    recipes = suite(target).recipes(dataset_of(dataset), as_published=as_published)
    assert all(isinstance(method, unskew.Method) for _, method in recipes.values())
    assert all(method == dict(recipes.values())[key] for key, method in recipes.values())


def test_without_the_published_variants_a_sentence_says_where_they_are(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("unskew.bench.paper.registered", lambda: ())
    monkeypatch.setattr("unskew.bench.paper.import_module", missing)
    with pytest.raises(ParameterError, match=r"needs the repository's benchmarks/published\.py: .*\.$"):
        suite("table1").recipes(dataset_of("coat"), as_published=True)


@pytest.mark.parametrize("target", TARGETS)
def test_every_number_of_the_paper_belongs_to_a_quantity_and_every_panel_shows_one(target):
    asked = suite(target)
    for entry in asked.entries:
        for numbers in (entry.paper, entry.paper_sd, entry.released):
            assert numbers.keys() <= set(DATASETS)
            assert all(len(stated) == len(asked.quantities) for stated in numbers.values())
        assert all({x, y} <= {*entry.place, *asked.quantities} for x, y in asked.panels)
    assert len({entry.name for entry in asked.entries}) == len(asked.entries)


def test_table_1_has_the_sixteen_methods_with_the_papers_numbers():
    entries = {entry.name: entry for entry in suite("table1").entries}
    assert len(entries) == 16
    assert entries["Naive"].paper["coat"] == [0.2547, 0.6828, 0.6087, 0.6747]
    assert entries["DCE-TDR"].paper["coat"] == [0.2054, 0.7412, 0.6623, 0.7258]
    assert entries["TDR-CL"].paper["kuairec"] == [0.2477, 0.7885, 0.7907, 0.8037]
    assert entries["TDR-CL"].paper_sd["yahoo-r3"] == [0.0010, 0.0015, 0.0010, 0.0013]
    assert entries["DCE-DR"].released["coat"] == [0.2163, 0.7376, 0.6579, 0.7246]


def test_figures_compare_what_the_paper_compares():
    assert [entry.place["experts"] for entry in suite("figure3").entries[:6]] == [1, 2, 5, 10, 20, 50]
    ablation = {entry.name for entry in suite("figure2").entries}
    assert {"Global", "User-specific", "Only-ImpCal", "Only-PropCal", "DR-JL", "DCE-DR"} < ablation
    calibrated = suite("figure2").recipes(dataset_of("coat"), as_published=False)["base rate only"][1]
    assert calibrated.propensity == calibrated.imputation == unskew.GlobalPlatt(slope=False, step_back=False)


@needs_published
def test_as_published_the_released_settings_are_those_of_the_dataset():
    coat, yahoo = (suite("table1").recipes(dataset_of(name), as_published=True) for name in ("coat", "yahoo-r3"))
    assert coat["DCE-DR"][1] == unskew.make("dce-dr-published")
    assert (yahoo["DCE-DR"][1].propensity.n_experts, yahoo["DCE-DR"][1].base.clip) == (20, 0.062)
    assert coat["IPS"][1].net == unskew.make("dce-dr-published").base.net
    assert coat["Multi-DR"][1] == unskew.make("multi-dr")
    training = unskew.Training(**dataset_of("coat").published_training)
    assert (training.holdout_by, training.batch_size, training.max_epochs) == ("last", 128, 1000)


@needs_published
@pytest.mark.parametrize("target", ["table1", "table2", "figure1", "figure2", "figure3"])
def test_as_published_every_suite_has_the_settings_of_its_dataset(target):
    own = {name: suite(target).recipes(dataset_of(name), as_published=True) for name in ("coat", "yahoo-r3", "kuairec")}
    clips = {"coat": {0.05, 0.0903}, "yahoo-r3": {0.062}, "kuairec": {0.0583}}
    for name, recipes in own.items():
        found = [getattr(method, "base", method) for _, method in recipes.values()]
        released = [method for method in found if type(method).__name__ == "DRJLPublished"]
        assert released
        assert {method.clip for method in released} <= clips[name]


def test_a_suite_can_be_limited_to_some_entries_in_its_own_order():
    coat, world = dataset_of("coat"), dataset_of("world")
    assert [entry.name for entry in suite("table1").on(coat, ["DCE-DR", "Naive"]).entries] == ["Naive", "DCE-DR"]
    assert suite("table1").on(coat).entries == suite("table1").entries
    assert suite("table1").on(coat).quantities == ("mse", "auc", "ndcg@5", "ndcg@10")
    assert suite("figure1").on(world).quantities[-3:] == ("true_risk", "theorem_2", "bias")
    with pytest.raises(ParameterError, match="Table 1 has no entry 'DCE-D'; did you mean 'DCE-"):
        suite("table1").on(coat, ["DCE-D"])
    with pytest.raises(ParameterError, match="no target 'table9'; did you mean 'table"):
        suite("table9")
    with pytest.raises(ParameterError, match="no dataset 'cot' in the suites; did you mean 'coat'"):
        dataset_of("cot")


def test_no_calibrator_steps_back_where_the_paper_is_reproduced():
    recipes = {
        name: method
        for target in TARGETS
        for name, (_, method) in suite(target).recipes(dataset_of("coat"), False).items()
    }
    calibrated = [method for method in recipes.values() if isinstance(method, unskew.DoublyCalibrated)]
    assert len(calibrated) >= 2
    parts = [part for method in calibrated for part in (method.propensity, method.imputation) if part is not None]
    assert not any(part.step_back for part in parts)
