"""Which of two models is better over the pairs that nobody chose: by the log alone, and by random ratings if any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.read import as_log, read_log
from unskew.errors import DataError, ParameterError
from unskew.evaluation.estimators import known_propensity
from unskew.evaluation.judge import (
    Decision,
    Evidence,
    Gain,
    Values,
    fingerprint,
    gain,
    gather,
    random_evidence,
    together,
)
from unskew.evaluation.scores import by_fold, scores_of
from unskew.findings import Finding
from unskew.model import Recommender
from unskew.selection.random_ratings import in_codes

MOST_ASKED = 100_000  # random ratings that anybody would ask for
ASSUMPTION = (
    "Holds if how strongly liking drives rating is alike for the items that the two models rank differently; no log "
    "can show this; about 250 random ratings would expose a gross violation."
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The second of two models against the first: what is gained by the log, by random ratings, and what follows."""

    names: tuple[str, str]
    by_log: Gain | None
    by_random: Gain | None
    n_ratings: int
    effective: float
    n_random: int = 0
    refusal: str = ""  # why the log cannot judge

    @property
    def decision(self) -> Decision:
        """use the second, stop, or test: random ratings overrule the log."""
        return together(self.by_log, self.by_random)

    @property
    def better(self) -> str | None:
        """The name of the better model, None if neither is beyond chance."""
        return {"use": self.names[1], "stop": self.names[0], "test": None}[self.decision]

    @property
    def deciding(self) -> Gain | None:
        """What the decision rests on."""
        if self.by_random is not None and (self.by_random.decision != "test" or self.by_log is None):
            return self.by_random
        return self.by_log

    @property
    def needed(self) -> int | None:
        """Random ratings that would decide with a chance of 80%; None if nobody would ask that many."""
        found = self.deciding
        n = None if found is None or not np.isfinite(found.needed) else int(np.ceil(found.needed / 10) * 10)
        return None if n is None or n > MOST_ASKED else max(n, 50)

    def sentence(self) -> str:
        """What was found, in a sentence or two."""
        first, second = self.names
        found = self.deciding
        if found is None:
            return f"Nothing here can be judged: {self.refusal}"
        by_random = found is self.by_random
        order, squared = found.order, found.squared[0]
        basis = f"{self.n_random:,} random ratings" if by_random else f"{self.n_ratings:,} ratings left out in turn"
        figures = (
            f"{100 * order.value:+.1f} points of liked items ranked above disliked ones "
            f"(95% interval {100 * (order.value - 1.96 * order.error):+.1f} to "
            f"{100 * (order.value + 1.96 * order.error):+.1f}), squared error {-squared.value:+.4f} "
            f"(\N{PLUS-MINUS SIGN}{1.96 * squared.error:.4f}), by {basis}"
        )
        if self.decision == "use":
            return f"{second} is better than {first}: {figures}."
        if self.decision == "stop":
            return f"{first} is better than {second}: {figures}."
        many = "no affordable number of random ratings would" if self.needed is None else f"{self.needed:,} would"
        return (
            f"This log cannot tell {second} from {first}: {figures}. It can show a gain of "
            f"{100 * found.smallest:.1f} points or more; of random ratings, {many} decide."
        )

    def finding(self) -> Finding:
        """The answer to whether the second is better, as a record."""
        answer: Literal["yes", "no", "cannot tell"] = "cannot tell"
        answer = {"use": "yes", "stop": "no"}.get(self.decision, answer)  # type: ignore[assignment]
        numbers = {}
        for basis, found in (("by the log", self.by_log), ("by random ratings", self.by_random)):
            if found is not None:
                numbers[f"order, {basis}"] = found.order.interval("+.1%")
                corners = ("", ", if liking drives rating", ", if it does, users alike")
                for corner, each in zip(corners, found.squared, strict=False):
                    numbers[f"squared error gained{corner}, {basis}"] = each.interval("+.4f")
        head = {"yes": f"Yes, {self.names[1]} is better", "no": f"No, {self.names[0]} is better"}.get(
            answer, "This log cannot tell"
        )
        action = self._ask() if answer == "cannot tell" else ""
        return Finding("gain", answer, head, self.sentence(), numbers, rests_on=self._basis(), action=action)

    def _basis(self) -> str:
        if self.deciding is self.by_random:
            return f"{self.n_random:,} random ratings, none trained on"
        return (
            f"{self.n_ratings:,} ratings, each judged by models of the other 80% of the log, worth "
            f"{self.effective:,.0f} equal ones. {ASSUMPTION}"
        )

    def _ask(self) -> str:
        return "An A/B test" if self.needed is None else f"{self.needed:,} random ratings, or an A/B test"

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        facts = {"names": list(self.names), "decision": self.decision, "better": self.better, "needed": self.needed}
        return facts | {"in_words": self.sentence(), "finding": self.finding().to_dict()}

    def __str__(self) -> str:
        return self.sentence()

    def __repr__(self) -> str:
        return self.finding().text()

    def _repr_html_(self) -> str:
        return self.finding()._repr_html_()


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
    """
    judged = [first, second]
    if log is None:
        models = [source for source in judged if isinstance(source, Recommender)]
        if len(models) < 2 or fingerprint(models[0].log) != fingerprint(models[1].log):
            raise ParameterError("only two models of one log need no other: give the log that is to judge these two.")
        log = models[0].log
    else:
        log = as_log(log, next((source for source in judged if isinstance(source, Recommender)), None))
    judged = [on_log(source, log) for source in judged]
    found, refusal, evidence = None, "", None
    try:
        evidence = gather(log, seed=seed, propensity=known_propensity(propensity, log))
        before, after = answers(judged, evidence, names)
        found = gain(evidence, before, after)
    except DataError as error:
        if random_ratings is None:
            raise
        refusal = str(error)
    by_random, n_random = None, 0
    if random_ratings is not None:
        random, _, _ = in_codes(log, read_like(log, random_ratings))
        rows = random_evidence(log, random)
        asked = zip(judged, names, strict=True)
        before, after = (scores_of(source, log, name)(rows.users, rows.items) for source, name in asked)
        by_random, n_random = gain(rows, before, after), len(random)
    n, effective = (0, 0.0) if evidence is None else (evidence.n_held, evidence.effective)
    return Comparison(names, found, by_random, n, effective, n_random, refusal)


def answers(sources: list[Any], evidence: Evidence, names: tuple[str, ...]) -> list[Values]:
    """What each source answers to the rows of the evidence, fold by fold."""
    fold = evidence.fold_of_ratings
    return [
        evidence.scores(by_fold(source, evidence.log, fold, name)) for source, name in zip(sources, names, strict=True)
    ]


def read_like(log: RatingLog, given: Any) -> RatingLog:
    """Random ratings as they are given, read on the scale and by the columns of a log."""
    return given if isinstance(given, RatingLog) else read_log(given, like=log)


def on_log(source: Any, log: RatingLog) -> Any:
    """A model of equal ratings counts as one of this log; all else as it is."""
    if not isinstance(source, Recommender) or source.log is log or fingerprint(source.log) != fingerprint(log):
        return source
    return replace(source, log=log)
