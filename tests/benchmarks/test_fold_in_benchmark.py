"""The benchmark of folding in: a row for each method, a cell for each way to answer for new users."""

import importlib
import sys
from pathlib import Path

import pytest

import unskew

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("fold_in")
    monkeypatch.setattr(module, "METHODS", {"naive": unskew.Naive(net=unskew.MF(n_factors=2))})
    yield module
    sys.modules.pop("fold_in")


def test_the_table_has_a_cell_for_each_way_to_answer(script):
    training = unskew.Training(max_epochs=1, progress=False)
    *_, row = script.table(2, 40, 20, training).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 1 + len(script.COLUMNS)
    assert cells[0] == "`naive`"
    assert float(cells[1]) > 0
    assert all(" ± " in cell for cell in cells[2:])


def test_more_ratings_are_those_of_less_and_others(script):
    log = unskew.simulate(30, 20, density=0.3, seed=0).log
    rows = script.np.random.default_rng(0).permutation(len(log))
    one, three, all_of_them = (set(script._first(log.users, rows, most)) for most in (1, 3, None))
    assert one < three < all_of_them == set(range(len(log)))
    assert len(one) == len(set(log.users))
