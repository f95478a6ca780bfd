"""Write the model folders that later versions must read: PYTHONPATH=src python tests/store/models/write.py FOLDER

Folders of a version that was released are never written again; a new format gets another folder next to them.
"""

import json
import sys
from pathlib import Path

import numpy as np

import unskew

N_USERS, N_ITEMS, N_RATINGS = 12, 8, 60
NET = unskew.MF(n_factors=2)
FACTORS = unskew.Factors(n_folds=2, net=unskew.MF(n_factors=2, init_std=0.1))
METHODS = {
    "binary": unskew.IPS(net=NET, propensity=unskew.Additive()),
    "graded": unskew.Naive(net=unskew.NCF(n_factors=2), error="squared"),
    "dce": unskew.DoublyCalibrated(unskew.DRJL(net=NET, propensity=FACTORS), n_experts=2),
}
SCALES = {"graded": {"positive": None, "rating_scale": (1, 5)}}


def log(name: str) -> unskew.RatingLog:
    """Users are texts, items integers; the last user has rated nothing."""
    generator = np.random.default_rng(0)
    users, items = np.divmod(generator.permutation((N_USERS - 1) * N_ITEMS)[:N_RATINGS], N_ITEMS)
    ids = np.array([f"user {code} é" for code in range(N_USERS)])
    catalogue = {"user_ids": ids, "item_ids": np.arange(N_ITEMS) * 10}
    ratings = generator.integers(1, 6, N_RATINGS)
    return unskew.RatingLog.from_arrays(ids[users], items * 10, ratings, **catalogue, **SCALES.get(name, {}))


def answers(model: unskew.Recommender) -> dict[str, object]:
    """What a model answers for all pairs, for an unknown user, and by its other roles."""
    users, items = np.divmod(np.arange(model.log.n_pairs), model.log.n_items)
    pairs = model.log.user_ids.take(users), model.log.item_ids.take(items)
    answers: dict[str, object] = {
        "prediction": model.predict(*pairs).tolist(),
        "stranger": model.predict(["nobody"], [10], on_unknown="fallback").tolist(),
        "recommended": model.recommend(["user 1 é"], k=3)["item_id"].to_pylist(),
        "ratings": model.log.to_arrow()["rating"].to_pylist(),
        "held_out": model.split.holdout_rows.tolist(),
    }
    for role in ("propensity", "imputation"):
        if role in model.parts:
            answers[role] = getattr(model, role)(*pairs).tolist()
    return answers


def main(folder: Path) -> None:
    for name, method in METHODS.items():
        model = method.fit(log(name), seed=3, training=unskew.Training(max_epochs=2, holdout=0.2, progress=False))
        model.save(folder / name)
        (folder / f"{name}.json").write_text(json.dumps(answers(model), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
