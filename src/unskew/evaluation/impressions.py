"""What impressions tell of models and of other policies: rows that nothing was trained on judge, by `estimate_value`.

The outcome of a row is visible with a chance p: that it was clicked, where it is what came of clicks, or that it was
shown, where it is the click. Over what answers are wanted decides the other chance t: 1 for everything shown, 1 /
|items| for all pairs, 1 / k for the k best of a user in "precision@k", and what a policy says in "value". Chances p are
those that were logged or given; else they are learned from the other rows, as imputed outcomes q are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.split import holdout_split, usual
from unskew.errors import DataError, ParameterError
from unskew.evaluation.fits import Answers, Values, exposure_of
from unskew.evaluation.policy import PolicyValue, estimate_value
from unskew.evaluation.scores import by_ids, is_of, known_propensity, places, scores_of
from unskew.metrics.checks import finite_vector
from unskew.metrics.table import Metric, find
from unskew.posterior.answers import Posterior
from unskew.posterior.factors import BayesianFactors, Problem, sample
from unskew.propensity.clicks import ClickPropensity, fit_clicks
from unskew.topk import Candidates, top_items
from unskew.training.options import Training

Codes = NDArray[Any]
SHARE = 0.3  # of rows that judge
QUIET, IMPUTATION = Training(progress=False), BayesianFactors(exposure=True, history=False, sweeps=60)
STRENGTHS = 10.0 ** np.arange(-0.5, 6, 0.5)  # rows that shares count for
CELLS, DRAWN = 2_000_000, 1_000  # pairs at once; items of a user that stand for all of a larger catalogue
VALUE = "value"
METRICS = ("mse", "mae", "log_loss", VALUE, "precision")
USUAL = ("mse", "log_loss", "precision@10")


@dataclass(frozen=True, eq=False)
class Judge:
    """Rows of a log that judge, and what is learned from the others; `rest` is None where nothing is to be learned."""

    log: RatingLog
    rest: RatingLog | None
    held: RatingLog
    given: Values | None  # chances of the judging rows that were given
    seed: int
    stands_for: Values  # how many rows each row with a known outcome stands for

    @classmethod
    def of(cls, log: RatingLog, seed: int, propensity: Any = None, learns: bool = True) -> Judge:
        """Divide a log by time, or by request, unless nothing is to be learned: then all of its rows judge."""
        judge = cls(log, None, log, known_propensity(propensity, log), seed, log.rows_each)
        if not learns and not judge.learns_chances:
            return judge
        split = holdout_split(log, SHARE, by=usual(log), seed=seed)
        own = split.held_out if split.held_out is not None else split.holdout_rows
        given = None if judge.given is None else judge.given[own]
        if not 0 < split.train.positive_rate < 1:
            raise DataError("The first part of the log has one outcome alone, and nothing can be judged by the other.")
        return cls(log, split.train, split.holdout, given, seed, log.rows_each[split.holdout_rows])

    @property
    def learns_chances(self) -> bool:
        return self.given is None and (self.log.listed is not None or self.log.known_of_rows("pscore") is None)

    @cached_property
    def shown(self) -> tuple[Codes, Codes]:
        """Users and items of the judging rows, seen or not."""
        rows = self.held if self.held.listed is None else self.held.listed
        return rows.users, rows.items

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which rows have an outcome that is known."""
        listed = self.held.listed
        return np.ones(len(self.held), np.bool_) if listed is None else listed.seen

    @cached_property
    def outcome(self) -> Values:
        """The outcome of every row, 0 where it is not known."""
        found = np.zeros(len(self.seen))
        found[self.seen] = self.held.ratings
        return found

    @cached_property
    def clicks(self) -> ClickPropensity:
        """The chance of a click on what is shown, learned from the other rows."""
        assert self.rest is not None
        assert self.rest.listed is not None
        return fit_clicks(self.rest.listed, self.log.n_users, self.log.n_items, self.seed % 2**31)[0]

    @cached_property
    def imputation(self) -> Posterior:
        """A posterior of the outcomes of the other rows."""
        assert self.rest is not None
        return sample(Problem.of(self.rest, IMPUTATION, self.seed % 2**31)).posterior

    @cached_property
    def visible(self) -> Values:
        """The chance that the outcome of each row is visible: that it was clicked, or shown."""
        if self.held.listed is None:
            return self.shares
        return self.given if self.given is not None else np.asarray(self.clicks.at(self.held.listed))

    @cached_property
    def weights(self) -> Values:
        """What each row with a known outcome stands for, as a share: 1 / its chance to be visible."""
        inverse = self.stands_for / self.visible[self.seen]
        return np.asarray(inverse / inverse.sum())

    @cached_property
    def shares(self) -> Values:
        """The chance that what each row shows would be shown there: given, logged or learned."""
        logged = self.held.known_of_rows("pscore")
        if self.given is not None and self.held.listed is None:
            return self.given
        if logged is not None:
            return logged.astype(np.float64)
        assert self.rest is not None
        return learned_shares(self.rest, self.shown, self.seed % 2**31)

    def over_items(self, function: Answers) -> Values:
        """Return the mean of a function over all items, for the user of each row."""
        people, row = np.unique(self.shown[0], return_inverse=True)
        return means_over_items(function, people, self.log.n_items, self.seed)[row]

    def answers(self, source: Any, name: str) -> Answers:
        """Return what is judged: of an unskew model of this log its method without the judging rows; else scores."""
        if is_of(source, self.log):
            assert self.rest is not None
            method, training = source.method, source.training or QUIET
            answers: Answers = method.fit(self.rest, seed=source.seed, training=training).predict_codes
            return answers
        return scores_of(source, self.log, name)

    def value(self, metric: Metric | None, source: Any, dr: bool) -> PolicyValue:
        """Estimate a metric, None for the value of a policy, of a `source` of answers by codes (or of a policy)."""
        users, items = self.shown
        cells = self.stands_for if self.held.listed is None else self.held.listed.cells
        common: dict[str, Any] = {"groups": users, "cells": cells}
        if metric is None or metric.k:
            return self._policy(metric, source, dr, common)
        cell = metric.cell
        assert cell is not None

        def expected(u: Codes, i: Codes) -> Values:
            """Return the error of an answer by the imputed outcome."""
            f, q = source(u, i), self.imputation.probability(u, i)
            return np.asarray(q * cell(f, np.ones(len(f))) + (1 - q) * cell(f, np.zeros(len(f))))

        error = cell(source(users, items), self.outcome)
        if self.held.listed is not None:
            imputed = (each := expected(users, items), each) if dr else None
            return estimate_value(error, self.visible, np.ones(len(error)), seen=self.seen, imputed=imputed, **common)
        imputed = (expected(users, items), self.over_items(expected)) if dr else None
        target = np.full(len(error), 1 / self.log.n_items)
        return estimate_value(error, self.visible, target, imputed=imputed, **common)

    def _policy(self, metric: Metric | None, source: Any, dr: bool, common: dict[str, Any]) -> PolicyValue:
        """Estimate the share of rows with the outcome if something else were shown in them."""
        users, items = self.shown
        n, imputed = self.log.n_items, None
        if metric is not None:
            k, people = min(metric.k, n), np.unique(users)
            best = top_items(source, Candidates(self.log, people, exclude_seen=False), k)
            first = people[best.position], best.items
            _, shown = places(np.sort(pair_keys(*first, n)), pair_keys(users, items, n))
            target = np.where(shown, 1 / k, 0.0)
            if dr:
                mean = np.bincount(first[0], self.reward(*first), self.log.n_users) / k
                imputed = self.reward(users, items), mean[users]
        elif callable(source):
            policy = by_ids(source, self.log, "the policy")
            target = policy(users, items)
            if dr:
                q_t = self.over_items(lambda u, i: policy(u, i) * self.reward(u, i) * n)
                imputed = self.reward(users, items), q_t
        else:
            target = finite_vector(source, "the policy")
            if len(target) != len(users):
                raise DataError(
                    f"the policy has {len(target):,} chances for {len(users):,} rows: give one a row, or a function."
                )
        return estimate_value(self.outcome, self.shares, target, imputed=imputed, **common)

    def reward(self, users: Codes, items: Codes) -> Values:
        """Return the imputed outcome of a row that shows a pair: of what came of clicks, with a click."""
        q = np.asarray(self.imputation.probability(users, items))
        return q if self.held.listed is None else q * self.clicks.pair(users, items)


