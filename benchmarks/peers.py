"""Fit other libraries to the same logs, each tuned on the log alone, and measure them as ours are measured.

A tenth of the log, the same for all, is held out for the trials: by log-loss of P(liked) for those that predict
ratings, by liked films in a top ten for those that make lists. The first trial has the library's own defaults. What a
library predicts becomes P(liked) by a logistic map fitted to the same tenth. Then the chosen settings are fitted to the
whole log, once a seed, and the test is read. `pip install 'unskew[peers]'` brings the libraries.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib.metadata import version
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from benchmarks.cases import REAL, Array, Experiment, Job, Measured
from benchmarks.quality import judged, list_figures, logistic
from unskew import RatingLog

Settings = dict[str, Any]
TRIALS, HELD_OUT, TOP, LARGE = 20, 0.1, 10, 50_000


class Peer(NamedTuple):
    """A library's model: its distribution, how it is fitted, what is searched, and what trials do with less of.

    In `space` a list is a choice, its first the default; a triple a default and a range on a log scale; else it is
    fixed. `fit` gets the log, what is learned (stars, or 1 and 0 of a `target` "liked"), the pairs asked, a seed and
    the other settings, and returns a score for each pair asked, or a list for every user.
    """

    library: str
    fit: Callable[..., Array]
    space: Settings
    trial: Settings = {}  # noqa: RUF012
    lists: bool = False
    reads_features: bool = False

    def applies(self, case: str) -> bool:
        """Say whether it is run on a case: lists where time divides, features where it reads them."""
        return case == "movielens by time" if self.lists else self.reads_features or "features" not in case


def measure(job: Job) -> Measured:
    """Tune unless another seed was, fit with this seed, and measure on the test."""
    peer, (train, test, _) = PEERS[job.method], job.data
    settings = job.settings or tuned(peer, train)
    began = time.process_time()
    found = fitted(peer, train, test, job.seed, {name: settings[name] for name in peer.space})
    seconds = {"seconds": time.process_time() - began}
    if peer.lists:
        metrics = list_figures(found, test, "choice")
    else:
        metrics = judged(expit(settings["map"][0] + settings["map"][1] * found), test)
    return Measured(metrics | seconds, settings, {peer.library: version(peer.library)})


def fitted(peer: Peer, log: RatingLog, asked: RatingLog, seed: int, settings: Settings) -> Array:
    """Return what a peer answers; bars of the libraries are not shown."""
    liked = settings.get("target") == "liked" or log.stars is None
    y = np.asarray(log.ratings if liked else log.stars, float)
    with redirect_stderr(StringIO()):
        return peer.fit(log, y, asked, seed, **{name: x for name, x in settings.items() if name != "target"})


def tuned(peer: Peer, log: RatingLog) -> Settings:
    """Return the best of the trials, its score on the held-out tenth, its logistic map, and what the trials took.

    On a large log samplers, which are slow there, have half the sweeps.
    """
    import optuna

    rest, tenth = divided(log, 0)
    searched = {name: values for name, values in peer.space.items() if isinstance(values, (list, tuple))}
    defaults = {name: each[0] if name in searched else each for name, each in peer.space.items()}
    fewer = dict(peer.trial)
    for settings in (defaults, fewer) if len(log) > LARGE else ():
        settings |= {name: n // 2 for name, n in settings.items() if name == "sweeps"}
    began = time.process_time()

    def loss(trial: Any) -> float:
        settings = {name: suggested(trial, name, values) for name, values in searched.items()}
        found = fitted(peer, rest, tenth, 0, {**defaults, **settings, **fewer})
        if peer.lists:
            return -list_figures(found, tenth, "choice")["choice: liked in ten"]
        a, b = logistic(found, tenth.ratings)
        return float(np.mean(np.logaddexp(0, np.where(tenth.ratings > 0, -1, 1) * (a + b * found))))

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial({name: defaults[name] for name in searched})
    study.optimize(loss, n_trials=TRIALS)
    chosen = {**defaults, **study.best_params}
    settings = {**chosen, "held-out loss": study.best_value, "trials": TRIALS}
    if not peer.lists:
        settings["map"] = [float(x) for x in logistic(fitted(peer, rest, tenth, 0, chosen), tenth.ratings)]
    return {**settings, "tuning seconds": time.process_time() - began}


def divided(log: RatingLog, seed: int) -> tuple[RatingLog, RatingLog]:
    """Set a random tenth of a log aside."""
    held_out = np.random.default_rng([seed, 17]).random(len(log)) < HELD_OUT
    return log.take(~held_out), log.take(held_out)


def suggested(trial: Any, name: str, values: Any) -> Any:
    """Let a trial suggest one of a list, or a number of a range."""
    if isinstance(values, list):
        return trial.suggest_categorical(name, values)
    kind = trial.suggest_int if isinstance(values[1], int) else trial.suggest_float
    return kind(name, *values[1:], log=True)


def matrix(log: RatingLog, values: Array | None = None) -> Any:
    """Return the log as a sparse matrix, of ones if no values are given."""
    ones = np.ones(len(log), np.float32) if values is None else values
    return sp.csr_matrix((ones, (log.users, log.items)), shape=(log.n_users, log.n_items))


def myfm(log: RatingLog, y: Array, asked: RatingLog, seed: int, rank: int, history: str, sweeps: int) -> Array:
    """myFM: a Bayesian factorisation machine, ordered probit; `history` adds SVD++ terms of users, or of both sides."""
    import myfm

    levels, ranks = np.unique(y, return_inverse=True)
    seen, blocks, shapes = matrix(log).astype(float), [], []
    for known, rows, features in zip((seen, seen.T.tocsr()), ("users", "both"), log.features, strict=True):
        parts = [sp.identity(known.shape[0], format="csr")]
        if history in (rows, "both"):
            parts.append(sp.diags(1 / np.sqrt(np.maximum(known.getnnz(1), 1))) @ known)
        if features is not None:
            parts.append(sp.csr_matrix(features.encoded, dtype=float))
        blocks.append(sp.hstack(parts).tocsr())
        shapes += [part.shape[1] for part in parts]

    def relations(pairs: RatingLog) -> list[Any]:
        codes = pairs.users.tolist(), pairs.items.tolist()
        return [myfm.RelationBlock(*each) for each in zip(codes, blocks, strict=True)]

    model, kept = myfm.MyFMOrderedProbit(rank=rank, random_seed=seed), sweeps - sweeps // 4
    model.fit(None, ranks, relations(log), n_iter=sweeps, n_kept_samples=kept, group_shapes=shapes)
    chances = model.predict_proba(None, relations(asked))[:, levels >= log.scale.positive].sum(1)
    return np.asarray(logit(np.clip(chances, 1e-6, 1 - 1e-6)))


def smurff(
    log: RatingLog, y: Array, asked: RatingLog, seed: int, num_latent: int, noise: str, precision: float,
    centred: str, sweeps: int,
) -> Array:  # fmt: skip
    """SMURFF: BPMF, with features Macau; it has no biases, so ratings are centred on shrunk means if so chosen."""
    import smurff

    offsets, rest = [np.full(log.n_users, y.mean()), np.zeros(log.n_items)], y - y.mean()
    for side, codes in ((1, log.items), (0, log.users)) if centred == "biases" else ():
        counts = np.bincount(codes, minlength=len(offsets[side]))
        means = np.bincount(codes, rest, len(counts)) / (counts + 5)
        offsets[side], rest = offsets[side] + means, rest - means[codes]
    burn, priors = sweeps // 4, ["normal" if f is None else "macau" for f in log.features]
    sizes = {"num_latent": num_latent, "burnin": burn, "nsamples": sweeps - burn}
    model = smurff.TrainSession(priors=priors, **sizes, num_threads=1, seed=seed + 1, verbose=0)
    kind = {"fixed": smurff.FixedNoise, "sampled": smurff.SampledNoise}[noise]
    model.addTrainAndTest(matrix(log, rest), matrix(asked).astype(float), kind(precision))
    for side, features in enumerate(log.features):
        if features is not None:
            model.addSideInfo(side, features.encoded.astype(float), direct=True)
    answers = {tuple(each.coords): each.pred_avg for each in model.run()}
    found = [answers[pair] for pair in zip(asked.users.tolist(), asked.items.tolist(), strict=True)]
    return np.asarray(offsets[0][asked.users] + offsets[1][asked.items] + found)


def surprise(log: RatingLog, y: Array, asked: RatingLog, seed: int, **settings: Any) -> Array:
    """Surprise's SVD: a biased matrix factorisation by stochastic gradient steps."""
    from surprise import SVD, Trainset

    by_user, by_item = defaultdict(list), defaultdict(list)
    for u, i, value in zip(log.users.tolist(), log.items.tolist(), y.tolist(), strict=True):
        by_user[u].append((i, value))
        by_item[i].append((u, value))
    ids = [{code: code for code in range(n)} for n in (log.n_users, log.n_items)]
    made = Trainset(by_user, by_item, log.n_users, log.n_items, len(log), (y.min(), y.max()), *ids)
    model = SVD(**settings, random_state=seed).fit(made)
    return biased(y.mean(), model.bu, model.bi, model.pu, model.qi, asked)


