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
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import expit, logit

import unskew
from benchmarks import cases
from benchmarks.cases import Array
from unskew.evaluation import gain as gains_of
from unskew.evaluation import judge
from unskew.evaluation.fits import imputation_of
from unskew.evaluation.gain import Gain
from unskew.evaluation.judge import Corner, Evidence

PAIRS = {  # the first against the second
    "plain, bayes": ("naive", "bayes"),
    "means, bayes": ("means", "bayes"),
    "plain, means": ("naive", "means"),
    "plain, plain": ("naive", "other naive"),
    "bayes, bayes": ("bayes", "other bayes"),
    "bayes, shrunk": ("bayes", "shrunk"),
    "bayes, 30% shuffled": ("bayes", "shuffled"),
    "bayes, lower": ("bayes", "lower"),
    "bayes, boosted": ("bayes", "boosted"),
}
REGROUPED = {"bayes, regrouped": ("bayes", "regrouped")}  # where liking drives rating for half of the items only
DECIDED = {"use": 1.0, "test": 0.0, "stop": -1.0}
LEVEL_ORDER, LEVEL_SQUARED = 0.004, 0.001  # below which two models are level
SIMULATED = "uniform", "popularity", "segments", "rating", "liking", "taste", "taste and segments", "half of the items"
SHOWN = ("right", "wrong", "open")
COLLECTED = 10  # times that random ratings are collected


class World(NamedTuple):
    """All stars, which pairs are seen, and whether the rating itself drives seeing."""

    stars: Array
    seen: Array
    by_rating: bool
    known: Array  # whose stars are known
    half: bool = False  # whether liking drives rating for half of the items only
    cut: int = 3

    def log(self) -> unskew.RatingLog:
        users, items = np.nonzero(self.seen)
        return cases.log_of(users, items, self.stars[self.seen], self.cut, self.seen.shape)


def simulated(law: str, data: Path, seed: int) -> World:
    """Draw users, items, stars and what is seen; sizes and strengths differ from seed to seed."""
    rng = np.random.default_rng([seed, 2027, sum(map(ord, law))])
    n, m, d = int(rng.integers(280, 420)), int(rng.integers(90, 160)), int(rng.integers(2, 7))
    taste = rng.uniform(0.3, 0.7) / math.sqrt(d) * 2 * rng.standard_normal((n, d)) @ rng.standard_normal((d, m)) / 2
    f = taste + rng.normal(0, 0.5, (n, 1)) + rng.normal(0, rng.uniform(0.3, 0.8), (1, m))
    y = f + rng.standard_normal((n, m))
    stars = np.digitize(y, np.array([-1.2, -0.3, 0.5, 1.4]) + rng.uniform(-0.3, 0.3))
    a, b = rng.normal(0, 0.6, (n, 1)), rng.normal(0, 0.8, (1, m))
    segment, slope = rng.standard_normal((n, 3)) @ rng.standard_normal((3, m)) / 2, rng.uniform(0.3, 1.0)
    half = (np.arange(m) % 2 == 0)[None, :]
    log_odds = {
        "uniform": np.zeros((n, m)),
        "popularity": a + b,
        "segments": a + b + slope * segment,
        "rating": a + b + slope * y,
        "liking": a + b + 2 * slope * (stars >= 3),
        "taste": a + b + slope * f,
        "taste and segments": a + b + slope * taste + 0.4 * segment,
        "half of the items": a + b / 2 + 1.2 * (stars - 2) * half,
    }[law]
    seen, _ = cases.drawn(log_odds, min(7500 / (n * m), 0.4), rng)
    by_rating = law in ("rating", "liking", "half of the items")
    return World(stars, seen, by_rating, np.ones((n, m), bool), law == "half of the items")


