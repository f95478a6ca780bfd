"""What the rules behind the defaults are worth, in worlds of known truth and on Coat's log alone: docs/defaults.md.

    python benchmarks/rules.py --part l2 --coat DATA/coat --seeds 3

Parts: l2, l2-dr, factors, start and start-dr (the spread of factors before they learn), batch, experts and clip vary
one setting around its rule or default; methods compares what weighting and imputing cost. Of worlds the true log-loss
over all pairs and nDCG@5 by true preferences are told, of Coat the weighted log-loss and the pairwise loss on a tenth
of the log that was left out, for every seed another: its test is not read. A run that is stopped goes on where it
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from pairwise import pairwise_log_loss
from scipy.special import logit
from scripts import bare_parser, count, failed, publish, script

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.records import Values
from unskew.methods.space import changed
from unskew.metrics.accuracy import PROBABILITY_FLOOR, log_loss
from unskew.training.rules import usual_l2

TRAINING = unskew.Training(progress=False)
COAT = "Coat's log"
WORLDS: dict[str, dict[str, Any]] = {
    "90 x 70, 8%": {"n_users": 90, "n_items": 70, "density": 0.08},
    "90 x 70, 50%": {"n_users": 90, "n_items": 70, "density": 0.5},
    "200 x 150, 10%": {"n_users": 200, "n_items": 150, "density": 0.1, "selection": "popularity"},
    "1000 x 400, 2%": {"n_users": 1000, "n_items": 400, "density": 0.02, "selection": "popularity"},
    "600 x 300, 5%, weak": {"n_users": 600, "n_items": 300, "density": 0.05, "interaction": 0.4},
    "500 x 250, 10%": {"n_users": 500, "n_items": 250, "density": 0.1},
    "300 x 300, 30%": {"n_users": 300, "n_items": 300, "density": 0.3, "selection": "popularity"},
    "1000 x 400, 10%": {"n_users": 1000, "n_items": 400, "density": 0.1, "selection": "utility", "strength": 0.2},
    "2000 x 200, 20%": {"n_users": 2000, "n_items": 200, "density": 0.2},
}
LARGER = ("500 x 250, 10%", "300 x 300, 30%", "1000 x 400, 10%", COAT)


@dataclass(frozen=True)
class Variant:
    """A method and how it is trained, once the log is known: `l2`, `clip` and `batch` are multiples of their rules."""

    method: unskew.Method
    l2: float = 1.0
    clip: float = 1.0
    batch: float = 1.0

    def fit(self, log: unskew.RatingLog, seed: int) -> unskew.Recommender:
        method, training = self.method, TRAINING
        if self.l2 != 1:
            method = changed(method, ["l2"], self.l2 * usual_l2(log))
        if self.clip != 1:
            method = changed(method, ["clip"], min(1.0, self.clip * len(log) / log.n_pairs))
        if self.batch != 1:
            usual = training.batch_size_for(training.split(log, seed).facts.n_train)
            training = replace(training, batch_size=round(self.batch * usual))
        return method.fit(log, seed=seed, training=training)


def parts() -> dict[str, tuple[dict[str, Variant], tuple[str, ...]]]:
    """The variants of each part by their names, and where they are tried."""
    naive, everywhere = unskew.Naive(), (*WORLDS, COAT)
    multiples = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
    sizes = {f"{k} factors": Variant(unskew.Naive(net=unskew.MF(n_factors=k))) for k in (8, 16, 32, 64, 128)}
    starts = {
        f"start {spread:g}": Variant(unskew.Naive(net=unskew.MF(spread=spread))) for spread in (0.1, 0.2, 0.3, 0.5)
    }
    robust_starts = {
        f"{name}, start {spread:g}": Variant(unskew.make(name, net=unskew.MF(spread=spread)))
        for name in ("dr-jl", "dce-dr")
        for spread in (0.2, 0.5)
    }
    experts = {f"{k} experts": Variant(unskew.make("dce-dr", n_experts=k)) for k in (1, 2, 5, 10)}
    clips = {f"clip x {m:g}": Variant(unskew.DRJL(), clip=m) for m in (0.1, 0.3, 1.0, 2.0)}
    pairs = {
        f"{m:g} a rating" + (", propensity too" if both else ""): Variant(sampling(m, both))
        for both in (False, True)
        for m in (0.5, 1.0, 2.0)
    }
    robust = ("naive", "snips", "dr-jl", "dce-dr", "dce-tdr")
    return {
        "l2": ({f"x {m:g}": Variant(naive, l2=m) for m in multiples}, everywhere),
        "l2-dr": ({f"x {m:g}": Variant(unskew.DRJL(), l2=m) for m in multiples[1:-1]}, LARGER),
        "factors": (sizes, everywhere),
        "start": (starts, everywhere),
        "start-dr": (robust_starts, everywhere),
        "batch": ({f"x {m:g}": Variant(naive, batch=m) for m in (0.25, 0.5, 1.0, 2.0, 4.0)}, everywhere),
        "experts": (experts, ("90 x 70, 50%", "200 x 150, 10%", *LARGER[::2])),
        "clip": (clips, LARGER),
        "pairs": (pairs, ("200 x 150, 10%", *LARGER)),
        "methods": ({name: Variant(unskew.make(name)) for name in robust}, ("500 x 250, 10%", COAT)),
    }


def sampling(pairs_per_row: float, both: bool) -> unskew.Method:
    """DCE-DR with so many pairs sampled for a rating, in joint learning and, if `both`, for the propensity."""
    propensity = unskew.Factors(pairs_per_row=pairs_per_row) if both else unskew.Factors()
    return unskew.DoublyCalibrated(unskew.DRJL(pairs_per_row=pairs_per_row, propensity=propensity))


@lru_cache(maxsize=1)
def world(name: str, seed: int) -> unskew.World:
    return unskew.simulate(**WORLDS[name], seed=seed)


def judged(coat: unskew.RatingLog | None, *, place: str, variant: Variant, seed: int) -> Values:
    if place == COAT:
        assert coat is not None
        tenth = unskew.folds(coat, 10, seed=0)[seed]
        model = variant.fit(tenth.train, seed)
        return dict(zip(("loss", "order"), losses(coat, model, tenth.holdout), strict=True))
    truth = world(place, seed)
    model = variant.fit(truth.log, seed)
    return {"loss": truth.risk(model.predict_codes, "log"), "order": ndcg(model, truth)}


def losses(log: unskew.RatingLog, model: unskew.Recommender, held_out: unskew.RatingLog) -> tuple[float, float]:
    """Weighted log-loss and pairwise log-loss on ratings that a model has not seen."""
    said = np.clip(model.predict_codes(held_out.users, held_out.items), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    p = unskew.Additive().fit(log).pair(held_out.users, held_out.items)
    weights = 1 / np.maximum(p, len(log) / log.n_pairs)
    order = pairwise_log_loss(held_out.ratings, logit(said), held_out.users, sample_weight=weights)
    return log_loss(held_out.ratings, said, sample_weight=weights), order


def ndcg(model: unskew.Recommender, truth: unskew.World, k: int = 5) -> float:
    """nDCG@k over all pairs with the true preferences as gains."""
    users, items = np.divmod(np.arange(truth.n_pairs), truth.n_items)
    shape = truth.n_users, truth.n_items
    gains, scores = truth.preference(users, items).reshape(shape), model.predict_codes(users, items).reshape(shape)
    discount = 1 / np.log2(np.arange(2, k + 2))
    best, said = (np.take_along_axis(gains, np.argsort(-by, 1)[:, :k], 1) @ discount for by in (gains, scores))
    return float((said / best).mean())


def table(part: str, variants: Mapping[str, Variant], places: tuple[str, ...], outcome: Outcome, seeds: int) -> str:
    rows = []
    for place in places:
        found = {name: [outcome.values.get(key(part, place, name, s)) for s in range(seeds)] for name in variants}
        rows.append([place, *(_cell([values for values in of if values]) for of in found.values())])
    return markdown_grid([part, *variants], rows)


def _cell(values: list[Values]) -> str:
    return f"{np.mean([v['loss'] for v in values]):.4f}, {np.mean([v['order'] for v in values]):.3f}" if values else ""


def key(part: str, place: str, name: str, seed: int) -> str:
    return f"{part}/{place}/{name}/{seed}"


def main(arguments: list[str] | None = None) -> None:
    known = parts()
    options = bare_parser(__doc__, "rules.jsonl")
    options.add_argument("--part", choices=known, default="l2")
    options.add_argument("--seeds", type=count, default=3, help="how many, at most 10 with Coat (default: 3)")
    options.add_argument("--coat", help="the folder of the published Coat files; without it worlds only")
    asked = options.parse_args(arguments)
    variants, places = known[asked.part]
    coat = unskew.datasets.coat(asked.coat).train if asked.coat else None
    tried = tuple(place for place in places if place != COAT or coat is not None)
    jobs = [
        Job(
            key(asked.part, place, name, seed),
            repr((variant, WORLDS.get(place), TRAINING)),
            partial(judged, place=place, variant=variant, seed=seed),
        )
        for seed in range(asked.seeds)
        for place in tried
        for name, variant in variants.items()
    ]
    outcome = run(jobs, asked.records, asked.workers, coat)
    publish((table(asked.part, variants, tried, outcome, asked.seeds), failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
