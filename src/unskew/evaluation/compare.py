"""Which of two models is better over the pairs that nobody chose: by the log alone, and by random ratings if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.data.read import as_log, read_log
from unskew.errors import DataError, ParameterError, words
from unskew.evaluation.fits import Answers, Values
from unskew.evaluation.gain import Estimate, Gain, gain, hull, together
from unskew.evaluation.impressions import Judge
from unskew.evaluation.judge import Evidence, gather, random_evidence
from unskew.evaluation.kept import fingerprint
from unskew.evaluation.policy import FEW
from unskew.evaluation.scores import judged, known_propensity, scores_of
from unskew.findings import DECISIONS, Decision, Finding, Interval
from unskew.metrics.table import find
from unskew.model import Recommender
from unskew.runtime import say
from unskew.selection.random_ratings import in_codes

MOST_ASKED = 100_000  # random ratings that anybody would ask for
ASSUMPTION = (
    "Holds if how strongly liking drives rating is alike for the items that the two models rank differently; no log "
    "can show this; about 250 random ratings would expose a gross violation."
)
WEIGHED = (
    "The order that decides counts users by the root of activity and a rating by that of what it stands for; an "
    "evaluation counts all unseen pairs alike."
)
BY_SHOWN, WORDS = ("mse", "precision@10"), {"mse": "lower"}
CORNERS = ("as the log stands, by activity", "if liking drives rating, by activity", "if it does, users alike")


class Witnesses(NamedTuple):
    """What judges models: a log, its evidence if it can, and random ratings if any."""

    log: RatingLog
    evidence: Evidence | None
    random: RatingLog | None

    @staticmethod
    def random_of(log: RatingLog, given: Any) -> RatingLog | None:
        """Return random ratings, read like the log, in its codes; without any, the log's own random traffic."""
        given = log.random_test if given is None else given
        if given is None:
            return None
        found, strange, _ = in_codes(log, given if isinstance(given, RatingLog) else read_log(given, like=log))
        if strange:
            say(f"{strange:,} of {strange + len(found):,} random ratings are of unknown users or items: left out.")
        return found

    @classmethod
    def of(
        cls, log: RatingLog, random_ratings: Any, seed: int, folder: Path | None, propensity: Values | None = None
    ) -> Witnesses:
        """Gather evidence; a log that cannot judge is refused unless random ratings, read like the log, can."""
        random = cls.random_of(log, random_ratings)
        try:
            return cls(log, gather(log, seed=seed, propensity=propensity, folder=folder), random)
        except DataError as error:
            if random is None:
                raise
            say(f"Random ratings alone judge: {error}")
            return cls(log, None, random)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The second of two models against the first: what is gained by the log, by random ratings, and what follows."""

    names: tuple[str, str]
    by_log: Gain | None
    by_random: Gain | None
    witnesses: Witnesses

    @property
    def n_random(self) -> int:
        """How many random ratings judge."""
        return 0 if self.witnesses.random is None else len(self.witnesses.random)

    @property
    def decision(self) -> Decision:
        """use the second, stop, or test: random ratings overrule the log."""
        return together(self.by_log, self.by_random)

    @property
    def better(self) -> str | None:
        """The name of the better model, None if neither is beyond chance."""
        return {"use": self.names[1], "stop": self.names[0], "test": None}[self.decision]

    @property
    def deciding(self) -> Gain:
        """What the decision rests on."""
        if self.by_random is not None and (self.by_random.decision != "test" or self.by_log is None):
            return self.by_random
        assert self.by_log is not None
        return self.by_log

    @property
    def needed(self) -> int | None:
        """Random ratings that would decide with a chance of 80%; None if nobody would ask that many."""
        n = np.ceil(self.deciding.needed / 10) * 10
        return None if n > MOST_ASKED else max(int(n), 50)

    @property
    def verdict(self) -> str:
        """How the second does; figures are its own less those of the first."""
        first, second = self.names
        if self.decision == "test":
            return f"This log cannot tell {second} from {first}"
        return f"{second} is {'better' if self.decision == 'use' else 'worse'} than {first}"

    def sentence(self) -> str:
        """Say what was found, in a sentence or two."""
        found, words = self.deciding, self.witnesses.log.wording
        ends = sorted(0.0 - end for end in found.band[1:3])
        error = f"squared error {ends[0]:+.4f} to {ends[1]:+.4f}"
        if found.aligned:
            ends = sorted(0.0 - end for end in hull(found.aligned)[1:3])
            error += f" (with one mean {ends[0]:+.4f} to {ends[1]:+.4f})"
        basis = f", depending on what drives seeing, by {len(self.witnesses.log):,} ratings left out in turn"
        basis = f", by {self.n_random:,} random {words.rows}" if found is self.by_random else basis
        stars = "" if found.stars is None else f", by stars {_points(found.stars)}"
        ordered = f"{_points(found.order)} of {words.won} items ranked above {words.lost} ones{stars}"
        if not found.ordered:
            ordered = f"no user has {words.rows} that are {words.won} and {words.lost}, to order"
        figures = f"{ordered}; {error}{basis}"
        if self.decision != "test":
            return f"{self.verdict}: {figures}."
        many = "no affordable number" if self.needed is None else f"{self.needed:,}"
        least = 100 * found.shown
        able = f"It can show a gain of {least:.1f} points or more; of" if found.ordered else "Of"
        able = "Both order alike; of" if found.order.error == 0 else able
        return f"{self.verdict}: {figures}. {able} random {words.rows}, {many} would decide."

    def finding(self) -> Finding:
        """Answer whether the second is better, as a record."""
        answer = next(answer for answer, decision in DECISIONS.items() if decision == self.decision)
        headline = f"{answer.capitalize()}, {self.better} is better" if self.better else "This log cannot tell"
        words = self.witnesses.log.wording
        asked = "An A/B test" if self.needed is None else f"{self.needed:,} random {words.rows}, or an A/B test"
        action = asked if self.decision == "test" else ""
        return Finding("gain", answer, headline, self.sentence(), self.numbers(), self.rests_on(), action)

    def numbers(self) -> dict[str, Interval]:
        """Return what is gained, by the log and by random ratings."""
        return _numbers(self.by_log, "by the log") | _numbers(self.by_random, "by random ratings")

    def rests_on(self) -> str:
        """Say what judges, and what is assumed of it."""
        log, evidence, random = self.witnesses
        if self.deciding is self.by_random:
            assert random is not None
            known = int(SeenPairs(log)(random.users, random.items).sum())
            what, held = f"random {log.wording.rows}", f"{known:,}" if known else "none"
            return f"{len(random):,} {what}, {held} of pairs that the log holds."
        assert evidence is not None
        return (
            f"{len(log):,} ratings, each judged by models of the other 80% of the log, worth "
            f"{evidence.effective:,.0f} equal ones. {WEIGHED} {ASSUMPTION}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        facts = {"names": list(self.names), "decision": self.decision, "better": self.better, "needed": self.needed}
        return facts | {"in_words": self.sentence(), "finding": self.finding().to_dict()}

    def __str__(self) -> str:
        return self.sentence()

    def __repr__(self) -> str:
        return self.finding().text()

    def _repr_html_(self) -> str:
        return self.finding()._repr_html_()


@dataclass(frozen=True, eq=False, repr=False)
class OfImpressions(Comparison):
    """The second of two models against the first by impressions: errors, and outcomes if their best were shown."""

    gains: Mapping[str, Interval] = field(default_factory=dict)  # by metric, above 0 where the second is better
    n_rows: int = 0
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        if self.deciding is self.by_random:
            return super().sentence()
        figures = "; ".join(f"{name} {WORDS.get(name, 'risen')} by {found}" for name, found in self.gains.items())
        return " ".join([f"{self.verdict}: {figures}, by {self.n_rows:,} rows that were shown.", *self.notes])

    def numbers(self) -> dict[str, Interval]:
        return dict(self.gains) | _numbers(self.by_random, f"by random {self.witnesses.log.wording.rows}")

    def rests_on(self) -> str:
        if self.deciding is self.by_random:
            return super().rests_on()
        return "Holds if what drives both being seen and the outcome is known of user and item, or was logged."


def by_impressions(
    answers: Sequence[Answers], names: tuple[str, str], judge: Judge,
    by_random: Gain | None = None, random: RatingLog | None = None,
) -> OfImpressions:  # fmt: skip
    """Compare what two models answer of the rows that judge, and what they would show.

    Weights that leave fewer rows' worth than a policy's value is believed of decide nothing.
    """
    before, after = ([judge.value(find(name), each, True) for name in BY_SHOWN] for each in answers)
    fallen, risen = before[0].less(after[0])["dr"], after[1].less(before[1])["dr"]
    enough = [min(one.effective, other.effective) >= FEW for one, other in zip(before, after, strict=True)]
    squared, order = (
        Estimate(each.value, (each.high - each.value) / 1.96 if believed else np.inf)
        for each, believed in zip((fallen, risen), enough, strict=True)
    )
    gains = {"mse": fallen._replace(form="+.5f"), BY_SHOWN[1]: risen._replace(form="+.5f")}
    notes = tuple(dict.fromkeys(note for each in (*before, *after) for note in each.notes))
    found = Gain(order, (squared,), np.inf)
    return OfImpressions(names, found, by_random, Witnesses(judge.log, None, random), gains, len(judge.seen), notes)


def judged_by_random(
    sources: tuple[Any, Any], names: tuple[str, str], log: RatingLog, random: RatingLog | None
) -> tuple[Gain | None, list[Values]]:
    """Judge two models as they are by random ratings, if any; also what they answer to these."""
    if random is None:
        return None, []
    rows = random_evidence(log, random)
    answers = [
        scores_of(source, log, name)(rows.users, rows.items) for source, name in zip(sources, names, strict=True)
    ]
    return gain(rows, *answers), answers


def _numbers(found: Gain | None, basis: str) -> dict[str, Interval]:
    """Return what is gained by name, without what nothing tells."""
    if found is None:
        return {}
    numbers = {f"order, {basis}": found.order.interval("+.1%")} if found.ordered else {}
    if found.stars is not None:
        numbers[f"order by stars, {basis}"] = found.stars.interval("+.1%")
    numbers[f"squared error gained, {basis}"] = found.band
    for corner, each, one_mean in zip(CORNERS, found.squared, found.aligned, strict=False):
        numbers[f"squared error gained {corner}"] = each.interval("+.4f")
        numbers[f"the same of models with one mean, {corner}"] = one_mean.interval("+.4f")
    return numbers


def _points(gain: Estimate) -> str:
    value, low, high = (100 * end for end in gain.interval()[:3])
    return f"{value:+.1f} points (95% interval {low:+.1f} to {high:+.1f})"


def compare(
    first: Any,
    second: Any,
    log: RatingLog | None = None,
    *,
    random_ratings: RatingLog | None = None,
    propensity: Any = None,
    names: tuple[str, str] = ("A", "B"),
    seed: int = 0,
) -> Comparison:
    """Judge whether `second` is better than `first` over the pairs that nobody chose.

    Two unskew models that were fitted on one log may leave `log` out: the methods of both are fitted again without each
    of five folds. Of all else give scores that were not trained on the log, for all pairs. Random ratings overrule the
    log where they decide. `propensity` are known chances of being seen: a function of (users, items), or one a rating.
    Impressions judge as in `estimate_risk`, by errors and by what came of the ten best of each, doubly robust.

    Examples:
        >>> log = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0).log
        >>> plain, shrunk = (unskew.make("naive", l2=l2).fit(log) for l2 in (0.1, 0.5))
        >>> unskew.compare(plain, shrunk).finding().answer
        'cannot tell'
    """
    if not isinstance(names, tuple | list) or len(words(names, "names")) != 2:
        raise ParameterError(f"names must be two, one for each model, not {names!r:.80}.")
    models = [source for source in (first, second) if isinstance(source, Recommender)]
    if log is None:
        if len(models) < 2 or fingerprint(models[0].log) != fingerprint(models[1].log):
            raise ParameterError("these are not two models of one log: give the log that is to judge them by log=.")
        log = models[0].log
    log = as_log(log, models[0] if models else None)
    folder = next((model.folder for model in models if model.folder is not None), None)
    if log.impressions:
        random, judge = Witnesses.random_of(log, random_ratings), Judge.of(log, seed, propensity)
        sources = first, second
        by_random, _ = judged_by_random(sources, names, log, random)
        answers = [judge.answers(source, name) for source, name in zip(sources, names, strict=True)]
        return by_impressions(answers, names, judge, by_random, random)
    given = known_propensity(propensity, log)
    return compared((first, second), names, Witnesses.of(log, random_ratings, seed, folder, given))[0]


def compared(
    sources: tuple[Any, Any], names: tuple[str, str], witnesses: Witnesses
) -> tuple[Comparison, list[Values], list[Values]]:
    """Judge two models by what evidence there is; also what they answer to it, fold by fold, and to random ratings."""
    log, evidence, random = witnesses
    by_fold, by_log = list[Values](), None
    if evidence is not None:
        by_fold = [judged(source, evidence, name) for source, name in zip(sources, names, strict=True)]
        by_log = gain(evidence, *by_fold)
    by_random, as_fitted = judged_by_random(sources, names, log, random)
    return Comparison(names, by_log, by_random, witnesses), by_fold, as_fitted
