"""Places, tests against their definitions, and the table that shows them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_rel

from unskew.bench.standings import Figure, holm, p_value, results, standing, standings_of

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
    assert standing("mse", {"naive": [{"mse": 0.25}]}).sd("naive") is None
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


def test_one_seed_or_no_naive_is_not_compared():
    one = standing("mse", {name: seeds[:1] for name, seeds in SCORES.items()})
    assert one.against_best == one.against_naive == {}
    assert one.tests() is None
    assert standing("mse", {"ips": SCORES["ips"], "dr-jl": SCORES["dr-jl"]}).against_naive == {}


def test_the_table_marks_the_best_and_names_the_failed():
    text = results([*SCORES], list(standings_of(SCORES).values()), "").markdown()
    assert "| naive | 0.3133 ± 0.0153 | **0.7000 ± 0.0100** |" in text
    assert "| failed | failed | failed |" in text


def test_the_chart_has_a_row_a_method_and_a_dot_a_seed():
    chart = standing("mse", SCORES).chart()
    assert [row[0] for row in chart.table.rows] == ["broken", "ips", "dr-jl", "naive"]
    assert chart.svg.count("class='dot") == 12
    mean, low, high = chart.table.rows[1][1:]
    assert (high - mean) == pytest.approx(mean - low) == pytest.approx(student.ppf(0.975, 2) * 0.02 / np.sqrt(3))


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
