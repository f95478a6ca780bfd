"""The page in a few sentences: is the log biased, what came of it, what to trust and what not."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.diagnosis.verdicts import Level as Severity
from unskew.report.comparison import Comparison
from unskew.report.data import FEW, DataFacts
from unskew.report.material import Material
from unskew.report.names import Level, signed, spread
from unskew.report.versus import Line, Versus

WEAK = 1.5  # a hidden cause that changes odds by less is easily imagined
_HEADLINES = {
    "none": "We found no sign of bias in your log.",
    "popularity": "Your log is biased: it speaks mostly of what is rated often.",
    "liking": "Your log is biased: people rate what they like.",
    "taste": "Your log is biased, and the bias can be removed.",
    "rating": "Your log is biased, and no log alone can mend it.",
}


@dataclass(frozen=True)
class Summary:
    headline: str
    level: Severity
    lede: str
    trust: tuple[str, ...]
    distrust: tuple[str, ...]


def summary_of(material: Material, compared: Comparison, data: DataFacts) -> Summary:
    """Random ratings, if there are any, are believed before the log."""
    needed, level, judged = material.diagnosis["needed"], Level(material.log), compared.believed
    is_random = compared.random is not None
    return Summary(
        headline=_HEADLINES.get(needed.kind, needed.words),
        level=needed.level,
        lede=f"{_shift(material, level)} {_outcome(material, judged, is_random)}",
        trust=tuple(_trust(material, judged, is_random)),
        distrust=tuple(_distrust(material, judged, None if is_random else compared.factor, data, level)),
    )


def _shift(material: Material, level: Level) -> str:
    """How far the log is from all pairs. What the log alone says gets no interval here: chance is its least worry."""
    rates = material.diagnosis.rates
    log, random, robust = rates.log.value, rates.random, rates.doubly_robust
    if random is not None:
        words = f"random ratings say that it is {level(random.value)} over all pairs, rated or not"
        return f"The {level.name} is {level(log)} in the log; {words} (95% interval {level.interval(random)})."
    if robust.covers(log):
        return f"The {level.name} is {level(log)} in the log and, as far as the log can tell, the same over all pairs."
    return (
        f"The {level.name} is {level(log)} in the log; from the log alone we estimate {level(robust.value)} over all "
        "pairs, rated or not, and the truth may be further off."
    )


def _outcome(material: Material, judged: Versus, is_random: bool) -> str:
    main = judged.main
    biased = material.diagnosis["needed"].kind != "none"
    what = "for the bias" if biased else "for any bias"
    who = f"A model that corrects {what}" if material.is_naive else f"This model, which corrects {what},"
    if main is None:
        return f"{who} could not be compared with one that does not."
    by, where = f"mean squared error {_difference(main)}", _where(judged, is_random)
    if main.verdict == "cannot tell":
        return f"{who} cannot be told from one that does not {where}: {by}."
    return f"{who} predicts {main.verdict} than one that does not {where}: {by}."


def _where(judged: Versus, is_random: bool) -> str:
    """By what the two models were judged."""
    if is_random:
        return "on random ratings"
    return "on what people chose to rate" if judged.unweighted else "over all pairs"


def _weighting_mends(material: Material) -> bool:
    """Whether weighting can be believed: it works, and random ratings, if there are any, do not say otherwise."""
    found = material.diagnosis
    left = found.rates.left
    return found["works"].level != "problem" and found["needed"].kind != "rating" and (left is None or left.covers(0.0))


def _trust(material: Material, judged: Versus, is_random: bool) -> list[str]:
    said, found = [], material.diagnosis
    if _weighting_mends(material) and found["works"].kind != "constant":
        missed = "" if found.rates.random else " Only random ratings could show what they still miss."
        said.append(
            "Averages corrected by weighting, more than plain ones: the ratings, weighted, stand for "
            f"{found.overlap.coverage:.0%} of all pairs (100% is ideal).{missed}"
        )
    lines = judged.lines
    where = _where(judged, is_random)
    if better := [f"{line.metric} {_difference(line)}" for line in lines if line.verdict == "better"]:
        said.append(f"That debiasing helps {where}: {'; '.join(better)}.")
    order = None if judged.unweighted and not is_random else judged["auc"]
    if order is not None and order.found.first.low > 0.5:
        value = order.found.first
        said.append(
            f"The debiased model's order: it ranks a liked pair above a disliked one in {value.value:.0%} of cases "
            f"({value.low:.0%} to {value.high:.0%}; a coin would in 50%)."
        )
    if found["believed"].kind == "calibrated":
        said.append("The size of its chances, which mean what they say as far as can be seen.")
    return said or ["Nothing on this page without reading the limits first."]


def _distrust(material: Material, judged: Versus, factor: float | None, data: DataFacts, level: Level) -> list[str]:
    said, found = [], material.diagnosis
    if found["needed"].kind != "none":
        said.append(f"Plain averages of the log, such as its {level.name} of {level(found.rates.log.value)}.")
    if found["works"].level == "problem":
        said.append("Anything said of pairs unlike those that were rated: no rating can stand for them.")
    elif not _weighting_mends(material):
        robust, random = found.rates.doubly_robust, found.rates.random
        truth = "" if random is None else f", where random ratings say {level(random.value)}"
        said.append(f"Averages corrected by weighting alone, such as {level(robust.value)}{truth}.")
    lines = judged.lines
    if worse := [f"{line.metric} {_difference(line)}" for line in lines if line.verdict == "worse"]:
        said.append(f"That debiasing helps by every measure: {'; '.join(worse)}.")
    if unsure := [line.metric for line in lines if line.verdict == "cannot tell"]:
        said.append(f"Small differences between the two models: by {_listed(unsure)} they cannot be told apart.")
    if factor is not None and factor < WEAK:
        said.append(
            f"The comparison, if something unmeasured may change the odds of being rated by a factor of {factor:.2f}: "
            "that would turn it round."
        )
    said += _uncalibrated(material)
    few = [f"{n:,} {side.name}" for side in (data.users, data.items) if (n := side.n_few + side.n_without)]
    if few:
        said.append(f"Single predictions for {_listed(few)} with fewer than {FEW} ratings.")
    return said


def _uncalibrated(material: Material) -> list[str]:
    """What is said of a role on random ratings comes before what the log says of it."""
    said: dict[str, str] = {}
    for entry in material.diagnosis.calibration:
        where = " on random ratings" if entry.rows == "random ratings" else ""
        if entry.visible:
            said[entry.role] = (
                f"The size of the {entry.role}: it says {entry.in_use.mean.value:.3f} on average where "
                f"{entry.in_use.base_rate.value:.3f} happens{where}, with a typical gap of "
                f"{entry.in_use.debiased_error.value:.3f}."
            )
        elif entry.wrong_groups and entry.role not in said:
            name, worst = entry.wrong_groups[0]
            said[entry.role] = (
                f"The size of the {entry.role} for the {name}: it says {worst.mean.value:.3f} where "
                f"{worst.base_rate.value:.3f} happens{where}."
            )
    return list(said.values())


def _difference(line: Line) -> str:
    return f"{signed(line.found.difference.value)} (95% interval {spread(line.found.difference, sign=True)})"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
