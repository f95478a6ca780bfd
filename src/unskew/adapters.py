"""Models of other libraries as functions (users, items) -> scores, for `estimate_risk`, `compare` and `evaluate`.

Each takes a fitted model and asks it in its own language; none of the libraries is needed to import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError, ParameterError

__all__ = ["from_cornac", "from_implicit", "from_sklearn", "from_surprise"]

Ids = Any
Scorer = Callable[[Ids, Ids], NDArray[np.float64]]


def from_sklearn(model: Any, features: Callable[[Ids, Ids], Any]) -> Scorer:
    """A scikit-learn classifier or regressor; `features` makes its matrix, one row a pair, from users and items.

    Of a classifier it is the probability of the last of its two classes.
    """
    if hasattr(model, "predict_proba"):
        n_classes = len(getattr(model, "classes_", (0, 1)))
        if n_classes != 2:
            raise ParameterError(f"the classifier has {n_classes} classes; scores need one of two classes.")
        return lambda users, items: np.asarray(model.predict_proba(features(users, items))[:, 1], np.float64)
    return lambda users, items: np.asarray(model.predict(features(users, items)), np.float64)


def from_implicit(model: Any, user_ids: Sequence[Any], item_ids: Sequence[Any]) -> Scorer:
    """A factor model of implicit; `user_ids` and `item_ids` name the rows and columns of the matrix it was fitted on.

    Its scores have no scale of probabilities, so ask for metrics of order: auc, ndcg@k, recall@k, precision@k.
    """
    factors = [_plain(getattr(model, f"{side}_factors")) for side in ("user", "item")]
    vocabularies = [Vocabulary(list(ids), f"{side}_ids") for side, ids in (("user", user_ids), ("item", item_ids))]
    for side, table, ids in zip(("user", "item"), factors, vocabularies, strict=True):
        if len(table) != len(ids):
            raise ParameterError(f"the model has {len(table):,} {side}s and {side}_ids names {len(ids):,}; name each.")

    def score(users: Ids, items: Ids) -> NDArray[np.float64]:
        rows, columns = (
            _known(ids.codes(asked), asked, side)
            for ids, asked, side in zip(vocabularies, (users, items), ("user", "item"), strict=True)
        )
        return np.asarray(np.einsum("nk,nk->n", factors[0][rows], factors[1][columns]), np.float64)

    return score


def from_surprise(algorithm: Any) -> Scorer:
    """An algorithm of Surprise: its estimates, pair by pair, on the rating scale of its train set.

    Raw ids must be those of the log, of the same type. Pairs it calls impossible are refused.
    """

    def score(users: Ids, items: Ids) -> NDArray[np.float64]:
        said = np.empty(len(users))
        for row, (user, item) in enumerate(zip(_listed(users), _listed(items), strict=True)):
            prediction = algorithm.predict(user, item)
            if prediction.details.get("was_impossible"):
                raise DataError(f"the algorithm of Surprise cannot predict for user {user!r} and item {item!r}.")
            said[row] = prediction.est
        return said

    return score


def from_cornac(model: Any) -> Scorer:
    """A model of Cornac: its scores for whole users, of which the asked items are taken."""
    known = model if hasattr(model, "uid_map") else model.train_set
    of_user, of_item = known.uid_map, known.iid_map

    def score(users: Ids, items: Ids) -> NDArray[np.float64]:
        rows = np.array([of_user.get(user, -1) for user in _listed(users)])
        columns = np.array([of_item.get(item, -1) for item in _listed(items)])
        _known(rows, users, "user")
        _known(columns, items, "item")
        said = np.empty(len(rows))
        for user in np.unique(rows):
            mine = np.flatnonzero(rows == user)
            said[mine] = np.asarray(model.score(int(user)), np.float64)[columns[mine]]
        return said

    return score


def _plain(factors: Any) -> NDArray[np.float32]:
    """Factors as a NumPy array; those on a GPU know how to become one."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


def _listed(ids: Ids) -> list[Any]:
    return list(np.asarray(ids).tolist())


def _known(codes: NDArray[Any], ids: Ids, side: str) -> NDArray[Any]:
    if (codes < 0).any():
        stranger = _listed(ids)[int(np.argmax(codes < 0))]
        raise DataError(
            f"the model does not know the {side} {stranger!r} ({int((codes < 0).sum())} pairs ask for such)."
        )
    return codes
