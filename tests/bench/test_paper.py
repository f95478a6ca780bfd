"""Places and tests by definition; suites have the paper's methods and numbers; every target on a tiny world."""

import csv
import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

import unskew
from unskew.bench import paper
from unskew.bench.paper import TARGETS, dataset_of, reproduce, suite
from unskew.bench.protocol import RECORDS
from unskew.bench.run import warm_up
from unskew.bench.standings import Figure, holm, p_value, standing
from unskew.errors import DataError, ParameterError

SCORES = {
    "naive": [{"mse": 0.30, "auc": 0.70}, {"mse": 0.31, "auc": 0.71}, {"mse": 0.33, "auc": 0.69}],
    "ips": [{"mse": 0.20, "auc": 0.72}, {"mse": 0.24, "auc": 0.66}, {"mse": 0.22, "auc": 0.68}],
    "dr-jl": [{"mse": 0.21, "auc": 0.60}, {"mse": 0.20, "auc": 0.65}, {"mse": 0.30, "auc": 0.67}],
    "broken": [{"mse": 0.10}, {"mse": 0.10}, {"mse": 0.10}],
    "failed": [],
}


def test_the_best_is_lowest_in_error_and_highest_in_auc():
    mse, auc = (standing(metric, SCORES) for metric in ("mse", "auc"))
    assert mse.order == ["broken", "ips", "dr-jl", "naive"]
    assert auc.order == ["naive", "ips", "dr-jl"]
    assert [name for name in SCORES if auc.is_best(name)] == ["naive"]
    assert mse.sd("ips") == pytest.approx(0.02)
    one = standing("mse", {name: seeds[:1] for name, seeds in SCORES.items()})
    assert one.sd("naive") is one.tests() is None
    assert [Figure.of(key).direction for key in ("mse", "auc", "ndcg@5", "true_risk", "seconds")] == [-1, 1, 1, -1, 0]
    assert [Figure.of(key).heading for key in ("mse", "ndcg@50", "parameters")] == ["MSE ↓", "nDCG@50 ↑", "parameters"]


def test_each_is_compared_with_the_best_of_the_others():
    auc = standing("auc", SCORES)
    others = {method: versus.other for method, versus in auc.against_best.items()}
    assert others == {"naive": "ips", "ips": "naive", "dr-jl": "naive"}
    own = {method: [found["auc"] for found in SCORES[method]] for method in others}
    p = [p_value(own[method], own["naive"]) for method in ("ips", "dr-jl")]
    corrected = holm(p)  # two pairs, as naive and ips are one
    lead = np.mean(own["ips"]) - np.mean(own["naive"])
    assert auc.against_best["ips"][1:] == pytest.approx((lead, p[0], corrected[0]))
    assert auc.against_best["naive"][1:] == pytest.approx((-lead, p[0], corrected[0]))
    assert auc.against_naive["dr-jl"][2:] == pytest.approx((p[1], corrected[1]))
    assert "naive" not in auc.against_naive


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values):
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.2, 0.9):
        rejected = set()
        for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if (len(p_values) - step) * p_values[place] > level:
                break
            rejected.add(place)
        assert {place for place, p in enumerate(corrected) if p <= level} == rejected


@pytest.mark.filterwarnings("error")
def test_p_values_are_those_of_scipy_and_rounding_is_no_difference():
    own, other = np.array([0.3, 0.5, 0.4, 0.9]), np.array([0.1, 0.6, 0.2, 0.3])
    assert p_value(own, other) == pytest.approx(ttest_rel(own, other).pvalue)
    same = np.full(3, 0.1)
    for wobble in (0.0, 1e-17):
        assert p_value(same, same + wobble) == 1.0
        assert p_value([1.5, 2.5, 3.5], np.array([1.0, 2.0, 3.0]) + wobble) == 0.0


FEW = {  # of each target, to be quick: every method has tests of its own
    "table1": ("Naive", "DR-JL", "DCE-DR"),
    "table2": ("Naive", "DR-JL", "DCE-DR"),
    "figure1": ("DR, both heuristic", "DR-JL", "DCE-DR (calibrated)", "TDR, heuristic imputation"),
    "figure2": ("DR-JL", "DCE-DR", "base rate only", "random assignment"),
    "figure3": ("DCE-DR, K = 1", "DCE-DR, K = 2"),
}
CHARTS = {
    "table1": ["mse", "auc", "ndcg-5", "ndcg-10", "true_risk"],
    "table2": ["seconds", "parameters"],
    "table3": [],
    "figure1": ["mse-by-imputation_ece", "auc-by-propensity_ece", "bias-by-theorem_2"],
    "figure2": ["propensity_ece", "propensity_ece_mass", "imputation_ece", "mse", "auc", "ndcg-5", "true_risk"],
    "figure3": ["mse-by-experts", "auc-by-experts", "ndcg-5-by-experts"],
}
DATASETS = ("coat", "yahoo-r3", "kuairec", "world")


@pytest.fixture(scope="module")
def made(world, tmp_path_factory):
    """All targets, one after the other, into one folder."""
    out = tmp_path_factory.mktemp("made")
    return out, {target: again(target, world, out) for target in TARGETS}


