"""The report on calibration: better where it should be, on rows that were not fitted."""

import numpy as np
import pytest
from scipy.special import expit

from unskew.calibration.before_after import report_of
from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import GlobalPlatt, examples_for
from unskew.data.feed import Batch, Block, Chunk
from unskew.losses.batch import Parts, View
from unskew.nets.base import Part


class Table(Part):
    def __init__(self, logits):
        self.values = logits.astype(np.float32)

    def logits(self, users, items):
        return self.values[users, items]


@pytest.mark.parametrize("calibrator", [GlobalPlatt(), ExpertPlatt(n_experts=2)], ids=repr)
def test_overconfident_parts_get_better_on_other_rows(calibrator):
    rng, n_users, n_items = np.random.default_rng(0), 150, 160
    p, q = (rng.normal(mean, 1, (n_users, n_items)) for mean in (-1.5, 0.5))  # logits of seen, and of liked
    seen, liked = (rng.random((n_users, n_items)) < expit(z) for z in (p, q))
    parts = {"propensity": Table(2 * p + 1), "imputation": Table(3 * q)}
    views = []
    for half in range(2):
        users, items = np.nonzero(seen & (np.arange(n_items) % 2 == half))
        observed = Block(users, items, ratings=liked[users, items].astype(np.float32))
        every = np.divmod(np.flatnonzero(np.tile(np.arange(n_items) % 2 == half, n_users)), n_items)
        sampled = Block(*every, seen=seen[every].astype(np.float32))
        shared = Parts(parts, calibrators={"propensity": "c0", "imputation": "c1"})
        views.append(
            View(
                shared,
                Batch(Chunk(observed, slice(None), 2.0), Chunk(sampled, slice(None), 2.0)),
                float(n_users * n_items),
            )
        )
    for role, name in shared.calibrators.items():
        parts[name] = calibrator.fit(examples_for(role, views[0], n_users), rng=np.random.default_rng(1))
    report = report_of(views[1])
    for target in ("propensity", "imputation"):
        found = report[target]
        assert found.after.expected_error < 0.5 * found.before.expected_error
        assert found.after.mean == pytest.approx(found.target_mean, abs=0.03)
        assert f"{target}: ECE" in str(report)
    assert ("experts have" in str(report)) == isinstance(calibrator, ExpertPlatt)
