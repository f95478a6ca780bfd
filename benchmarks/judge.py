"""Is the judge right? Pairs of models in worlds whose truth is known, its decisions next to it.

    python -m benchmarks run judge
    python -m benchmarks table judge

A world is a block of 280 to 420 users and 90 to 160 items with stars 0 to 4 for every pair (3 and 4 are liked), of
which about 7,500 are seen by a law of selection. Two models are compared over the pairs that were not seen: fitted on
each of the judge's folds, their true order within users and true squared error there are known. Of every three seeds
one compares two fits of plain training too, one two fits of the Bayesian model, and one asks judges that are wrong on
purpose.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

import unskew
from benchmarks import cases
from benchmarks.cases import Array
from benchmarks.tables import grid
from unskew.evaluation import gain as gains_of
from unskew.evaluation import judge
from unskew.evaluation.fits import imputation_of
from unskew.evaluation.judge import Corner, Evidence

PAIRS = "plain, bayes", "means, bayes", "plain, means", "plain, plain", "bayes, bayes", "bayes, shrunk"
PAIRS += "bayes, 30% shuffled", "bayes, lower", "bayes, boosted"  # the first against the second
HALF, REGROUPED = "half of the items", "bayes, regrouped"  # that liking drives, and a model that ranks them below
LAWS = "uniform", "popularity", "segments", "rating", "liking", "taste", "taste and segments", HALF
DRIVERS = {"half": "liking, for half of the items", "taste": "taste", "rating": "the rating", "liking": "the rating"}
DRIVERS |= {"uniform": "nothing", "coat": "whatever it is on Coat"}  # by a word of the case; else it is exposure
DECIDED = {"use": 1.0, "test": 0.0, "stop": -1.0}
LEVEL_ORDER, LEVEL_SQUARED = 0.004, 0.001  # below which two models are level
LIKED, COLLECTED = 3, 10  # stars from which a rating is liked; times that random ratings are collected
FRESH = 7000  # what seeds of worlds and of the judge begin at: none of these was drawn before the rule was fixed


class World(NamedTuple):
    """All stars, which pairs are seen, and whose stars are known."""

    stars: Array
    seen: Array
    known: Array

    def log_of(self, pairs: Array) -> unskew.RatingLog:
        return cases.log_of(*pairs.T, self.stars[*pairs.T], LIKED, self.seen.shape)


def simulated(law: str, data: Path, seed: int) -> World:
    """Draw users, items, stars and what is seen; sizes and strengths differ from seed to seed."""
    rng = np.random.default_rng([FRESH + seed, 2027, sum(map(ord, law))])
    n, m, d = int(rng.integers(280, 420)), int(rng.integers(90, 160)), int(rng.integers(2, 7))
    taste = rng.uniform(0.3, 0.7) / math.sqrt(d) * 2 * rng.standard_normal((n, d)) @ rng.standard_normal((d, m)) / 2
    f = taste + rng.normal(0, 0.5, (n, 1)) + rng.normal(0, rng.uniform(0.3, 0.8), (1, m))
    y = f + rng.standard_normal((n, m))
    stars = np.digitize(y, np.array([-1.2, -0.3, 0.5, 1.4]) + rng.uniform(-0.3, 0.3))
    a, b = rng.normal(0, 0.6, (n, 1)), rng.normal(0, 0.8, (1, m))
    segment, slope = rng.standard_normal((n, 3)) @ rng.standard_normal((3, m)) / 2, rng.uniform(0.3, 1.0)
    log_odds = {
        "uniform": np.zeros((n, m)),
        "popularity": a + b,
        "segments": a + b + slope * segment,
        "rating": a + b + slope * y,
        "liking": a + b + 2 * slope * (stars >= LIKED),
        "taste": a + b + slope * f,
        "taste and segments": a + b + slope * taste + 0.4 * segment,
        HALF: a + b / 2 + 1.2 * (stars - 2) * (np.arange(m) % 2 == 0),
    }[law]
    return World(stars, cases.drawn(log_odds, min(7500 / (n * m), 0.4), rng)[0], np.ones((n, m), bool))


def jester(law: str, slope: float, data: Path, seed: int) -> World:
    """400 users of Jester at random, none of whom other experiments know, under a law of selection."""
    stars = cases.jester_stars(data, first=cases.JESTER_USERS)
    stars = stars[np.random.default_rng([FRESH + seed, 400]).permutation(len(stars))[:400]]
    return World(stars, cases.select(stars, law, slope, FRESH + seed, density=0.18)[0], np.ones(stars.shape, bool))


def coat(data: Path, seed: int) -> World:
    """Coat: the truth is that of its random ratings."""
    train, test = (np.loadtxt(data / "coat" / f"{part}.ascii").astype(int) for part in ("train", "test"))
    return World(np.where(train > 0, train, np.maximum(test, 1)), train > 0, (test > 0) & (train == 0))


def means(log: unskew.RatingLog) -> Array:
    """Answer by shrunk means of users and items."""

    def shrunk(codes: Array, n: int, rest: Array) -> Array:
        return np.asarray(np.bincount(codes, rest, n) / (np.bincount(codes, minlength=n) + 5))

    level, users, items = log.positive_rate, np.zeros(log.n_users), np.zeros(log.n_items)
    for _ in range(10):
        users = shrunk(log.users, log.n_users, log.ratings - level - items[log.items])
        items = shrunk(log.items, log.n_items, log.ratings - level - users[log.users])
    return np.clip(level + users[:, None] + items[None, :], 0.01, 0.99)


def models(evidence: Evidence, seed: int) -> dict[str, Array]:
    """Fit every model on every fold; answers to the rows of the evidence."""
    found: dict[str, Array] = {}
    for k in range(judge.N_FOLDS):
        log, rows = evidence.log.take(evidence.fold_of_ratings != k), np.flatnonzero(evidence.fold == k)
        u, i = evidence.users[rows], evidence.items[rows]
        bayes = imputation_of(log, 31 * seed + k).expected(u, i)
        of_logit, rng = logit(np.clip(bayes, 1e-4, 1 - 1e-4)), np.random.default_rng([seed, k])
        popular = np.log1p(np.bincount(log.items, minlength=log.n_items))
        shuffled = bayes.copy()
        for user in np.flatnonzero(np.random.default_rng(seed).random(log.n_users) < 0.3):
            own = np.flatnonzero(u == user)
            shuffled[own] = bayes[rng.permutation(own)]
        answers = {
            "bayes": bayes,
            "plain": unskew.make("naive").fit(log, seed=seed + k).predict_codes(u, i),
            "means": means(log)[u, i],
            "shrunk": expit(of_logit.mean() + 0.5 * (of_logit - of_logit.mean())),
            "30% shuffled": shuffled,
            "lower": expit(of_logit - 0.5),
            "boosted": expit(of_logit + 0.5 * (popular[i] - popular.mean()) / max(float(popular.std()), 1e-9)),
            "regrouped": expit(of_logit - 2.0 * (i % 2 == 0)),
        }
        if seed % 3 == 2:
            answers["other bayes"] = imputation_of(log, 31 * seed + k + 9000).expected(u, i)
        if seed % 3 == 0:
            answers["other plain"] = unskew.make("naive").fit(log, seed=seed + k + 500).predict_codes(u, i)
        for name, values in answers.items():
            found.setdefault(name, np.empty(len(evidence.fold)))[rows] = values
    return found


def truth_of(world: World, evidence: Evidence) -> Evidence:
    """The same rows with their true ratings: every known unseen pair counts once."""
    here = (~evidence.held & world.known[evidence.users, evidence.items]).astype(float)
    y = (world.stars[evidence.users, evidence.items] >= LIKED).astype(float)
    corners = dict.fromkeys(("order", "activity", "alike"), Corner(y, here, 0 * here))
    return replace(evidence, corners=corners, y=y, stars=None)


def wrong_judge(evidence: Evidence, what: str) -> Evidence:
    """A judge whose imputation knows nothing, or whose chances of being seen are all alike."""
    corners, stars = dict[str, Corner](), evidence.stars
    for name, (q, base, weight) in evidence.corners.items():
        if what == "imputation":
            corners[name] = Corner(np.full(len(q), float((base * q).sum() / base.sum())), base, weight)
        else:
            alike = base.sum() / max(1, int((weight > 0).sum()))
            corners[name] = Corner(q, base, np.where(weight > 0, alike, 0.0))
    if stars is not None and what == "imputation":
        stars = stars[0], np.full(len(stars[1]), stars[1].mean())
    return replace(evidence, corners=corners, stars=stars)


def measure(job: cases.Job) -> cases.Measured:
    """Every pair of models: the decision, the truth, and whether intervals hold it."""
    world, seed, driver = job.data, FRESH + job.seed, driver_of(job.case)
    log = world.log_of(np.argwhere(world.seen))
    evidence = judge.gather(log, seed=seed)
    answers, truth = models(evidence, seed), truth_of(world, evidence)
    unseen = truth.corners["alike"]
    level = float((unseen.base * unseen.q).sum() / unseen.base.sum())
    low, high = evidence.level[1:3]
    found = {
        "ratings": float(len(log)),
        "by rating": float(driver not in ("nothing", "exposure", "taste")),
        "slope": evidence.slope.value,
        "band holds": float(low - 0.01 <= level <= high + 0.01),
    }
    judges = {"": evidence}
    if seed % 3 == 1:
        judges |= {f", wrong {what}": wrong_judge(evidence, what) for what in ("imputation", "propensity")}
    rng, places = np.random.default_rng([seed, 77]), np.argwhere(~world.seen & world.known)
    first, row_of = np.flatnonzero(evidence.fold == 0), np.zeros(world.seen.shape, np.int64)
    row_of[evidence.users[first], evidence.items[first]] = first
    for pair in (*PAIRS, REGROUPED) if job.case == HALF else PAIRS:
        one, other = pair.split(", ")
        if (other := f"other {other}" if one == other else other) not in answers:
            continue
        a, b = answers[one], answers[other]
        gains = {name: gains_of.gain(each, a, b) for name, each in judges.items()}
        by_log, true = gains[""], gains_of.gain(truth, a, b)
        orders = (gains_of.order_of(evidence, scores, evidence.corners["alike"]) for scores in (a, b))
        order, squared = gains_of.order_gain(evidence, *orders), gains_of.squared_gain(evidence, a, b, "alike")
        figures = {f"decided{name}": DECIDED[each.decision] for name, each in gains.items()} | {
            "for it": max(by_log.strengths().values()),
            "against it": max(by_log.strengths(-1).values()),
            "threshold": by_log.threshold,
            "true order": true.order.value,
            "true squared": true.squared[0].value,
            "z of order": (order.value - true.order.value) / max(order.error, 1e-9),
            "z of deciding order": (by_log.order.value - true.order.value) / max(by_log.order.error, 1e-9),
            "z of squared": (squared.value - true.squared[0].value) / max(squared.error, 1e-9),
            "band of squared holds": float(by_log.band.covers(true.squared[0].value)),
        }
        asked = 250 if pair == REGROUPED else math.ceil(min(true.needed, 1e6))
        if (pair == REGROUPED or by_log.decision == "test") and 50 <= asked <= min(5000, len(places)):
            results = []
            for _ in range(COLLECTED):  # of random pairs, answered by models of the first fold
                chosen = places[rng.choice(len(places), asked, replace=False)]
                rows = row_of[*chosen.T]
                random = gains_of.gain(judge.random_evidence(log, world.log_of(chosen)), a[rows], b[rows])
                results.append(gains_of.together(by_log, random))
            figures |= {"asked": float(asked)}
            figures |= {f"{word} by random": results.count(word) / COLLECTED for word in ("use", "stop")}
        found |= cases.grouped(pair, figures)
    return cases.Measured(found, {})


def sign_of(metrics: Mapping[str, float], pair: str) -> int | None:
    """Which of a pair is truly better: 1 the second, -1 the first, 0 neither, None if order and error disagree."""
    order, squared = metrics[f"{pair}: true order"], metrics[f"{pair}: true squared"]
    signs = {int(np.sign(order)) * (abs(order) >= LEVEL_ORDER), int(np.sign(squared)) * (abs(squared) >= LEVEL_SQUARED)}
    return None if {1, -1} <= signs else sum(signs)


def driver_of(case: str) -> str:
    """What drives seeing in a case."""
    return next((driver for word, driver in DRIVERS.items() if word in case), "exposure")


def counted(records: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Count decisions that are right, wrong and open: all, by pair, by law and by judges that are wrong on purpose."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        law = f"seeing driven by {driver_of(record['case'])}"
        for key in [key for key in record["metrics"] if ": decided" in key]:
            pair, _, judged_by = key.partition(": decided")
            true, found = sign_of(record["metrics"], pair), record["metrics"][key]
            if not true:
                kind = f"{'mixed' if true is None else 'level'}, {'decided' if found else 'open'}"
            else:
                kind = "open" if not found else "right" if found == true else "wrong"
            groups = [f"a judge with a {judged_by[2:]}"] if judged_by else [law, "all", pair]
            for group in groups[:1] if HALF in law else groups:
                counts[group][kind] += 1
    return counts


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts, and what was aimed at next to what was found."""
    counts, truly = counted(records), ("right", "wrong", "open")
    every, decided = counts["all"], counts["all"]["right"] + counts["all"]["wrong"]
    right = {pair: (own["right"], sum(own[kind] for kind in truly)) for pair, own in counts.items()}
    shares = {
        "wrong, of those decided: at most 1%": (every["wrong"], decided),
        "level pairs decided: at most 5%": (every["level, decided"], every["level, decided"] + every["level, open"]),
        "*use* where the Bayesian model is better: at least 95%": right.get("plain, bayes", (0, 0)),
        "*stop* if 30% of users are shuffled: 100%": right.get("bayes, 30% shuffled", (0, 0)),
        "*stop* if boosted by popularity: at least 75%": right.get("bayes, boosted", (0, 0)),
        "a pure shift of level decided wrongly: never": (counts["bayes, lower"]["wrong"], len(records)),
        "any true difference decided: at least 60%": (decided, decided + every["open"]),
    }
    groups = [[group, *(str(own[kind]) for kind in truly)] for group, own in sorted(counts.items()) if own]
    aims = [[name, f"{part / max(whole, 1):.1%} ({part} of {whole})"] for name, (part, whole) in shares.items()]
    aims += [[name, f"{np.mean(each):.3f} of {len(each)}"] for name, each in coverage(records).items() if each]
    head = f"{len(records)} worlds are recorded."
    return "\n\n".join([head, grid([["", *truly], *groups]), grid([["aim", "found"], *aims])])


