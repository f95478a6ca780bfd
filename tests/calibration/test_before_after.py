"""The report on calibration: better where it should be, on rows that were not fitted."""

import numpy as np
import pytest
from scipy.special import expit

from unskew.calibration.before_after import report_of
from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import GlobalPlatt, examples_for
from unskew.testing.worlds import listed_view


@pytest.mark.parametrize("calibrator", [GlobalPlatt(), ExpertPlatt(n_experts=2)], ids=repr)
def test_overconfident_parts_get_better_on_other_rows(calibrator):
    rng, n = np.random.default_rng(0), 12_000
    p, q = (rng.normal(mean, 1, (2, n)) for mean in (-1.5, 0.5))  # logits of seen, and of liked
    seen, liked = (rng.random((2, n)) < expit(z) for z in (p, q))
    roles = ({"propensity": expit(2 * p[half] + 1), "imputation": expit(3 * q[half])} for half in (0, 1))
    fitted_on, other = (listed_view(seen[half], liked[half], given) for half, given in enumerate(roles))
    other.parts.calibrators = {role: f"{role}_calibrator" for role in ("propensity", "imputation")}
    for role, name in other.parts.calibrators.items():
        examples = examples_for(role, fitted_on, n)
        other.parts.parts[name] = calibrator.fit(examples, rng=np.random.default_rng(1))
    report = report_of(other)
    for role in other.parts.calibrators:
        assert report[role].after.expected_error < 0.5 * report[role].before.expected_error
        assert report[role].after.mean == pytest.approx(report[role].target_mean, abs=0.03)
        assert f"{role}: ECE" in str(report)
    assert ("experts have" in str(report)) == isinstance(calibrator, ExpertPlatt)