def cornac_data(log: RatingLog, y: Array, seed: int) -> Any:
    """Return ratings as Cornac takes them, in our codes."""
    from cornac.data import Dataset

    ids = [OrderedDict((code, code) for code in range(n)) for n in (log.n_users, log.n_items)]
    return Dataset(log.n_users, log.n_items, *ids, (log.users.astype(int), log.items.astype(int), y), seed=seed)


def cornac(log: RatingLog, y: Array, asked: RatingLog, seed: int, **settings: Any) -> Array:
    """Cornac's MF: a biased matrix factorisation by stochastic gradient steps."""
    from cornac.models import MF

    model = MF(**settings, num_threads=1, seed=seed).fit(cornac_data(log, y, seed))
    return biased(model.global_mean, model.u_biases, model.i_biases, model.u_factors, model.i_factors, asked)


def biased(mean: float, user_bias: Array, item_bias: Array, users: Array, items: Array, asked: RatingLog) -> Array:
    """Return c + b_u + b_i + v_u . w_i."""
    factors = (users[asked.users] * items[asked.items]).sum(1)
    return np.asarray(mean + user_bias[asked.users] + item_bias[asked.items] + factors)


def lenskit(log: RatingLog, y: Array, asked: RatingLog, seed: int, **settings: Any) -> Array:
    """LensKit's biased matrix factorisation by alternating least squares; an item it has not met gets the mean."""
    from lenskit.als import BiasedMFScorer
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.training import TrainingOptions
    from pandas import DataFrame

    model = BiasedMFScorer(**settings)
    data = from_interactions_df(DataFrame({"user_id": log.users, "item_id": log.items, "rating": y}))
    model.train(data, TrainingOptions(rng=seed))
    found = np.full(len(asked), np.nan)
    for user in np.unique(asked.users):
        rows = np.flatnonzero(asked.users == user)
        found[rows] = model(RecQuery(user_id=user), ItemList(item_ids=asked.items[rows])).scores()
    return np.where(np.isnan(found), np.nanmean(found), found)


