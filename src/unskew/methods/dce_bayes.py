"""Fit the flagship: a Bayesian factor model with a targeted correction, and a level shift where the log asks for it.

In this order: (1) posterior; (2) targeted correction by all left-out ratings, if its gate opens; (3) level shift, if
the slope of seeing on liking exceeds two standard errors. Each says in a line whether it acted. `bayes` is (1) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, ndtr, ndtri_exp

from unskew.errors import PlanError
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior
from unskew.posterior.draws import Float, Float32, Int
from unskew.posterior.exposure import directions
from unskew.posterior.factors import BayesianFactors, Fitted, Progress, sample
from unskew.posterior.targeted import Residuals, Targeted, group_users, target
from unskew.propensity.choice import Choice, ChoiceScorer, fit_choice
from unskew.propensity.conditional import Calibration, FittedExposure, Scorer
from unskew.propensity.ridge import Ridge, RidgeScorer
from unskew.propensity.spectral import Spectral, SpectralScorer
from unskew.selection.level import shift
from unskew.selection.slope import Slope, estimate_slope

EXPERTS = 5


@dataclass
class DceBayes:
    """Answer liking for any pair, corrected and shifted where left-out ratings asked for it."""

    posterior: Posterior
    exposure: FittedExposure
    targeted: Targeted
    slope: Slope
    unexplained: float
    choice: Choice | None
    notes: list[str]

    def probability(self, users: Int, items: Int, unexplained: float | None = None) -> Float:
        """Return P(liked) of pairs that nobody chose."""
        if not self.targeted.applied:
            moved = shift(self.posterior, users, items, self.slope.used, self._k(unexplained))
            return self.posterior.probability(users, items, shift=moved)
        log_p = log_expit(self.exposure.logits(users, items).astype(float))
        logits = self.targeted.logits(self.posterior.logits(users, items).astype(float), log_p, users)
        if self.slope.used == 0:
            result: Float = expit(logits)
            return result
        spread = np.sqrt(self.posterior.noise_variance(users, items) + self.posterior.variance(users, items))
        moved = shift(self.posterior, users, items, self.slope.used, self._k(unexplained)) / spread
        z = np.where(logits < 0, ndtri_exp(log_expit(logits)), -ndtri_exp(log_expit(-logits)))
        shifted: Float = ndtr(z - moved)
        return shifted

    def _k(self, unexplained: float | None) -> float:
        """Return the k asked for, or the model's."""
        return self.unexplained if unexplained is None else unexplained

    def logits(self, users: Int, items: Int) -> Float32:
        """Return log-odds of liking."""
        p = np.clip(self.probability(users, items), 1e-12, 1 - 1e-12)
        return np.asarray(np.log(p) - np.log1p(-p), np.float32)

    def state(self) -> dict[str, Any]:
        """Return everything that answers depend on as plain arrays, for a model folder."""
        found = {f"posterior.{key}": value for key, value in self.posterior.state().items()}
        found |= {f"exposure.{key}": value for key, value in _scorer_state(self.exposure.scorer).items()}
        found |= {f"targeted.{key}": value for key, value in _flat(self.targeted).items()}
        found |= {f"slope.{key}": value for key, value in _flat(self.slope).items()}
        found |= {"rates": self.exposure.rates, "coefficients": self.exposure.calibration.coefficients}
        found |= {"unexplained": np.array(self.unexplained), "exposure.name": _text([self.exposure.name])}
        if self.choice is not None:
            found["choice"] = self.choice.calibration.coefficients
            found |= {f"choice.{key}": value for key, value in _scorer_state(self.choice.scorer.exposure).items()}
            if self.choice.scorer.ridge is not None:
                found |= {f"liked.{key}": value for key, value in _scorer_state(self.choice.scorer.ridge).items()}
        return found | {"notes": _text(self.notes)}

    @classmethod
    def from_state(cls, arrays: dict[str, Any]) -> DceBayes:
        """Return the model that `state` was taken of."""
        posterior = Posterior.from_state(_part(arrays, "posterior."))
        exposure = FittedExposure(
            _scorer(_part(arrays, "exposure.")), Calibration.of(arrays["coefficients"]), arrays["rates"],
            _lines(arrays["exposure.name"])[0], _gone,
        )  # fmt: skip
        tables = _part(arrays, "targeted.")
        residuals = [
            Residuals(tuple(_lines(tables[f"{name}.groups"])), *(tables[f"{name}.{key}"] for key in MEANS))
            for name in ("by_propensity", "by_expert")
        ]
        targeted = Targeted(
            tables["coefficients"], tables["deviations"], tables["experts"], bool(tables["applied"]),
            float(tables["gain"]), float(tables["error"]), residuals[0], residuals[1],
            float(tables["effective"]),
        )  # fmt: skip
        slope = Slope(**{key: float(value) for key, value in _part(arrays, "slope.").items()})
        choice = None
        if "choice" in arrays:
            liked = _part(arrays, "liked.")
            ridge = RidgeScorer(**_plain(liked)) if liked else None
            scorer = ChoiceScorer(_scorer(_part(arrays, "choice.")), posterior.probability, ridge)
            choice = Choice(scorer, Calibration.of(arrays["choice"]))
        unexplained, notes = float(arrays["unexplained"]), _lines(arrays["notes"])
        return cls(posterior, exposure, targeted, slope, unexplained, choice, notes)

    def user_vectors(self, users: Int) -> Float32:
        """Return factors and bias of users."""
        return self.posterior.user_vectors(users)


