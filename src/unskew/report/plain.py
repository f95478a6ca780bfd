"""Verdicts for people who have never heard of any of this: a headline and what it means, by the kind of verdict."""

from __future__ import annotations

from typing import NamedTuple

from unskew.diagnosis.verdicts import Level, Verdict

LEVELS: dict[Level, str] = {"fine": "Fine", "caution": "Take care", "problem": "Problem"}


class Plain(NamedTuple):
    """`words` is the diagnosis' own sentence, with its figures."""

    level: Level
    label: str
    headline: str
    meaning: str
    words: str


_NEEDED = {
    "none": (
        "No sign of bias in this log.",
        "People rate some things and not others, but as far as the log can tell neither popularity nor liking decides "
        "which. A model that simply learns from the ratings is fine.",
    ),
    "popularity": (
        "The log is biased towards what is rated often.",
        "Some people rate far more than others, or some items are rated far more than others. Averages over the log "
        "therefore speak about those, and not about everything there is.",
    ),
    "liking": (
        "The log is biased: people rate what they like.",
        "A pair of a user and an item is more (or less) likely to have a rating, the more the item is to the user's "
        "taste. Averages over the log therefore speak about what people like, and not about everything there is.",
    ),
    "taste": (
        "The log is biased, and the bias can be removed.",
        "Random ratings have another average than the log. Most of the difference goes away when each rating counts "
        "for as many unrated pairs as it stands for.",
    ),
    "rating": (
        "The log is biased, and no log alone can mend it.",
        "Random ratings have another average than the log, and weighting does not explain it: the rating itself, or "
        "something about a pair that the log does not show, decides whether there is a rating.",
    ),
}
_WORKS = {
    "good": (
        "The bias can be corrected on this data.",
        "Every kind of pair has been rated now and then, so that rated pairs can stand for unrated ones like them.",
    ),
    "thin": (
        "The bias can be corrected, but only just.",
        "Few ratings have to stand for many pairs, so everything below is uncertain and intervals are wide.",
    ),
    "no overlap": (
        "Some pairs cannot be judged at all.",
        "There are pairs so unlike any rated one that no rating can stand for them. What is said of them below is a "
        "guess that nothing here can check.",
    ),
    "overconfident": (
        "The estimated chances of being rated are too extreme.",
        "Some are so small that the ratings stand for more pairs than there are; they have to be calibrated first.",
    ),
    "collapsed": (
        "The model sees no difference between pairs.",
        "It gives every pair the same chance of being rated, so that its correction corrects nothing.",
    ),
    "constant": (
        "There is nothing to correct.",
        "Every pair is about as likely to have a rating as any other.",
    ),
}
_BELIEVED = {
    "calibrated": (
        "The model's chances mean what they say.",
        "Where it says 30%, it happens in about 30 of 100 cases, as far as can be seen, for all groups looked at.",
    ),
    "miscalibrated": (
        "Some of the model's chances do not mean what they say.",
        "Where it says 30%, it happens clearly more or less often than in 30 of 100 cases. The order of predictions "
        "can still be good; their size should not be taken at its word.",
    ),
    "miscalibrated by group": (
        "The model's chances are right on average, but not for everybody.",
        "Over all users and items they mean what they say; in some groups, named below, they do not.",
    ),
}
_OVERTURNED = {
    "prediction": ("As it stands the debiased model is better.", "It could still be wrong, if something unmeasured:"),
    "rival": ("As it stands the naive model is better.", "It could still be wrong, if something unmeasured:"),
    "undecided": (
        "This log cannot tell which of the two is better.",
        "Their difference is within what chance alone does.",
    ),
}
_OF = {"needed": _NEEDED, "works": _WORKS, "believed": _BELIEVED, "overturned": _OVERTURNED}


_CLIPPED = (
    "The bias can be corrected, and the model corrects part of it.",
    "Every kind of pair has been rated now and then, so that rated pairs can stand for unrated ones like them. But the "
    "model limits how much a single rating may count: that makes it steadier, and leaves some of the bias.",
)


def plainly(question: str, verdict: Verdict) -> Plain:
    """The verdict on a question; a kind that has no words here keeps its own."""
    headline, meaning = _OF[question].get(verdict.kind, (verdict.question, ""))
    if (question, verdict.kind, verdict.level) == ("works", "good", "caution"):
        headline, meaning = _CLIPPED
    return Plain(verdict.level, LEVELS[verdict.level], headline, meaning, verdict.words)