def implicit_model(log: RatingLog, seed: int, **settings: Any) -> Any:
    """implicit's alternating least squares on liked ratings."""
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(**settings, random_state=seed, num_threads=1)
    model.fit(matrix(log.take(log.ratings > 0)), show_progress=False)
    return model


def implicit(log: RatingLog, y: Array, asked: RatingLog, seed: int, **settings: Any) -> Array:
    """What was rated is not shown again."""
    return np.asarray(implicit_model(log, seed, **settings).recommend(np.arange(log.n_users), matrix(log), N=TOP)[0])


def top_unseen(scores: Array, log: RatingLog) -> Array:
    """Return the best items of every user that he has not rated."""
    scores[log.users, log.items] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :TOP]


def liked_ridge(log: RatingLog, y: Array, asked: RatingLog, seed: int, penalty: float) -> Array:
    """Rank by X - R / diag(P), R = (X X' + penalty)^-1 X on liked ratings X: EASE (Steck 2019) by its smaller side."""
    x = matrix(log.take(log.ratings > 0)).toarray().astype(float)
    r = np.linalg.solve(x @ x.T + penalty * np.eye(len(x)), x)
    return top_unseen(x - r * penalty / (1 - (x * r).sum(0)), log)


def popularity(log: RatingLog, y: Array, asked: RatingLog, seed: int, counted: str) -> Array:
    """Rank by how many have rated, or liked, an item."""
    x = matrix(log if counted == "rated" else log.take(log.ratings > 0))
    return top_unseen(np.tile(np.asarray(x.sum(0), float), (log.n_users, 1)), log)


