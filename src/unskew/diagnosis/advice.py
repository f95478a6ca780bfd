"""What follows from the findings: use it, test it or do not switch, why, and what to do next, in one wording."""

from collections.abc import Sequence

from unskew.evaluation.compare import ASSUMPTION, Comparison
from unskew.findings import DECISIONS, Decision, Finding, Findings

FOR_THE_LEVEL = 0.25 * (1.96 / 0.03) ** 2  # random ratings that tell a share within 3 points
FOR_THE_ASSUMPTION = 250


def about_model(
    comparison: Comparison, findings: Sequence[Finding], *, about: str, source: str, orders: Sequence[str]
) -> Findings:
    """Return a decision about a model against plain training."""
    found = {one.key: one for one in findings}
    alike = found["lists"].answer == "no"
    decision: Decision = "stop" if alike else comparison.decision
    why = _why(decision, comparison, found, alike)
    return Findings(decision, why, findings, _steps(decision, comparison, found, source, orders), about)


def _why(decision: Decision, comparison: Comparison, found: dict[str, Finding], alike: bool) -> str:
    gain = comparison.deciding
    level = "" if found["bias"].answer != "yes" else _level(found["bias"])
    if alike:
        return f"Nearly everybody would get the same first item, so these lists are no recommendations. {level}".strip()
    points = 100 * gain.order.value
    if decision == "use":
        size = "tells what people like from what they do not better than plain training, whatever drives seeing"
        if "order" in gain.looks() and points > 0:
            size = f"orders what people like better than plain training, by {points:.1f} points, beyond chance"
        elif "squared" in gain.looks():
            size = "gives chances closer to the truth than plain training, whatever drives seeing"
        return f"{level} This model {size}.".strip()
    if decision == "stop":
        ordered = "order" in gain.looks(-1) and points < 0
        worse = f"{-points:.1f} points fewer liked items ranked above disliked ones" if ordered else "larger errors"
        return f"Plain training is better: this model has {worse}, beyond chance. {level}".strip()
    needed = comparison.needed
    how = "An A/B test would" if needed is None else f"{needed:,} random ratings, or an A/B test, would"
    return f"This log cannot tell this model from plain training. {how}: do that before switching. {level}".strip()


def _of_shares(bias: Finding) -> bool:
    """Return whether levels are shares of what is liked, not mean ratings."""
    return bias.numbers["in the log"].form.endswith("%")


def _tells(bias: Finding) -> str:
    return "what share is liked within 3 points" if _of_shares(bias) else "the mean within 3% of the scale"


def _level(bias: Finding) -> str:
    here = bias.numbers["in the log"]
    elsewhere = bias.numbers.get("random ratings") or bias.numbers.get("over all pairs")
    if not _of_shares(bias):
        return f"Your log is not like everything: what people chose to rate has {here} on average, all has {elsewhere}."
    return f"Your log is not like everything: {here} of what people chose to rate is liked, {elsewhere} of everything."


def _steps(
    decision: Decision, comparison: Comparison, found: dict[str, Finding], source: str, orders: Sequence[str]
) -> list[str]:
    steps = []
    if decision == "use" and "thompson" in orders:
        steps.append(
            "Give it a share of traffic, and show a few lists by a draw from what is possible, so that the next log "
            f"knows more: `unskew recommend {source} --by thompson --out lists.csv`."
        )
    elif decision == "use":
        steps.append(f"Give it a share of traffic: `unskew recommend {source} --out lists.csv`.")
    again = f"`unskew diagnose {source} --random-ratings random.csv --out report.html`"
    if comparison.n_random == 0:
        decides = decision == "test" and comparison.needed is not None
        n = comparison.needed if decides else FOR_THE_ASSUMPTION
        purpose = "decide" if decides else "expose a gross violation of what this rests on"
        steps.append(f"Ask {n:,} random pairs for their ratings, which would {purpose}; then {again}.")
    if found["bias"].answer != "no" and comparison.n_random < FOR_THE_LEVEL:
        steps.append(f"{FOR_THE_LEVEL:,.0f} random ratings tell {_tells(found['bias'])}.")
    steps += [one.action for one in found.values() if one.key in ("data", "reach") and one.action]
    if decision == "stop":
        steps.append("Keep plain training, and diagnose again when the log has grown.")
    return steps


def about_log(findings: Sequence[Finding], *, about: str, source: str) -> Findings:
    """Return a decision about a log: correct it, plain is fine, or cannot tell."""
    found = {one.key: one for one in findings}
    bias = found["bias"]
    decision = DECISIONS[bias.answer]
    why = {
        "use": f"{_level(bias)} Use a method that corrects it.",
        "stop": "What people chose to rate is like everything, as far as this log can tell: plain training is fine.",
        "test": "This log cannot tell whether what people chose to rate is like everything.",
    }[decision]
    what = "a model that corrects it" if decision == "use" else "a model all the same"
    steps = [f"Fit {what}: `unskew fit {source} --out model`."]
    steps.append("Ask whether it pays: `unskew diagnose model --out report.html`.")
    if decision == "test":
        steps.append(f"Ask {FOR_THE_LEVEL:,.0f} random pairs for their ratings: they tell {_tells(bias)}.")
    steps += [one.action for one in found.values() if one.key in ("data", "reach") and one.action]
    return Findings(decision, why, findings, steps, about, "log")


def assumption(comparison: Comparison | None) -> Finding:
    """Return what no log can show."""
    meaning = ASSUMPTION
    if comparison is None:
        meaning = (
            "The band holds if liking drives rating for all items alike; no log can show this; about 250 random "
            "ratings would expose a gross violation."
        )
    elif comparison.n_random and comparison.deciding is comparison.by_random:
        meaning = "Random ratings decided, so that nothing about how liking drives rating is assumed."
    return Finding("assumption", "cannot tell", "What this rests on", meaning)