def jester(law: str, slope: float, data: Path, seed: int) -> World:
    """The first 400 users of Jester under a law of selection."""
    stars = cases.jester_stars(data)[400 * (seed % 3) : 400 * (seed % 3) + 400]
    seen = cases.select(stars, law, slope, 300 + seed, density=0.18)[0]
    return World(stars, seen, law == "rating", np.ones(stars.shape, bool))


def coat(data: Path, seed: int) -> World:
    """Coat: the truth is that of its random ratings."""
    train, test = (np.loadtxt(data / "coat" / f"{part}.ascii").astype(int) for part in ("train", "test"))
    stars = np.where(train > 0, train, np.maximum(test, 1))
    return World(stars, train > 0, True, (test > 0) & (train == 0))


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
            "naive": unskew.make("naive").fit(log, seed=seed + k).predict_codes(u, i),
            "means": means(log)[u, i],
            "shrunk": expit(of_logit.mean() + 0.5 * (of_logit - of_logit.mean())),
            "shuffled": shuffled,
            "lower": expit(of_logit - 0.5),
            "boosted": expit(of_logit + 0.5 * (popular[i] - popular.mean()) / max(float(popular.std()), 1e-9)),
            "regrouped": expit(of_logit - 2.0 * (i % 2 == 0)),
        }
        if seed % 3 == 2:
            answers["other bayes"] = imputation_of(log, 31 * seed + k + 9000).expected(u, i)
        if seed % 3 == 0:
            answers["other naive"] = unskew.make("naive").fit(log, seed=seed + k + 500).predict_codes(u, i)
        for name, values in answers.items():
            found.setdefault(name, np.empty(len(evidence.fold)))[rows] = values
    return found


def truth_of(world: World, evidence: Evidence) -> Evidence:
    """The same rows with their true ratings: every known unseen pair counts once."""
    here = (~evidence.held & world.known[evidence.users, evidence.items]).astype(float)
    y = (world.stars[evidence.users, evidence.items] >= world.cut).astype(float)
    corners = dict.fromkeys(("activity", "alike"), Corner(y, here, 0 * here))
    return replace(evidence, corners=corners, y=y, stars=None)


def wrong_judge(evidence: Evidence, what: str) -> Evidence:
    """A judge whose imputation knows nothing, or whose chances of being seen are all alike."""
    corners = {}
    for name, (q, base, weight) in evidence.corners.items():
        flat = np.full(len(q), float((base * q).sum() / base.sum()))
        alike = np.where(weight > 0, base.sum() / max(1, int((weight > 0).sum())), 0.0)
        corners[name] = Corner(flat, base, weight) if what == "imputation" else Corner(q, base, alike)
    stars = evidence.stars
    if stars is not None and what == "imputation":
        stars = stars[0], np.full(len(stars[1]), stars[1].mean())
    return replace(evidence, corners=corners, stars=stars)