TARGET: Settings = {"target": ["stars", "liked"]}
SVD_SPACE: Settings = {"n_epochs": (20, 10, 100), "lr_all": (5e-3, 1e-3, 2e-2), "reg_all": (0.02, 0.01, 0.3)}
MF_SPACE: Settings = {"max_iter": (20, 10, 200), "learning_rate": (0.01, 1e-3, 3e-2), "lambda_reg": (0.02, 0.01, 0.3)}
ALS_SPACE: Settings = {"epochs": (10, 5, 20), "regularization": (0.1, 0.01, 30.0), "damping": (5.0, 1.0, 30.0)}
MYFM_SPACE: Settings = {"rank": (8, 2, 24), "history": ["none", "users", "both"]}
BPMF_SPACE: Settings = {"noise": ["fixed", "sampled"], "precision": (5.0, 0.3, 10.0), "centred": ["mean", "biases"]}
IMPLICIT_SPACE: Settings = {"regularization": (0.01, 1e-3, 100.0), "alpha": (1.0, 0.3, 40.0), "iterations": (15, 5, 30)}
SHORT, SWEEPS, SIZE = {"sweeps": 60}, {"sweeps": 200}, {**TARGET, "num_latent": (16, 4, 32)}
PEERS = {
    "myfm": Peer("myfm", myfm, {**MYFM_SPACE, **SWEEPS}, SHORT, reads_features=True),
    "smurff": Peer("smurff", smurff, {**SIZE, **BPMF_SPACE, **SWEEPS}, SHORT, reads_features=True),
    "surprise-svd": Peer("scikit-surprise", surprise, {**TARGET, "n_factors": (100, 2, 200), **SVD_SPACE}),
    "lenskit-biased-mf": Peer("lenskit", lenskit, {**TARGET, "embedding_size": (50, 4, 100), **ALS_SPACE}),
    "cornac-mf": Peer("cornac", cornac, {**TARGET, "k": (10, 2, 200), **MF_SPACE}),
    "implicit-als": Peer("implicit", implicit, {"factors": (100, 8, 128), **IMPLICIT_SPACE}, lists=True),
    "liked-ridge": Peer("scipy", liked_ridge, {"penalty": (200.0, 1.0, 3000.0)}, lists=True),
    "popularity": Peer("scipy", popularity, {"counted": ["rated", "liked"]}, lists=True),
}
EXPERIMENT = Experiment(
    "other libraries, tuned, on Coat and MovieLens",
    tuple(PEERS),
    REAL,
    5,
    measure,
    lambda method, case: PEERS[method].applies(case),
)