def coverage(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """How often 95% intervals and the band hold the truth, and what random ratings decide."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        driver, metrics = driver_of(record["case"]), record["metrics"]
        for key, value in metrics.items():
            pair, _, name = key.rpartition(": ")
            held = abs(value) < 1.96 if name.startswith("z of") else value
            found[key if pair == REGROUPED else name, driver].append(held)
            if name == "asked" and pair != REGROUPED and (sign := sign_of(metrics, pair)):
                found["right", driver].append(metrics[f"{pair}: {'use' if sign == 1 else 'stop'} by random"])
    usual = sorted({driver for _, driver in found} - {DRIVERS["half"]})

    def of(figure: str, *drivers: str) -> list[float]:
        return [value for driver in drivers or usual for value in found[figure, driver]]

    band = [own for driver in usual if (own := of("band of squared holds", driver))]
    return {
        "95% intervals of order that hold the truth: at least .90": of("z of order"),
        "the same by the weights that decide, users by the root of activity": of("z of deciding order"),
        "those of squared error, where nothing or exposure drives seeing: at least .93": of(
            "z of squared", "nothing", "exposure"
        ),
        "the same where taste drives seeing": of("z of squared", "taste"),
        "squared error over its band, where it holds least: at least .93": min(band, key=np.mean, default=[]),
        "band of the level within .01: at least .90": of("band holds"),
        "decided rightly by as many random ratings as asked for: .75 to .90": of("right"),
        "liking drives rating for half of the items: 250 random ratings turn the verdict": of(
            f"{REGROUPED}: use by random", DRIVERS["half"]
        ),
    }


EXPERIMENT = cases.Experiment(
    "decisions of the judge about pairs of models in worlds whose truth is known",
    ("bayes",),
    {**{law: partial(simulated, law) for law in LAWS}, **cases.by_law(jester), "coat": coat},
    18,
    measure,
    table=table,
)
