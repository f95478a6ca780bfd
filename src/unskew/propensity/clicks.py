"""The chance that what is listed is seen, such as that what is shown is clicked: a Bayesian probit over all rows."""

from dataclasses import dataclass

import numpy as np

from unskew.calibration.platt import SMALLEST_SLOPE
from unskew.data.impressions import NAMED
from unskew.data.pairs import pair_fold
from unskew.data.population import ListedRows
from unskew.errors import DataError
from unskew.losses.columns import logit
from unskew.posterior.answers import Posterior
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, fold_sweeps, one_blas_thread, sample
from unskew.posterior.flat import RecordSpec, flat
from unskew.posterior.kernels import Float, Int
from unskew.posterior.targeted import ridge_logistic
from unskew.propensity.base import OfKnown, Propensity
from unskew.special import expit, log_expit
from unskew.training.plan import Given

FEW = 30  # clicks on random rows at a position, below which all rows tell of it
LARGE = 100_000  # rows: from here on half of them teach as much as four fifths


@dataclass(frozen=True, eq=False)
class ClickPropensity(OfKnown):
    """P(seen) of a listed row, from a posterior of what was seen, its logits mapped by a + b logit.

    It is that in an average context, to which each level of a column of context adds one of `terms`, and at an average
    position; `examination` is by how much each of `positions` multiplies it (the position-based model: Craswell et al.,
    WSDM 2008), where positions stand in the column `placed_by`.
    """

    posterior: Posterior
    map: tuple[float, float]
    n_users: int
    n_items: int
    base_logit: float
    positions: Float
    examination: Float
    terms: dict[str, Float]
    placed_by: str = "position"
    name: str = "clicks over everything shown"
    state = flat

    def known_logits(self, users: Int, items: Int) -> Float:
        a, b = self.map
        return np.asarray(a + b * self.posterior.logits(users, items))

    def at(self, rows: ListedRows) -> Float:
        """Return P(seen) of rows in their context at their positions; what is new there counts as the average."""
        logits = self.logits(rows.users.astype(np.int64), rows.items.astype(np.int64)).astype(np.float64)
        for name, effects in self.terms.items():
            if (levels := rows.columns.get(f"{NAMED}{name}")) is not None:
                logits += np.append(effects, 0.0)[np.where(levels < len(effects), levels, -1)]
        p = expit(logits)
        if (position := rows.columns.get(self.placed_by)) is None:
            return np.asarray(p)
        place = np.minimum(np.searchsorted(self.positions, position), len(self.positions) - 1)
        found = p * np.where(self.positions[place] == position, self.examination[place], 1.0)
        return np.asarray(np.minimum(found, 1.0))


@one_blas_thread
def fit_clicks(listed: ListedRows, n_users: int, n_items: int, seed: int) -> tuple[ClickPropensity, Float]:
    """Fit to all rows, and return log p of each at its position by a fit without its pair, calibrated by left-out rows.

    Rows that stand for several, such as down-sampled ones, count as often in the calibration, which sets the level.
    """
    if listed.seen.all():
        raise DataError("Every row that was shown was seen, and nothing tells what is seen: read all that was shown.")
    users, items = (codes.astype(np.int64) for codes in (listed.users, listed.items))
    shown = Pairs(users, items, n_users, n_items, listed.seen.astype(float))  # rated 1 where they were seen
    n, n_folds = len(listed), 2 if len(listed) >= LARGE else 5
    settings = BayesianFactors(exposure=False, history=False, sweeps=max(fold_sweeps(n), 40))
    problem = Problem(shown, settings, seed, liked_from=1.0)
    fold, logits = pair_fold(seed, users, items, n_folds), np.zeros(n)
    for k in np.unique(fold):
        own = fold == k
        logits[own] = problem.without_fold(fold, int(k)).logits(users[own], items[own])
    weights = np.ones(n) if listed.cells is None else listed.cells.astype(float)
    base = float(logit(np.average(listed.seen, weights=weights)))
    intercept, slope, terms, added = in_context(listed, logits, weights)
    log_p = log_expit(intercept + slope * logits + added)
    positions, place, examination = examined(listed, np.exp(log_p) * weights, weights)
    posterior, by = sample(problem).posterior, "examination" if "examination" in listed.columns else "position"
    fitted = ClickPropensity(posterior, (intercept, slope), n_users, n_items, base, positions, examination, terms, by)
    return fitted, np.minimum(log_p + np.log(examination)[place], 0.0)


