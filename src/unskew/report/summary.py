"""The page in a few sentences: is the log biased, what came of it, what to trust and what not."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.diagnosis.verdicts import Level as Severity
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


def summary_of(material: Material, versus: Versus | None, factor: float | None, data: DataFacts) -> Summary:
    """`factor` is how strongly a hidden cause must change the odds of being rated to turn the comparison round."""
    needed = material.diagnosis["needed"]
    level = Level(material.log)
    return Summary(
        headline=_HEADLINES.get(needed.kind, needed.words),
        level=needed.level,
        lede=f"{_shift(material, level)} {_outcome(material, versus)}".strip(),
        trust=tuple(_trust(material, versus)),
        distrust=tuple(_distrust(material, versus, factor, data, level)),
    )


def _shift(material: Material, level: Level) -> str:
    rates = material.diagnosis.rates
    best, how = rates.doubly_robust, "from the log alone we estimate that"
    if rates.random is not None:
        best, how = rates.random, "random ratings say that"
    if best.covers(rates.log.value):
        return f"The {level.name} is {level(rates.log.value)} in the log, and about the same over all pairs."
    return (
        f"The {level.name} is {level(rates.log.value)} in the log; {how} it is {level(best.value)} over all pairs, "
        f"rated or not (95% interval {level.interval(best)})."
    )


def _outcome(material: Material, versus: Versus | None) -> str:
    main = None if versus is None else versus.main
    who = "A model that corrects for this" if material.is_naive else "This model, which corrects for it,"
    if main is None:
        return f"{who} could not be compared with one that does not."
    found = main.found
    by = f"{signed(found.difference.value)}, 95% interval {spread(found.difference, sign=True)}"
    if main.verdict == "better":
        return f"{who} predicts better than one that does not (mean squared error {by})."
    if main.verdict == "worse":
        return f"{who} predicts worse than one that does not (mean squared error {by})."
    return f"{who} cannot be told from one that does not by this log (mean squared error {by})."


def _trust(material: Material, versus: Versus | None) -> list[str]:
    said, found = [], material.diagnosis
    if found["works"].level != "problem" and found["works"].kind != "constant":
        said.append(
            f"Averages corrected by weighting: the ratings, weighted, stand for {found.overlap.coverage:.0%} of all "
            "pairs (100% is ideal)."
        )
    for line in [] if versus is None else versus.lines:
        if line.verdict == "better":
            said.append(f"That debiasing helps by {line.metric}: {_difference(line)}.")
    order = None if versus is None or versus.estimator == "naive" else versus["auc"]
    if order is not None and order.found.first.low > 0.5:
        value = order.found.first
        said.append(
            f"The debiased model's order: it ranks a liked pair above a disliked one in {value.value:.0%} of cases "
            f"({value.low:.0%} to {value.high:.0%}; a coin would in 50%)."
        )
    if found["believed"].kind == "calibrated":
        said.append("The size of its chances, which mean what they say as far as can be seen.")
    return said or ["Nothing on this page without reading the limits first."]


def _distrust(
    material: Material, versus: Versus | None, factor: float | None, data: DataFacts, level: Level
) -> list[str]:
    said, found = [], material.diagnosis
    if found["needed"].kind != "none":
        said.append(f"Plain averages of the log, such as its {level.name} of {level(found.rates.log.value)}.")
    if found["works"].level == "problem":
        said.append("Anything said of pairs unlike those that were rated: no rating can stand for them.")
    for line in [] if versus is None else versus.lines:
        if line.verdict == "worse":
            said.append(f"That debiasing helps by {line.metric}: it does not, {_difference(line)}.")
    unsure = [line.metric for line in ([] if versus is None else versus.lines) if line.verdict == "cannot tell"]
    if unsure:
        said.append(f"Small differences between the two models: by {_listed(unsure)} this log cannot tell them apart.")
    if factor is not None and factor < WEAK:
        said.append(
            f"The comparison, if something unmeasured may change the odds of being rated by a factor of {factor:.2f}: "
            "that would turn it round."
        )
    said += _uncalibrated(material)
    few = [f"{side.n_few + side.n_without:,} {side.name}" for side in (data.users, data.items)]
    if data.users.n_few + data.users.n_without + data.items.n_few + data.items.n_without:
        said.append(f"Single predictions for {_listed(few)} with fewer than {FEW} ratings.")
    return said


def _uncalibrated(material: Material) -> list[str]:
    said = []
    for entry in material.diagnosis.calibration:
        if entry.visible:
            said.append(
                f"The size of the {entry.role}: it says {entry.in_use.mean.value:.3f} on average where "
                f"{entry.in_use.base_rate.value:.3f} happens, with a typical gap of "
                f"{entry.in_use.debiased_error.value:.3f}."
            )
        elif entry.wrong_groups:
            name, worst = entry.wrong_groups[0]
            said.append(
                f"The size of the {entry.role} for the {name}: it says {worst.mean.value:.3f} where "
                f"{worst.base_rate.value:.3f} happens."
            )
    return list(dict.fromkeys(said))


def _difference(line: Line) -> str:
    return f"{signed(line.found.difference.value)} ({spread(line.found.difference, sign=True)})"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
