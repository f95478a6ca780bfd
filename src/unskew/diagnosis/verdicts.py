"""The figures in words: five questions, five answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from unskew.diagnosis.calibration import Calibration
from unskew.diagnosis.dependence import Dependence, Rates
from unskew.diagnosis.errors import ErrorFigures
from unskew.diagnosis.overlap import OverlapFigures
from unskew.diagnosis.selection import SelectionTest
from unskew.diagnosis.sensitivity import SensitivityFigures
from unskew.metrics.intervals import Interval

Level = Literal["fine", "caution", "problem"]

ALPHA = 0.01  # of the test for selection by liking
UNEVEN = 1e-3  # of the test that all users, or all items, are seen alike
EXPLAINED = 2 / 3  # of a shift: then what the log knows of a pair is what seeing depends on
THIN = 0.1  # of the ratings, or
FEW = 200  # effective ones
ENOUGH_RANDOM = 600  # random ratings tell a rest of 4 points from none: 2 sqrt(1/4 / 600) = 0.04
WEAK = 1.5  # a factor in the odds that an unmeasured cause easily reaches

NEEDED = "Is debiasing needed?"
WORKS = "Can it work on this data?"
BELIEVED = "Can propensity and imputation be believed?"
WRONG = "How wrong can the answer be?"
OVERTURNED = "What could overturn it?"


@dataclass(frozen=True)
class Verdict:
    """An answer: `kind` for programs, `words` for people."""

    question: str
    kind: str
    level: Level
    words: str

    def __str__(self) -> str:
        return f"{self.question} {self.words}"


def needed(test: SelectionTest, rates: Rates, dependences: tuple[Dependence, ...], overlap: OverlapFigures) -> Verdict:
    """Is the log missing not at random, and can the log alone mend it?"""
    if rates.shift is not None and not rates.shift.covers(0.0):
        return _with_random_ratings(rates)
    if test.evidence < ALPHA:
        return _by_liking(test)
    uneven = [name for name, p in zip(("users", "items"), overlap.uneven_p_values, strict=True) if p < UNEVEN]
    return _by_popularity(uneven, test, rates, dependences) if uneven else _not_at_all(test, rates)


def _not_at_all(test: SelectionTest, rates: Rates) -> Verdict:
    words = (
        f"No sign of it: users and items are seen alike, and liking has no part in it ({_tested(test)}). A naive model "
        f"will do.{_proof(test, rates)}"
    )
    return Verdict(NEEDED, "none", "caution" if test.blind else "fine", words)


def _by_popularity(
    uneven: list[str], test: SelectionTest, rates: Rates, dependences: tuple[Dependence, ...]
) -> Verdict:
    bent = [entry.property for entry in dependences if not entry.slope.covers(0.0)]
    some = f"some {' and '.join(uneven)} are seen far more often than others"
    beyond = f"beyond user and item there is no sign that it is for being liked ({_tested(test)})"
    remedy = "Weighting by activity and popularity, which Additive() knows, is enough for that."
    if bent:
        words = (
            f"Yes, for popularity at least: {some}, and ratings go with {' and '.join(bent)}, so means over the log "
            f"are off (the mean rating is {rates.log.value:.1%} as it is and {rates.weighted.value:.1%} weighted); "
            f"{beyond}, though a log can miss it. {remedy}"
        )
        return Verdict(NEEDED, "popularity", "caution", words + _proof(test, rates))
    words = f"Only for popularity: {some}, but ratings do not go with it, and {beyond}. {remedy}{_proof(test, rates)}"
    return Verdict(NEEDED, "popularity", "caution" if test.blind else "fine", words)


def _tested(test: SelectionTest) -> str:
    return f"likelihood ratio {test.likelihood_ratio:.1f}, p = {test.evidence:.2g}"


def _proof(test: SelectionTest, rates: Rates) -> str:
    """How far no sign is a proof."""
    if rates.random is not None:
        return " Random ratings have the same mean."
    if test.blind:
        return (
            " Predictions tell next to nothing about who likes what here, so the test of liking is nearly blind; "
            "only random ratings (random_ratings=) could tell."
        )
    return " Only random ratings (random_ratings=) could rule out that the rating itself decides."


def _by_liking(test: SelectionTest) -> Verdict:
    more = "more" if test.slope.value > 0 else "less"
    words = (
        f"Yes: a pair is the {more} likely to be seen, the more it is liked, beyond user and item ({_tested(test)}; "
        f"one standard deviation of predicted liking multiplies the odds by {math.exp(test.slope.value):.2f}). If "
        "that is liking the log can predict, a personal propensity such as Factors() mends it. If the rating itself "
        f"decides, no log alone can tell or mend it: collect random ratings (about {ENOUGH_RANDOM} show a rest of 4 "
        "points), pass them as random_ratings= here, and weight by NaiveBayes()."
    )
    return Verdict(NEEDED, "liking", "caution", words)


def _with_random_ratings(rates: Rates) -> Verdict:
    assert rates.random is not None
    assert rates.shift is not None
    assert rates.left is not None
    explained = 1 - rates.left.value / rates.shift.value
    facts = (
        f"the mean rating is {rates.log.value:.1%} in the log and {rates.random.value:.1%} among random ratings; "
        f"weighted by what the log knows of each pair it is {rates.doubly_robust.value:.1%}"
    )
    if explained >= EXPLAINED or rates.left.covers(0.0):
        words = (
            f"Yes, and the log can mend it: {facts}. Seeing depends on what can be predicted of a pair; use a personal "
            "propensity such as Factors()."
        )
        return Verdict(NEEDED, "taste", "caution", words)
    odds = (
        "" if rates.odds is None else f" A liked pair is {_times(rates.odds)} as likely to be seen as a disliked one."
    )
    words = (
        f"Yes, and no log alone can mend it: {facts}, so most of the shift is left. The rating itself decides what "
        f"is seen, or something about the pair that the log does not show.{odds} What helps is random ratings, which "
        "tell P(rating): NaiveBayes() with fit(log, random_ratings=...) weights each rating by its own value."
    )
    return Verdict(NEEDED, "rating", "problem", words)


def _times(odds: Interval) -> str:
    return f"{odds.value:.1f} times ({odds.low:.1f} to {odds.high:.1f})"


def works(overlap: OverlapFigures) -> Verdict:
    """Can the seen pairs stand for all pairs?"""
    left = f"{overlap.effective_sample_size:,.0f} of {overlap.n_ratings:,} ratings"
    if overlap.collapsed:
        if min(overlap.uneven_p_values) >= UNEVEN and abs(overlap.mean / overlap.base_rate - 1) < 0.1:
            words = "There is nothing to weight: the propensity is the same for every pair, and so is the log."
            return Verdict(WORKS, "constant", "fine", words)
        words = (
            f"No: the propensity has collapsed. It says {overlap.mean:.4g} of every pair (spread "
            f"{overlap.spread:.1g}) where {overlap.base_rate:.4g} were seen, so weighting by it changes nothing; "
            "lower its l2, train it longer, or use Additive()."
        )
        return Verdict(WORKS, "collapsed", "problem", words)
    if overlap.trouble is not None:
        return _in_trouble(overlap, left)
    clip = ""
    if overlap.clip > 0 and overlap.coverage_clipped < 0.9 * overlap.coverage:
        clip = (
            f" The clip at {overlap.clip:.3g} raises {overlap.clipped_share_of_pairs:.0%} of all pairs' "
            f"propensities, which lets the seen pairs stand for {overlap.coverage_clipped:.0%} of all pairs instead "
            f"of {overlap.coverage:.0%}: less variance for some bias."
        )
    if overlap.effective_sample_size < max(THIN * overlap.n_ratings, FEW):
        words = f"Only just: the weights leave {left}, so intervals will be wide.{clip}"
        return Verdict(WORKS, "thin", "caution", words)
    words = f"Yes: every kind of pair has been seen, and the weights leave {left}.{clip}"
    return Verdict(WORKS, "good", "caution" if clip else "fine", words)


def _in_trouble(overlap: OverlapFigures, left: str) -> Verdict:
    if overlap.trouble == "too small":
        words = (
            f"Not with these propensities: their inverses add up to {overlap.coverage:.0%} of the pairs there are, "
            "so they are too small where it matters, as overconfident ones are; calibrate them, for example by "
            "DoublyCalibrated(base)."
        )
        return Verdict(WORKS, "overconfident", "problem", words)
    if overlap.trouble == "few":
        words = (
            f"No: a few ratings carry all the weight. The weights leave {left}, and the largest is "
            f"{overlap.largest_share:.0%} of their sum; clip, or ask about fewer users and items."
        )
        return Verdict(WORKS, "no overlap", "problem", words)
    words = (
        f"No: the seen pairs stand for {overlap.coverage:.0%} of all pairs only. The others are out of reach, so "
        "that no weighting and no model can be checked on them; restrict users and items to those who could meet, "
        "or collect random ratings."
    )
    return Verdict(WORKS, "no overlap", "problem", words)


def believed(calibrations: tuple[Calibration, ...]) -> Verdict:
    """Do propensity and imputation mean what they say, on average and group by group?"""
    facts = "; ".join(_said_and_true(entry) for entry in calibrations)
    wrong = [entry for entry in calibrations if entry.visible]
    if wrong:
        names = " and ".join(dict.fromkeys(f"the {entry.role}" for entry in wrong))
        curable = all(entry.used == "before" and _halved(entry) for entry in wrong)
        advice = " A Platt map would help; DoublyCalibrated(base) calibrates both." if curable else ""
        return Verdict(BELIEVED, "miscalibrated", "caution", f"Not {names}: {facts}.{advice}")
    if any(entry.wrong_groups for entry in calibrations):
        return Verdict(BELIEVED, "miscalibrated by group", "caution", f"On average, but not for everybody: {facts}.")
    return Verdict(BELIEVED, "calibrated", "fine", f"Yes, as far as can be seen: {facts}.")


def _said_and_true(entry: Calibration) -> str:
    used = entry.in_use
    words = (
        f"the {entry.role} says {used.mean.value:.4g} on average where {used.base_rate.value:.4g} is true (debiased "
        f"error {used.debiased_error.value:.4f} over {entry.rows})"
    )
    if not entry.wrong_groups:
        return words
    name, worst = entry.wrong_groups[0]
    return f"{words}, and {worst.mean.value:.4g} where {worst.base_rate.value:.4g} is true for the {name}"


def _halved(entry: Calibration) -> bool:
    return entry.after.debiased_error.value < entry.before.debiased_error.value / 2


def wrong(errors: ErrorFigures, overlap: OverlapFigures) -> Verdict:
    """How far may the estimated risk be from the truth?"""
    if overlap.trouble == "out of reach":
        words = (
            f"By any amount on the pairs that are out of reach; on the others the mean squared error is about "
            f"{errors.doubly_robust.value:.4f}, against {errors.naive.value:.4f} over the ratings as they are."
        )
        return Verdict(WRONG, "unknown", "problem", words)
    first = errors.mend_first
    moves = (
        f"calibrating the propensity moves it by {errors.propensity_moves.value:+.4f}, calibrating the imputation by "
        f"{errors.imputation_moves.value:+.4f}"
    )
    mend = f"; mend the {first} first" if first else "; neither needs mending first"
    words = (
        f"The mean squared error is {errors.naive.value:.4f} over the ratings as they are and "
        f"{errors.doubly_robust.value:.4f} over all pairs ({errors.doubly_robust.low:.4f} to "
        f"{errors.doubly_robust.high:.4f}, doubly robust, {errors.n_ratings:,} ratings); {moves}{mend}."
    )
    return Verdict(WRONG, first or "neither", "caution" if first else "fine", words)


def overturned(figures: SensitivityFigures) -> Verdict:
    """How strong a hidden cause of seeing would change who is better?"""
    value, low, high = figures.difference
    difference = f"{value:+.4f} ({low:+.4f} to {high:+.4f}) in mean squared error against {figures.rival}"
    if figures.better is None:
        words = f"Chance alone: {difference}, so the prediction is neither certainly better nor certainly worse."
        return Verdict(OVERTURNED, "undecided", "caution", words)
    factor = figures.overturning_factor
    stands = f"the prediction is {'better' if figures.better == 'prediction' else 'worse'}, {difference}"
    if math.isinf(factor):
        return Verdict(OVERTURNED, figures.better, "fine", f"No hidden cause of being seen: {stands}.")
    words = f"A hidden cause that changes the odds of being seen by a factor of {factor:.2f}. As it stands {stands}."
    return Verdict(OVERTURNED, figures.better, "caution" if factor < WEAK else "fine", words)
