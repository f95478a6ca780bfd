"""How much an answer owes to the assumption about unexplained liking."""

import numpy as np
import pytest

import unskew
from unskew.errors import ParameterError

SHORT = unskew.Training(max_epochs=4, progress=False)


@pytest.fixture(scope="module")
def swept(liking_world):
    utility = unskew.Utility(base=unskew.Additive(), n_folds=2, n_repeats=1)
    model = unskew.SNIPS(propensity=utility).fit(liking_world.log, seed=1, training=SHORT)
    return model, unskew.sensitivity(model, (0.0, 1.0, 2.0))


def test_the_more_unexplained_liking_counts_the_lower_is_the_positive_rate(swept):
    model, found = swept
    assert model.selection.slope > 0
    assert found.positive_rate == tuple(sorted(found.positive_rate, reverse=True))
    assert found.assumed == 1.0


def test_at_the_models_own_assumption_nothing_changes_and_elsewhere_top_tens_do(swept):
    _, found = swept
    assert found.top_changed[1] == 0
    assert all(0 <= share <= 1 for share in found.top_changed)
    assert found.top_changed[2] > 0
    assert all(0 < mse < 0.5 for mse in found.mse)


def test_a_map_leaves_every_top_ten_as_it_is(liking_world):
    utility = unskew.Utility(base=unskew.Uniform(), n_folds=2, n_repeats=1)
    model = unskew.NaiveUtility(utility=utility).fit(liking_world.log, seed=1, training=SHORT)
    found = unskew.sensitivity(model, (0.0, 2.0))
    assert found.top_changed == (0.0, 0.0)
    assert found.positive_rate[0] > found.positive_rate[1] + 0.1


def test_the_answers_are_printed_and_drawn(swept):
    _, found = swept
    lines = str(found).splitlines()
    assert len(lines) == 4
    assert "top ten changed" in lines[0]
    panels = found.plot().axes
    assert [len(panel.lines[0].get_xdata()) for panel in panels] == [3, 3, 3]
    np.testing.assert_allclose(panels[0].lines[0].get_ydata(), found.positive_rate)


def test_a_method_without_the_assumption_is_refused(indifferent_world):
    model = unskew.Naive().fit(indifferent_world.log, training=SHORT)
    with pytest.raises(ParameterError, match="Naive assumes nothing"):
        unskew.sensitivity(model)
