"""Tests of significance against their definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from unskew.bench.significance import holm, paired


def test_holm_corrects_the_textbook_example():
    """Four tests: 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 once, which may not fall below its forerunner's 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


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


def test_the_paired_t_test_is_that_of_the_differences():
    own, other = np.array([0.3, 0.5, 0.4, 0.9]), np.array([0.1, 0.6, 0.2, 0.3])
    d = own - other
    statistic = d.mean() / (d.std(ddof=1) / 2)
    found = paired(own, other)
    assert found is not None
    assert found.difference == pytest.approx(0.225)
    assert found.t == pytest.approx(2 * student.sf(abs(statistic), 3))


def test_wilcoxon_is_the_share_of_sign_patterns_at_least_as_extreme():
    d = np.array([0.1, -0.2, 0.35, 0.4, 0.55, -0.06])
    ranks = 1 + np.argsort(np.argsort(np.abs(d)))
    centre = ranks.sum() / 2
    patterns = [abs(np.dot(ranks, signs) - centre) for signs in product((0, 1), repeat=len(d))]
    observed = abs(ranks[d > 0].sum() - centre)
    found = paired(d, np.zeros(len(d)))
    assert found is not None
    assert found.wilcoxon == pytest.approx(np.mean(np.array(patterns) >= observed))


def test_equal_methods_do_not_differ_and_a_constant_lead_is_no_chance():
    assert paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]) == (0.0, 1.0, 1.0)
    lead = paired([1.5, 2.5, 3.5], [1.0, 2.0, 3.0])
    assert lead is not None
    assert (lead.difference, lead.t) == (0.5, 0.0)
    assert lead.wilcoxon == pytest.approx(0.25)


@pytest.mark.parametrize("values", [[], [0.1]])
def test_a_single_seed_proves_nothing(values):
    assert paired(values, values) is None