def measure(job: cases.Job) -> cases.Measured:
    """Every pair of models: the decision, the truth, and whether intervals hold it."""
    world, seed = cast("World", job.case), job.seed
    log = world.log()
    evidence = judge.gather(log, seed=seed)
    answers, truth = models(evidence, seed), truth_of(world, evidence)
    unseen = truth.corners["alike"]
    level = float((unseen.base * unseen.q).sum() / unseen.base.sum())
    low, high = evidence.level[1:3]
    found = {
        "ratings": float(len(log)),
        "by rating": float(world.by_rating),
        "slope": evidence.slope.value,
        "band holds": float(low - 0.01 <= level <= high + 0.01),
    }
    judges = {"": evidence}
    if seed % 3 == 1:
        judges |= {f", wrong {what}": wrong_judge(evidence, what) for what in ("imputation", "propensity")}
    rng = np.random.default_rng([seed, 77])
    places = np.argwhere(~world.seen & world.known)
    for pair, (one, other) in (PAIRS | (REGROUPED if world.half else {})).items():
        if other not in answers:
            continue
        a, b = answers[one], answers[other]
        gains = {name: gains_of.gain(each, a, b) for name, each in judges.items()}
        by_log, true = gains[""], gains_of.gain(truth, a, b)
        orders = (gains_of.order_of(evidence, scores, evidence.corners["alike"]) for scores in (a, b))
        order, squared = gains_of.order_gain(evidence, *orders), gains_of.squared_gain(evidence, a, b, "alike")
        found |= {f"{pair}: decided{name}": DECIDED[each.decision] for name, each in gains.items()}
        found |= {
            f"{pair}: for it": max(by_log.strengths().values()),
            f"{pair}: against it": max(by_log.strengths(-1).values()),
            f"{pair}: true order": true.order.value,
            f"{pair}: true squared": true.squared[0].value,
            f"{pair}: z of order": (order.value - true.order.value) / max(order.error, 1e-9),
            f"{pair}: z of squared": (squared.value - true.squared[0].value) / max(squared.error, 1e-9),
            f"{pair}: band of squared holds": float(by_log.band.covers(true.squared[0].value)),
        }
        asked = 250 if pair in REGROUPED else math.ceil(min(true.needed, 1e6))
        if (pair in REGROUPED or by_log.decision == "test") and 50 <= asked <= min(5000, len(places)):
            found[f"{pair}: asked"] = float(asked)
            results = [collected(world, log, places, asked, rng, evidence, a, b, by_log) for _ in range(COLLECTED)]
            found |= {f"{pair}: {word} by random": results.count(word) / COLLECTED for word in ("use", "stop")}
    return cases.Measured(found, {})


def collected(
    world: World, log: unskew.RatingLog, places: Array, n: int, rng: np.random.Generator, evidence: Evidence,
    a: Array, b: Array, by_log: Gain,
) -> str:  # fmt: skip
    """Ask n random pairs for their ratings and decide again; models are those of the first fold."""
    first = evidence.fold == 0
    key = evidence.users[first] * log.n_items + evidence.items[first]
    order = np.argsort(key)
    chosen = places[rng.choice(len(places), n, replace=False)]
    rows = np.flatnonzero(first)[order[np.searchsorted(key[order], chosen[:, 0] * log.n_items + chosen[:, 1])]]
    stars = world.stars[chosen[:, 0], chosen[:, 1]]
    random = judge.random_evidence(log, cases.log_of(chosen[:, 0], chosen[:, 1], stars, world.cut, world.seen.shape))
    return gains_of.together(by_log, gains_of.gain(random, a[rows], b[rows]))


def sign_of(metrics: Mapping[str, float], pair: str) -> int | None:
    """Which of a pair is truly better: 1 the second, -1 the first, 0 neither, None if order and error disagree."""
    order, squared = metrics[f"{pair}: true order"], metrics[f"{pair}: true squared"]
    signs = {int(np.sign(order)) * (abs(order) >= LEVEL_ORDER), int(np.sign(squared)) * (abs(squared) >= LEVEL_SQUARED)}
    return None if {1, -1} <= signs else sum(signs)


def kind_of(case: str) -> str:
    """What drives seeing in a case."""
    kinds = {"half": "liking, for half of the items", "taste": "taste", "rating": "the rating", "liking": "the rating"}
    kinds |= {"uniform": "nothing", "coat": "whatever it is on Coat"}
    return next((kind for word, kind in kinds.items() if word in case), "exposure")


