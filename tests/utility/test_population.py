"""The pairs that are looked at: each once in its own fold, or a sample that says the same."""

import numpy as np
import pytest

from unskew.utility.estimate import Trail
from unskew.utility.population import ALTERNATIVES


def test_a_score_is_the_net_trained_without_the_pairs_fold_taken_apart(liking, liking_world):
    import torch

    users, items = liking_world.log.users[:300].astype(np.int64), liking_world.log.items[:300].astype(np.int64)
    fitted = liking.cross_fitted
    parts, fold = fitted.parts(users, items), fitted.fold(users, items)
    assert set(fold.tolist()) == {0, 1, 2, 3}
    with torch.no_grad():
        for number, net in enumerate(fitted.nets):
            inside = fold == number
            logit = net(torch.from_numpy(users[inside]), torch.from_numpy(items[inside])).numpy()
            average = net(torch.tensor([-1]), torch.tensor([-1])).item()
            np.testing.assert_allclose(parts[inside].sum(1) + average, logit, atol=1e-5)


def test_effects_average_to_the_middle_and_interactions_to_nothing(liking, liking_world):
    """Over all pairs that are read from one net, as the average user and item stand in for all."""
    import torch

    from unskew.utility.crossfit import _parts  # noqa: PLC2701

    users, items = np.divmod(np.arange(liking_world.n_pairs), liking_world.n_items)
    with torch.no_grad():
        parts = _parts(liking.nets[0], users, items)
    np.testing.assert_allclose(parts.mean(0), 0, atol=1e-4)
    by_user = np.bincount(users, weights=parts[:, 2]) / liking_world.n_items
    np.testing.assert_allclose(by_user, 0, atol=1e-4)


def test_all_pairs_are_looked_at_once_each_in_its_fold(liking, liking_world):
    log = liking_world.log
    trail = Trail.of(liking.cross_fitted, log, largest=log.n_pairs)
    assert sum(len(fold.item) for fold in trail.population.folds) == log.n_pairs
    assert sum(int(fold.case.sum()) for fold in trail.population.folds) == len(log)
    assert not trail.population.sampled
    for number, fold in enumerate(trail.population.folds):
        users = np.repeat(np.arange(log.n_users), np.diff(fold.start))
        assert (liking.cross_fitted.fold(users, fold.item) == number).all()
        assert fold.cases_of_group.sum() == fold.cases_of_item.sum() == fold.case.sum()


def test_a_sample_of_pairs_finds_the_same_slope_within_its_sampling_error(liking, liking_world):
    log = liking_world.log
    trail = Trail.of(liking.cross_fitted, log, largest=60_000)
    assert trail.population.sampled
    assert sum(len(fold.item) for fold in trail.population.folds) <= 60_000
    assert all((np.diff(fold.start) == ALTERNATIVES + 1).all() for fold in trail.population.folds)
    found = trail.selection(1.0)
    assert 0 < found.numbers.sampling_error < 0.1
    # Rates instead of chances: pairs that are seen anyway flatten the slope of a dense log a little.
    assert found.numbers.estimate == pytest.approx(liking.slope, abs=3 * found.numbers.sampling_error + 0.05)
    assert any("sampling error" in note for note in found.notes)
