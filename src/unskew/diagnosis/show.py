"""A diagnosis as text: verdicts first, figures after."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from unskew.diagnosis.calibration import Calibration
from unskew.diagnosis.overlap import LEVELS
from unskew.metrics.summary import CalibrationSummary

if TYPE_CHECKING:
    from unskew.diagnosis.diagnosis import Diagnosis

WIDTH = 110
MARKS = {"fine": "+", "caution": "!", "problem": "X"}


def as_text(diagnosis: Diagnosis) -> str:
    head = [f"Diagnosis of {diagnosis.subject}", diagnosis.log, ""]
    verdicts = []
    for verdict in diagnosis.verdicts:
        verdicts.append(f"[{MARKS[verdict.level]}] {verdict.question}")
        verdicts.extend(textwrap.wrap(verdict.words, WIDTH, initial_indent="    ", subsequent_indent="    "))
    parts = (_selection(diagnosis), _overlap(diagnosis), _calibration(diagnosis), _errors(diagnosis))
    return "\n".join([*head, *verdicts, "", "Figures (intervals: 95%)", *(line for part in parts for line in part)])


def _selection(d: Diagnosis) -> Iterable[str]:
    test, rates = d.selection, d.rates
    yield "selection"
    yield (
        f"  likelihood ratio {test.likelihood_ratio:.2f} on {test.n_seen:,} seen and {test.n_unseen:,} unseen pairs: "
        f"p = {test.p_value:.3g}, clustered by user and item p = {test.clustered_p_value:.3g}"
    )
    yield f"  log odds of being seen per s.d. of predicted liking beyond user and item: {test.slope}"
    yield f"  how far that part of the predictions foretells ratings (1: exactly, 0: not at all): {test.personal}"
    yield f"  mean rating: log {rates.log}, weighted {rates.weighted}, doubly robust {rates.doubly_robust}"
    if rates.random is not None:
        yield f"  random ratings {rates.random}: the log is off by {rates.shift}, doubly robust by {rates.left}"
    if rates.odds is not None:
        yield f"  P(seen | liked) / P(seen | disliked): {rates.odds}"
    for entry in d.dependences:
        fifths = ", ".join(f"{rate:.3f}" for rate in entry.by_fifth)
        yield f"  mean rating per s.d. of log {entry.property}: {entry.slope}; by fifth of it: {fifths}"
    users, items = d.overlap.uneven
    yield f"  numbers of ratings vary {users:.1f} (users) and {items:.1f} (items) times as much as by chance"


def _overlap(d: Diagnosis) -> Iterable[str]:
    o = d.overlap
    yield "overlap"
    level = f"mean {o.mean:.4f} (base rate {o.base_rate:.4f}), spread {o.spread:.4f}"
    yield f"  propensity: {level}, AUC of telling seen from unseen {o.discrimination:.3f}"
    yield "  share of pairs below:  " + "  ".join(f"{level:>6.0%}" for level in LEVELS)
    yield "    all pairs            " + "  ".join(f"{p:>6.4f}" for p in o.over_pairs)
    yield "    seen pairs           " + "  ".join(f"{p:>6.4f}" for p in o.over_seen)
    yield (
        f"  seen pairs stand for {o.coverage:.1%} (s.e. {o.coverage_error:.1%}) of all pairs; clip {o.clip:.4g} "
        f"raises {o.clipped_share_of_seen:.1%} of seen and {o.clipped_share_of_pairs:.1%} of all pairs, leaving "
        f"{o.coverage_clipped:.1%}"
    )
    largest = ", ".join(f"{w:.1f}" for w in o.largest_weights)
    yield f"  largest weights {largest} (the first is {o.largest_share:.1%} of their sum)"
    yield f"  effective sample size {o.effective_sample_size:,.0f} of {o.n_ratings:,}"
    for group in o.groups:
        yield f"    {group.name:<20} {group.effective_sample_size:>10,.0f} of {group.n_ratings:,}"
    yield "  seen pairs against all pairs, in standard deviations:  before  weighted"
    for entry in o.balance:
        yield f"    {entry.property:<50} {entry.before:>+7.2f}  {entry.after:>+7.2f}"


def _calibration(d: Diagnosis) -> Iterable[str]:
    for entry in d.calibration:
        yield f"calibration of the {entry.role} ({entry.rows}; {entry.before.n_rows:,} rows; in use: {entry.used})"
        yield from _lines("before", entry.before)
        yield from _lines("after", entry.after)
        yield from _by_group(entry)


def _lines(name: str, s: CalibrationSummary) -> Iterable[str]:
    yield f"  {name:<7} ECE {s.expected_error}, MCE {s.maximum_error}, equal-mass ECE {s.equal_mass_error}"
    yield f"          debiased {s.debiased_error}, Brier {s.brier}, mean {s.mean} against {s.base_rate}"


def _by_group(entry: Calibration) -> Iterable[str]:
    for name, before, after in entry.groups:
        yield (
            f"    {name:<20} debiased {before.debiased_error.value:.4f} -> {after.debiased_error}, mean "
            f"{before.mean.value:.4f} -> {after.mean.value:.4f} against {after.base_rate.value:.4f}"
        )


def _errors(d: Diagnosis) -> Iterable[str]:
    e, s = d.errors, d.sensitivity
    yield f"mean squared error of the prediction ({e.n_ratings:,} ratings, worth {e.effective_sample_size:,.0f})"
    yield f"  naive {e.naive}, weighted {e.weighted}, doubly robust {e.doubly_robust}"
    yield f"  calibrating the propensity moves it by {e.propensity_moves}, the imputation by {e.imputation_moves}"
    yield (
        f"  Lemma 1, what is calibrated taken for the truth: bias {-e.propensity_moves.value:+.4f} without "
        f"calibrating the propensity, standard error {e.standard_error:.4f}"
    )
    for name, bound in (("Theorem 2", e.theorem_2), ("Corollary 3", e.corollary_3), ("Theorem 4", e.theorem_4)):
        what = "variance" if name == "Theorem 4" else "bias"
        yield (
            f"  {name}: visible {what} {bound.exact:.3g} <= sharp {bound.sharp:.3g} <= {bound.by_gap:.3g} (as "
            f"printed, with binned ECE, which is no bound: {bound.as_printed[0]:.3g})"
        )
    turned = f"a factor of {s.overturning_factor:.3g} in the odds overturns it"
    yield f"sensitivity: {s.difference} against {s.rival}; {turned}"
    for factor, low, high in s.ranges:
        yield f"  hidden causes up to a factor of {factor:g}: mean squared error between {low:.4f} and {high:.4f}"