def counted(records: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Count decisions that are right, wrong and open: all, by pair, by law and by judges that are wrong on purpose."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        law = f"seeing driven by {kind_of(record['case'])}"
        for key in [key for key in record["metrics"] if ": decided" in key]:
            pair, _, judged_by = key.partition(": decided")
            true, found = sign_of(record["metrics"], pair), record["metrics"][key]
            if not true:
                kind = f"{'mixed' if true is None else 'level'}, {'decided' if found else 'open'}"
            else:
                kind = "open" if not found else "right" if found == true else "wrong"
            groups = [f"a judge with a {judged_by[2:]}"] if judged_by else [law, "all", pair]
            for group in groups[:1] if "half" in law else groups:
                counts[group][kind] += 1
    return counts


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts, and what was aimed at next to what was found."""
    counts = counted(records)
    lines = [f"{len(records)} worlds are recorded.", "", f"| | {' | '.join(SHOWN)} |", f"|---|{'---:|' * len(SHOWN)}"]
    lines += [f"| {group} | {' | '.join(str(own[kind]) for kind in SHOWN)} |" for group, own in sorted(counts.items())]
    every = counts["all"]
    decided, level = every["right"] + every["wrong"], every["level, decided"]

    def right(pair: str) -> tuple[int, int]:
        return counts[pair]["right"], sum(counts[pair][kind] for kind in SHOWN)

    shares = {
        "wrong, of those decided: at most 1%": (every["wrong"], decided),
        "level pairs decided: at most 5%": (level, level + every["level, open"]),
        "*use* where the Bayesian model is better: at least 95%": right("plain, bayes"),
        "*stop* if 30% of users are shuffled: 100%": right("bayes, 30% shuffled"),
        "*stop* if boosted by popularity: at least 75%": right("bayes, boosted"),
        "a pure shift of level decided wrongly: never": (counts["bayes, lower"]["wrong"], len(records)),
        "any true difference decided: at least 60%": (decided, decided + every["open"]),
    }
    found = [f"| {name} | {part / max(whole, 1):.1%} ({part} of {whole}) |" for name, (part, whole) in shares.items()]
    return "\n".join([*lines, "", "| aim | found |", "|---|---|", *found, *coverage(records)])


def coverage(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often 95% intervals and the band hold the truth, and what random ratings decide."""
    usual = [r for r in records if r["case"] != "half of the items"]
    ruled = {r["case"] for r in usual if r["metrics"]["by rating"]}

    def of(ending: str) -> list[tuple[str, float]]:
        """Return a figure of every pair of models, with its case."""
        return [(r["case"], value) for r in usual for key, value in r["metrics"].items() if key.endswith(ending)]

    squared = [(case, abs(z) < 1.96) for case, z in of("z of squared") if case not in ruled]
    by_kind = defaultdict(list)
    for case, holds in of("band of squared holds"):
        by_kind[kind_of(case)].append(holds)
    right = [
        metrics[f"{pair}: {'use' if sign_of(metrics, pair) == 1 else 'stop'} by random"]
        for metrics in (r["metrics"] for r in usual)
        for pair in PAIRS
        if f"{pair}: asked" in metrics and sign_of(metrics, pair) in (1, -1)
    ]
    turned = "bayes, regrouped: use by random"
    named = {
        "95% intervals of order that hold the truth: at least .90": [abs(z) < 1.96 for _, z in of("z of order")],
        "those of squared error, where nothing or exposure drives seeing: at least .93": [
            holds for case, holds in squared if "taste" not in case
        ],
        "the same where taste drives seeing": [holds for case, holds in squared if "taste" in case],
        "squared error over its band, where it holds least: at least .93": min(
            (by_kind[kind] for kind in sorted(by_kind)), key=np.mean, default=[]
        ),
        "band of the level within .01: at least .90": [r["metrics"]["band holds"] for r in usual],
        "decided rightly by as many random ratings as asked for: .75 to .90": right,
        "liking drives rating for half of the items: 250 random ratings turn the verdict": [
            r["metrics"][turned] for r in records if turned in r["metrics"]
        ],
    }
    return [f"| {name} | {np.mean(values):.3f} of {len(values)} |" for name, values in named.items() if values]


EXPERIMENT = cases.Experiment(
    "decisions of the judge about pairs of models in worlds whose truth is known",
    ("bayes",),
    {
        **{law: partial(simulated, law) for law in SIMULATED},
        **{f"jester, {name}": partial(jester, name.split()[0], slope) for name, slope in cases.LAWS.items()},
        "coat": coat,
    },
    18,
    measure,
    table=table,
)
