"""How close estimators come to the truth when every rating of a matrix is known: the table of the DR literature.

A completed matrix (simulated here, 400 x 600) is sorted into conversion rates q = .1, .3, .5, .7, .9 by the quantiles
.53, .24, .14, .07, .02; a pair is seen with p = 1/16, 1/16, 1/8, 1/4, 1/2, and the propensity at hand is half as
informed, 1/p_hat = .5/p + .5/mean(o). Five predictions are judged, each wrong in its own way (Guo et al., SIGIR 2021).
q is kept apart from the drawn ratings.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import unskew
from unskew.bench.records import Values
from unskew.estimation.calibrated import calibrated_to_seen, platt_map
from unskew.theory import label_errors

Matrix = NDArray[np.float64]

SIZE = (400, 600)
RATES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
SHARES = np.array([0.53, 0.24, 0.14, 0.07, 0.02])
CHANCES = 0.5 ** np.array([4, 4, 3, 2, 1])
PREDICTIONS = ("ONE", "THREE", "FIVE", "SKEW", "CRS")
ESTIMATORS = ("naive", "EIB", "IPS", "SNIPS", "DR", "MRDR", "TDR", "calibrated DR")
ERRORS = {"log_loss": "log", "mse": "squared"}


@lru_cache(maxsize=1)
def levels(size: tuple[int, int] = SIZE) -> NDArray[np.int64]:
    """Which of the five rates each pair of the matrix has, flat, by the order of a simulated world's preferences."""
    world = unskew.simulate(*size, density=0.1, seed=0)
    logits = world.logit(*np.divmod(np.arange(world.n_pairs), world.n_items))
    place = np.argsort(np.argsort(logits, kind="stable")) / len(logits)
    return np.searchsorted(np.cumsum(SHARES)[:-1], place, side="right")


def predictions(level: NDArray[np.int64], rng: np.random.Generator) -> dict[str, Matrix]:
    """Five ways to be wrong: some low rates taken for the highest, noise, and coarse guesses."""
    q = RATES[level]
    found = {}
    for name, number in (("ONE", 0), ("THREE", 1), ("FIVE", 2)):
        flipped = q.copy()
        flipped[rng.choice(np.flatnonzero(level == number), int((level == 4).sum()), replace=False)] = RATES[4]
        found[name] = flipped
    found["SKEW"] = np.clip(rng.normal(q, (1 - q) / 2), 0.1, 0.9)
    found["CRS"] = np.where(q >= 0.7, 0.1, 0.5)
    return found


def relative_errors(draw: int, size: tuple[int, int] = SIZE) -> Values:
    """|estimate - truth| / truth of every estimator, prediction and error in one draw of ratings and seen pairs."""
    level, rng = levels(size), np.random.default_rng([draw, 29])
    p, n_items = CHANCES[level], size[1]
    seen, ratings = rng.random(len(p)) < p, (rng.random(len(p)) < RATES[level]).astype(float)
    p_hat = 1 / (0.5 / p + 0.5 / seen.mean())
    users, items = np.divmod(np.flatnonzero(seen), n_items)
    ids = {"user_ids": range(size[0]), "item_ids": range(n_items)}
    log = unskew.RatingLog.from_arrays(users, items, ratings[seen], positive=1, **ids)
    platt = calibrated_to_seen(lambda u, i: p_hat[u * n_items + i], log)
    found: Values = {}
    for name, prediction in predictions(level, rng).items():
        for metric, error in ERRORS.items():
            e1, e0 = label_errors(prediction, error)
            truth = float(np.where(ratings == 1, e1, e0).mean())
            estimates = _estimates(log, metric, prediction, p_hat, platt(p_hat), (e1 - e0)[seen])
            found |= {f"{metric} {name} {of}": abs(value - truth) / truth for of, value in estimates.items()}
    return found


def _estimates(
    log: unskew.RatingLog, metric: str, prediction: Matrix, p_hat: Matrix, calibrated: Matrix, stake: Matrix
) -> dict[str, float]:
    def of(matrix: Matrix):
        return lambda users, items: matrix[np.asarray(users) * log.n_items + np.asarray(items)]

    def estimate(names: tuple[str, ...], propensity: Matrix, imputation: object) -> list[float]:
        settings = {"propensity": of(propensity), "imputation": imputation, "metrics": metric}
        return unskew.estimate_risk(of(prediction), log, estimators=names, **settings)["value"].to_pylist()

    seen = log.users.astype(np.int64) * log.n_items + log.items
    r, w, w_calibrated = log.ratings.astype(float), 1 / p_hat[seen], 1 / calibrated[seen]
    naive, ips, snips = estimate(("naive", "ips", "snips"), p_hat, None)
    (eib,) = estimate(("eib",), p_hat, float(r.mean()))
    dr, tdr = estimate(("dr", "tdr"), p_hat, float(np.average(r, weights=w)))
    (mrdr,) = estimate(("dr",), p_hat, float(np.average(r, weights=w * (w - 1) * stake**2)))
    imputed = platt_map(prediction[seen], r, w_calibrated)(prediction)
    (both,) = estimate(("dr",), calibrated, of(imputed))
    return dict(zip(ESTIMATORS, (naive, eib, ips, snips, dr, mrdr, tdr, both), strict=True))