def means_over_items(function: Answers, people: Codes, n_items: int, seed: int) -> Values:
    """Return the mean of a function over all items, by user; of many items over random ones."""
    drawn = np.random.default_rng([seed, 61]).permutation(n_items)[:DRAWN]
    found = np.empty(len(people))
    for part in np.array_split(np.arange(len(people)), -(-len(people) * len(drawn) // CELLS)):
        users, items = np.repeat(people[part], len(drawn)), np.tile(drawn, len(part))
        found[part] = function(users, items).reshape(len(part), -1).mean(axis=1)
    return found


def learned_shares(log: RatingLog, rows: tuple[Codes, Codes], seed: int) -> Values:
    """Learn the chance that a row of a user shows an item: (n_ui + k s_ui) / (n_u + k), from what a log has shown.

    n counts rows, s are shares by popularity, or by who was shown what: rates of which P(shown at all) = 1 - exp(-rate)
    is fitted. Which, and k, is what makes the latest rows of the log likeliest.
    """
    split = holdout_split(log, SHARE, by=usual(log), seed=seed)
    latest = split.holdout if split.holdout.listed is None else split.holdout.listed
    parts = _shares(split.train, (latest.users, latest.items), seed)
    likelihood = {(s, k): np.log(_mixed(*parts[s], k)).mean() for s in parts for k in STRENGTHS}
    best, k = max(likelihood, key=lambda each: float(likelihood[each]))
    return _mixed(*_shares(log, rows, seed, (best,))[best], k)


def _mixed(own: Values, total: Values, share: Values, k: float) -> Values:
    return np.asarray((own + k * share) / (total + k))


def _shares(
    log: RatingLog, rows: tuple[Codes, Codes], seed: int, kinds: Sequence[str] = ("popularity", "exposure")
) -> dict[str, tuple[Values, Values, Values]]:
    """Count, for each of some rows, rows of its pair and of its user in a log, and find shares of its item."""
    shown, (users, items) = log if log.listed is None else log.listed, rows
    keys, first, count = np.unique(
        pair_keys(shown.users, shown.items, log.n_items), return_index=True, return_counts=True
    )
    place, there = places(keys, pair_keys(users, items, log.n_items))
    own = np.where(there, count[place], 0).astype(np.float64)
    total, found = np.bincount(shown.users, minlength=log.n_users)[users].astype(np.float64), {}
    if "popularity" in kinds:
        counts = np.bincount(shown.items, minlength=log.n_items) + 0.5
        found["popularity"] = own, total, (counts / counts.sum())[items]
    if "exposure" in kinds:
        once = {"users": shown.users[first], "items": shown.items[first], "ratings": np.zeros(len(first), np.float32)}
        nothing = dict.fromkeys(("stars", "times", "cells", "chances", "listed", "random", "context", "target"))
        exposure = exposure_of(RatingLog.proved(**log.__dict__ | nothing | once), seed)

        def rate(u: Codes, i: Codes) -> Values:
            return np.asarray(np.logaddexp(0, exposure.logits(u, i).astype(np.float64)))  # -log(1 - P(shown))

        people, row = np.unique(users, return_inverse=True)
        mean = means_over_items(rate, people, log.n_items, seed)
        found["exposure"] = own, total, rate(users, items) / (mean[row] * log.n_items)
    return found


def values_of(source: Any, judge: Judge, metrics: Sequence[str], dr: bool) -> dict[str, PolicyValue]:
    """Estimate metrics of a model, of scores or of a policy, by name."""
    wanted = {each: None if each == VALUE else find(each) for each in metrics}
    for metric in wanted:
        if metric.partition("@")[0] not in METRICS:
            raise ParameterError(f"impressions cannot tell {metric}; ask for {', '.join(METRICS)}@K.")
    answers = judge.answers(source, "the model") if any(wanted.values()) else None
    return {each: judge.value(metric, source if metric is None else answers, dr) for each, metric in wanted.items()}