def fit_pairs(
    users: Int, items: Int, ratings: Float, n_users: int, n_items: int, *, settings: BayesianFactors | None = None,
    user_features: Float | None = None, item_features: Float | None = None, unexplained: float = defaults.UNEXPLAINED,
    choice: bool = True, corrections: bool = True, seed: int = 0, progress: Progress | None = None,
) -> DceBayes:  # fmt: skip
    """Fit to a log of arrays; at most about three Bayesian fits of time in all.

    Without `corrections` the posterior answers as it is, and correction and slope are measured all the same.
    """
    fitted = sample(
        users, items, ratings, n_users, n_items, settings=settings, user_features=user_features,
        item_features=item_features, seed=seed, progress=progress,
    )  # fmt: skip
    posterior, log, fold = fitted.posterior, fitted.problem.log, fitted.fold
    liked = (log.ratings >= posterior.liked_from).astype(np.int64)
    by_fold = all_folds(fitted)
    exposure = better_exposure(log.users, log.items, n_users, n_items, fold, np.random.default_rng([seed, 21]))
    logit_q = np.zeros(len(fold))
    for k, model in by_fold.items():
        rows = fold == k
        logit_q[rows] = model.logits(log.users[rows], log.items[rows])
    own = exposure.held_out_logits(log.users).astype(float)
    missing = ~np.isfinite(own)
    own[missing] = exposure.logits(log.users[missing], log.items[missing])
    log_p = log_expit(own)
    rng = np.random.default_rng([seed, 22])
    # by what they saw, not by vectors that the left-out ratings have shaped: these would seem to confirm themselves
    known = directions(log.users, log.items, n_users, n_items, most=4, least=4).users
    experts = group_users(known, EXPERTS, rng)
    targeted = target(liked, logit_q, log_p, log.users, log.items, experts, fold, np.exp(-log_p))
    slope = estimate_slope(log.users, log.items, liked, n_users, n_items, fold, by_fold, rng)
    notes = [*posterior.notes, f"Exposure: {exposure.name}."]
    if corrections:
        notes += [targeted.sentence(), slope.sentence()]
    else:
        targeted, slope = replace(targeted, applied=False), Slope(0.0, slope.error, slope.calibration)
    result = DceBayes(posterior, exposure, targeted, slope, unexplained, None, notes)
    if choice and liked.any():
        answers = {k: m.probability for k, m in by_fold.items()}
        result.choice = fit_choice(
            log.users, log.items, liked, n_users, n_items, fold, exposure, answers, posterior.probability, rng
        )
    return result


def all_folds(fitted: Fitted) -> dict[int, Posterior]:
    """Return a model for every fold that has not seen it; those that chose the columns serve again."""
    problem, found = fitted.problem, dict(fitted.by_fold)
    for k in range(defaults.FOLDS):
        if k not in found:
            found[k] = problem.without_fold(problem.settings, fitted.fold, k)
    return found


def better_exposure(
    users: Int, items: Int, n_users: int, n_items: int, fold: Int, rng: np.random.Generator
) -> FittedExposure:
    """Return the spectral or, where affordable, the ridge exposure, whichever held-out pairs find likelier."""
    spectral = Spectral().fit(users, items, n_users, n_items, rng, fold)
    if not Ridge.affordable(n_users, n_items):
        return spectral
    ridge = Ridge().fit(users, items, n_users, n_items, rng, fold)
    return max(spectral, ridge, key=lambda found: found.calibration.log_likelihood)


MEANS = ("means", "errors", "counts")


def _flat(record: Any) -> dict[str, Any]:
    """Return the fields of a record as arrays, those of records inside it by a point."""
    found: dict[str, Any] = {}
    for key, value in vars(record).items():
        if isinstance(value, Residuals):
            found |= {f"{key}.{name}": getattr(value, name) for name in MEANS} | {f"{key}.groups": _text(value.groups)}
        else:
            found[key] = np.asarray(value)
    return found


def _scorer_state(scorer: Any) -> dict[str, Any]:
    """Return the arrays of a spectral or ridge scorer."""
    return {key: np.asarray(value) for key, value in vars(scorer).items()}


def _scorer(arrays: dict[str, Any]) -> Scorer:
    """Return the scorer of these arrays."""
    arrays = {key: value for key, value in arrays.items() if key != "name"}
    return RidgeScorer(**_plain(arrays)) if "square" in arrays else SpectralScorer(**arrays)


def _plain(arrays: dict[str, Any]) -> dict[str, Any]:
    """Turn arrays of one number back into numbers."""
    return {key: value.item() if value.ndim == 0 else value for key, value in arrays.items()}


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays below a prefix."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def _text(lines: Sequence[str]) -> Any:
    """Return lines of text as an array of bytes."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _lines(array: Any) -> list[str]:
    """Return the lines of an array of bytes."""
    text = array.tobytes().decode()
    return str(text).split("\n") if text else []


def _gone(k: int) -> Scorer:
    """Refuse: folds are not kept in a folder."""
    raise PlanError(f"the exposure without fold {k} is not kept in a model folder; fit again.")