def in_context(listed: ListedRows, logits: Float, weights: Float) -> tuple[float, float, dict[str, Float], Float]:
    """Fit log-odds a + b logit + a term for each level of each column of context, terms ~ N(0, 1).

    Terms of a column are 0 on average over the rows. Also what they add to each row.
    """
    from scipy.sparse import csr_array, hstack  # slow to import, and answers need none

    columns = {n.removeprefix(NAMED): c.astype(np.int64) for n, c in listed.columns.items() if n.startswith(NAMED)}
    n, sizes = len(logits), {name: int(levels.max()) + 1 for name, levels in columns.items()}
    hot = [csr_array((np.ones(n), (np.arange(n), c)), shape=(n, sizes[name])) for name, c in columns.items()]
    design = hstack([csr_array(np.column_stack([np.ones(n), logits])), *hot], format="csr")
    centre, penalty = np.eye(design.shape[1])[1], np.ones(design.shape[1])
    penalty[:2] = 1e-6  # a and b are free
    beta, _ = ridge_logistic(design, listed.seen, weights, penalty, centre, centre)
    if beta[1] < SMALLEST_SLOPE:  # no row left out bears the fit out: it tells nothing, and never the reverse
        centre[1], penalty[1] = SMALLEST_SLOPE, 1e12
        beta, _ = ridge_logistic(design, listed.seen, weights, penalty, centre, centre)
    ends = 2 + np.cumsum([0, *sizes.values()])
    terms = {name: beta[ends[k] : ends[k + 1]].copy() for k, name in enumerate(columns)}
    for name, levels in columns.items():
        mean = float(np.average(terms[name][levels], weights=weights))
        terms[name] -= mean
        beta[0] += mean
    added = np.sum([np.zeros(n), *(terms[name][levels] for name, levels in columns.items())], axis=0)
    return float(beta[0]), float(beta[1]), terms, added


def examined(listed: ListedRows, expected: Float, weights: Float) -> tuple[Float, Int, Float]:
    """Find how often each position is seen for what is expected of its rows, alike on average: by random rows if any.

    Where a policy puts the best first, positions of its rows tell what it chose as well as what is looked at. A column
    "examination" gives it.
    """
    if (given := listed.columns.get("examination")) is not None:
        positions, place = np.unique(given, return_inverse=True)
        return positions.astype(float), place, positions * (expected.sum() / (expected * given).sum())
    position = listed.columns.get("position")
    if position is None:
        return np.zeros(1), np.zeros(len(listed), np.int64), np.ones(1)
    positions, place = np.unique(position, return_inverse=True)
    random = listed.columns.get("is_random")
    if random is None or np.bincount(place[random & listed.seen], minlength=len(positions)).min() < FEW:
        random = np.ones(len(listed), np.bool_)
    seen = np.bincount(place[random], (weights * listed.seen)[random], len(positions)) + 0.5
    ratio = seen / (np.bincount(place[random], expected[random], len(positions)) + 0.5)
    scale = expected.sum() / (expected * ratio[place]).sum()
    return positions.astype(float), place, ratio * scale


@dataclass(frozen=True, kw_only=True)
class Clicks(RecordSpec, Propensity):
    """P(seen) of listed rows, such as clicks on what was shown: a Bayesian probit over all rows, calibrated."""

    fitted = ClickPropensity

    def fit_in(self, given: Given) -> ClickPropensity:
        log = given.log
        if log.listed is None:
            raise DataError("Clicks() learns from rows that were listed and not seen, and the log has none: set seen=.")
        return fit_clicks(log.listed, log.n_users, log.n_items, given.seed % 2**31)[0]