def again(target, here, out, **changes):
    settings = {"dataset": "world", "seeds": 1, "max_epochs": 1, "world": here, "about": ["A tiny world."]} | changes
    return reproduce(target, here.log, here.test, out, **{"only": FEW.get(target, ())} | settings)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_becomes_data_charts_and_a_page(made, target):
    one = made[1][target]
    names = [f"{target}.csv", f"{target}.md", *(f"{target}-{chart}.svg" for chart in CHARTS[target])]
    assert [path.name for path in one.files] == names
    data, page, *charts = (path.read_text() for path in one.files)
    lines = list(csv.DictReader(data.splitlines()))
    assert {line["entry"] for line in lines} == set(FEW.get(target, ["a simulated world"]))
    assert all(line["mean"] for line in lines)
    assert all(ElementTree.fromstring(chart).tag.endswith("svg") for chart in charts)
    assert all(f"({name})" in page for name in names[2:])
    assert "Kweon" in page
    assert "A tiny world." in page
    assert not one.failures


def test_statistics_are_those_of_log_and_test(made, world):
    (counted,) = made[1]["table3"].scores["a simulated world"]
    assert (counted["users"], counted["items"], counted["train"], counted["test"]) == (40, 30, len(world.log), 240)
    assert counted["density"] == len(world.log) / 1200
    assert counted["liked_in_test"] == pytest.approx(world.test.ratings.mean())


def test_a_method_that_fails_keeps_its_line_and_the_papers(world, tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise DataError("No.")

    warm_up()  # which fits a DRJL, once a process
    monkeypatch.setattr(unskew.DRJL, "fit", refuse)
    one = again("table1", world, tmp_path, dataset="coat", world=None, only=("Naive", "DR-JL"))
    page = (tmp_path / "table1.md").read_text()
    assert one.failures == {"fit/dr-jl/0": "No."}
    assert "| DR-JL | – | 0.2302 ± 0.0013 |" in page
    assert "Failed: fit/dr-jl/0: No." in page
    assert "0.2547" in one.table().text()


def test_as_published_has_its_own_files_and_training(world, tmp_path, monkeypatch):
    naive, dce = suite("table1").entries[0], suite("table1").entries[-2]
    dce = replace(dce, published={"method": "drjl-published"})  # instead of the slower one
    monkeypatch.setattr(paper, "suite", lambda target: replace(suite(target), entries=(naive, dce)))
    again("table1", world, tmp_path, dataset="coat", world=None, as_published=True, only=())
    page = (tmp_path / "table1-as-published.md").read_text()
    assert "holdout_by='last', batch_size=128" in page
    rows = csv.DictReader((tmp_path / "table1-as-published.csv").read_text().splitlines())
    assert {row["released"] for row in rows if row["entry"] == "DCE-DR"} == {"0.2163", "0.7376", "0.6579", "0.7246"}
    records = [json.loads(line)["recipe"] for line in (tmp_path / RECORDS).read_text().splitlines()]
    assert {record["training"]["holdout_by"] for record in records} == {"last"}
    assert {record["method"]["kind"] for record in records} == {"Naive", "DRJLPublished"}


@pytest.mark.parametrize("as_published", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_entry_is_a_method_and_equal_keys_are_equal_methods(target, dataset, as_published):
    recipes = suite(target).recipes(dataset_of(dataset), as_published=as_published)
    assert all(isinstance(method, unskew.Method) for _, method in recipes.values())
    calibrated = [method for _, method in recipes.values() if isinstance(method, unskew.DoublyCalibrated)]
    assert not any(part.step_back for each in calibrated for part in (each.propensity, each.imputation) if part)
    assert all(method == dict(recipes.values())[key] for key, method in recipes.values())


@pytest.mark.parametrize("target", TARGETS)
def test_every_number_of_the_paper_belongs_to_a_quantity_and_every_panel_shows_one(target):
    asked = suite(target)
    for entry in asked.entries:
        for numbers in (entry.paper, entry.paper_sd, entry.released):
            assert numbers.keys() <= set(DATASETS)
            assert all(len(stated) == len(asked.quantities) for stated in numbers.values())
        assert all({x, y} <= {*entry.place, *asked.quantities} for x, y in asked.panels)
    assert len({entry.name for entry in asked.entries}) == len(asked.entries)


def test_suites_hold_what_the_paper_compares_and_its_numbers():
    entries = {entry.name: entry for entry in suite("table1").entries}
    assert len(entries) == 16
    assert entries["Naive"].paper["coat"] == [0.2547, 0.6828, 0.6087, 0.6747]
    assert entries["DCE-TDR"].paper["coat"] == [0.2054, 0.7412, 0.6623, 0.7258]
    assert entries["TDR-CL"].paper["kuairec"] == [0.2477, 0.7885, 0.7907, 0.8037]
    assert entries["TDR-CL"].paper_sd["yahoo-r3"] == [0.0010, 0.0015, 0.0010, 0.0013]
    assert entries["DCE-DR"].released["coat"] == [0.2163, 0.7376, 0.6579, 0.7246]
    assert [entry.place["experts"] for entry in suite("figure3").entries[:6]] == [1, 2, 5, 10, 20, 50]
    ablation = {entry.name for entry in suite("figure2").entries}
    assert {"Global", "User-specific", "Only-ImpCal", "Only-PropCal", "DR-JL", "DCE-DR"} < ablation
    coat, yahoo = (suite("table1").recipes(dataset_of(name), as_published=True) for name in ("coat", "yahoo-r3"))
    assert coat["DCE-DR"][1] == unskew.make("dce-dr-published")
    assert (yahoo["DCE-DR"][1].propensity.n_experts, yahoo["DCE-DR"][1].base.clip) == (20, 0.062)
    assert coat["IPS"][1].net == unskew.make("dce-dr-published").base.net
    calibrated = suite("figure2").recipes(dataset_of("coat"), as_published=False)["base rate only"][1]
    assert calibrated.propensity == calibrated.imputation == unskew.GlobalPlatt(slope=False, step_back=False)


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
