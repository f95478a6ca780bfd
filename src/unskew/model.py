"""The fitted thing: predictions for every pair, recommendations, propensities, and how it was trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew import asked
from unskew.asked import Library, OnUnknown
from unskew.calibration.report import CalibrationReport, WeightReport
from unskew.data.guess import library_of
from unskew.data.ids import as_ids
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import ParameterError, checked_seed, chosen, flag, whole, within
from unskew.explore import CHOICE, explored
from unskew.losses.batch import Parts
from unskew.nets.base import Linear, NetSpec, Part
from unskew.nets.near import Ranked
from unskew.selection.random_ratings import ROLES, Correction, Line, RandomRatings, in_codes, learn
from unskew.topk import Candidates, alike, contributions, top_items
from unskew.training.loop import resolved
from unskew.training.options import History, Training

if TYPE_CHECKING:
    from unskew.findings import Findings

As = Literal["probability", "rating", "levels"]
CHUNK = 1 << 18
MOST_SWEEPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Recommender:
    """What `method.fit(log)` returns. External ids in, external ids and the log's own rating scale out.

    For a binary log predictions are probabilities of a positive rating, for a graded one ratings. `on_unknown`
    says what to do about ids the log does not know: "raise", or "fallback", which answers for the average user
    or the average item in their place. `weights` says how the propensities weighed the training ratings, `calibration`
    how well propensity and imputation were calibrated before and after; each is None for a method without. `training`
    are the options of the run, None for the usual ones. Users with codes from `n_fitted_users` on were folded in; None
    if nobody was. `random_ratings` tells what random ratings were used for, None without any, and `corrections` are
    the lines that they have put through the logits of roles. `folder` is where it was loaded from: the judge keeps what
    it has fitted there.

    Examples:
        >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
        >>> model = unskew.make("naive").fit(world.log)
        >>> model.predict([3, 3], [7, 8]).shape
        (2,)
        >>> model.recommend(3, k=2).column_names
        ['user_id', 'item_id', 'score', 'rank']
    """

    method: Any
    log: RatingLog
    parts: Parts
    history: History
    seed: int
    weights: WeightReport | None = None
    calibration: CalibrationReport | None = None
    training: Training | None = None
    n_fitted_users: int | None = None
    random_ratings: RandomRatings | None = None
    corrections: Mapping[str, Line] = field(default_factory=dict)
    fitted_on: Literal["train", "all"] = "train"
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"Recommender({type(self.method).__name__} fitted by seed {self.seed} on {self.log!r})"

    @property
    def settings(self) -> dict[str, float]:
        """The numbers that recipe, rules and search came to: batch size, L2 of nets, clips of propensities."""
        split, training = self.split, self.training or Training()
        roles = resolved(self.method.plan().roles, split)
        l2 = {f"l2 of {name}": role.l2 or 0.0 for name, role in roles.items() if isinstance(role.part, NetSpec)}
        clips = {f"clip of {name}": role.clip for name, role in roles.items() if role.clip}
        return {"batch size": training.batch_size_for(len(split.train_rows)), **l2, **clips}

    @property
    def n_fitted(self) -> int:
        """How many of the users were there when the model was fitted."""
        return self.log.n_users if self.n_fitted_users is None else self.n_fitted_users

    @property
    def split(self) -> Split:
        """Which rows of the log were trained on, and which were held out to stop training and to calibrate."""
        training, log = self.training or Training(), self.with_log("what it has learned from")
        if self.n_fitted_users is not None:
            log = log.take(log.users < self.n_fitted_users)
        return training.split(log, self.seed)

    @property
    def trained_on(self) -> RatingLog:
        """The ratings that the prediction has learned from."""
        return self.split.train if self.fitted_on == "train" else self.split.log

    def predict(
        self,
        users: Any,
        items: Any = None,
        *,
        as_: As | None = None,
        liked_from: float | None = None,
        return_std: bool = False,
        on_unknown: OnUnknown = "raise",
    ) -> Any:
        """Predict the rating of each pair (users[n], items[n]), or of each row of a frame of pairs given alone.

        Of a frame the answer is the same frame with a column `prediction` and, with `return_std`, `std`.
        Of a model that knows the levels of ratings, `as_="probability"` is the chance of a rating of at least
        `liked_from`, "rating" the expected one, and "levels" a pair of arrays: the levels, and the chance of each.
        With `return_std` a second array tells how far the log leaves each answer open, one standard deviation.
        """
        flag(return_std, "return_std")
        if as_ is not None:
            chosen(as_, "as_", get_args(As))
        if items is None:
            if as_ == "levels":
                raise ParameterError("as_='levels' has several numbers a pair: give users and items as arrays.")
            (user, item), table = asked.columns_of_pairs(self.log, users)
            rules: Any = {"as_": as_, "liked_from": liked_from, "return_std": return_std, "on_unknown": on_unknown}
            answers = self.predict(table[user], table[item], **rules)
            added = zip(("prediction", "std"), answers if return_std else (answers,), strict=False)
            return asked.framed(pa.table(table | dict(added)), library_of(users))
        chosen(on_unknown, "on_unknown", get_args(OnUnknown))
        codes, part = asked.pairs_of(self.log, users, items, on_unknown), self.part("prediction")
        if liked_from is not None and not isinstance(liked_from, Real):
            raise ParameterError(f"liked_from must be a rating, not {liked_from!r}.")
        if liked_from is not None and as_ not in (None, "probability"):
            raise ParameterError(f"liked_from goes with as_='probability', not with {as_!r}.")
        if as_ == "levels":
            return part.level_chances(*codes)
        if as_ == "rating":
            found = part.expected(*codes)
        elif liked_from is not None:
            found = part.liked(*codes, liked_from)
        else:
            found = np.asarray(self.log.scale.from_unit(self.predict_codes(*codes)), np.float64)
        return (found, part.std(*codes, liked_from, as_ == "rating")) if return_std else found

    def propensity(self, users: Any, items: Any) -> NDArray[np.float64]:
        """Return the estimated probability that each pair is seen, calibrated if the method calibrates, not clipped."""
        return self.scores("propensity", *asked.pairs_of(self.log, users, items))

    def imputation(self, users: Any, items: Any) -> NDArray[np.float64]:
        """Return the imputed rating of each pair, calibrated if the method calibrates, on the log's own scale."""
        found = self.scores("imputation", *asked.pairs_of(self.log, users, items))
        return np.asarray(self.log.scale.from_unit(found), np.float64)

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        by: str | None = None,
        exclude_seen: bool = True,
        items: Any = None,
        filter_items: Any = None,
        candidates: Any = None,
        on_unknown: OnUnknown = "raise",
        explore: float | None = None,
        seed: int = 0,
        library: Library | None = None,
    ) -> Any:
        """Return the k best items for each user: a frame with user, item, title if there are any, score and rank.

        It comes in the frame library that the log came in, or in another `library`, under the log's names of columns.
        `users` is an id, several, or None for everybody. `by` is the order: "liking", what a user would like if he met
        it; of models that know more also "choice", what he would pick and like, "lower", what he would like for sure,
        and "thompson", a draw from what is possible, by `seed`; None is the model's usual one. `items` limits what may
        be recommended, unknown ones left out with on_unknown="fallback", `filter_items` leaves some out, `candidates`
        is a frame of users and items that lists what each may get, and `exclude_seen` leaves out what the user has
        rated. A user with fewer than k items left gets fewer rows. Lists that are nearly the same for everybody are
        warned of. With `explore`, the share of lists that are a random order of what is allowed, a column `pscore` has
        the chance that the item was shown at that place: exact, also for 0, and with by="thompson" over all that could
        have been drawn. Scores by choice are log-chances: that of all that he may get he picks and likes this one. The
        metadata of an Arrow table name the order.
        """
        log, by, k, into = self.log, self.order(by), whole(k, "k", 1), asked.library_for(self.log, library)
        chosen(on_unknown, "on_unknown", get_args(OnUnknown))
        if flag(exclude_seen, "exclude_seen"):
            self.with_log("what users have rated: pass exclude_seen=False")
        if explore is not None:
            within(0, 1, "included", explore=explore)
        codes, lists = np.arange(log.n_users, dtype=np.int32), None
        if candidates is not None:
            if items is not None or users is not None:
                raise ParameterError("candidates says who may get what: leave users and items out.")
            codes, lists = asked.lists_of(log, candidates)
        elif users is not None:
            codes = asked.codes_of(log, "user", users, on_unknown)
        ids = log.user_ids.take(codes) if users is None else as_ids(asked.listed(users), "users")
        limits, without = (
            None if given is None else asked.codes_of(log, "item", given, on_unknown, limit=True)
            for given in (items, filter_items)
        )
        may = Candidates(log, codes, listed=lists, items=limits, without=without, exclude_seen=exclude_seen)
        score, chances, notes = self.ranking(by, checked_seed(seed)), dict[str, Any](), list[str]()
        if limits is not None and (unknown := int((limits < 0).sum())):
            notes.append(f"{unknown:,} items that the log does not know were left out.")
        if explore is None:
            found = top_items(score, may, k, chances=by == CHOICE, ranked=self.ranked(by))
            notes.append(found.sameness(log) if lists is None and limits is None else "")  # else there is little choice
        else:
            found, chances["pscore"] = explored(self.part("prediction"), by, score, may, k, explore, seed)
        if any(notes):
            warnings.warn(" ".join(filter(None, notes)), stacklevel=2)
        scores = np.asarray(log.scale.from_unit(found.scores)) if by == "liking" else found.scores
        columns = {log.names.user: ids.take(pa.array(found.position)), **asked.named(log, "item", found.items)}
        table = pa.table(columns | {"score": scores, "rank": found.rank} | chances)
        return asked.framed(table.replace_schema_metadata({"order": by}), into)

    def similar(self, items: Any = None, *, users: Any = None, k: int = 10, library: Library | None = None) -> Any:
        """Return the k items most like each of some items, or users most like each of some users, as a frame.

        Two items are alike if what the model answers for them, beyond what all items share, goes up and down together
        over all users, and two users alike over all items; `similarity` is that correlation, from -1 to 1. The frame is
        of the library that the log came in, or of another `library`.
        """
        if (items is None) == (users is None):
            raise ParameterError("similar needs items or users: give one of the two.")
        log, into, form = self.log, asked.library_for(self.log, library), self._known_products()
        side, given = ("item", items) if users is None else ("user", users)
        codes = asked.codes_of(log, side, given, limit=side == "item")
        rows, others = (form.items, form.users) if side == "item" else (form.users, form.items)
        places, found = alike(rows - rows.mean(0), others, codes, whole(k, "k", 1))
        columns = asked.named(log, side, np.repeat(codes, places.shape[1]))
        columns |= asked.named(log, side, places.ravel(), "similar_")
        rank = np.tile(np.arange(1, places.shape[1] + 1), len(codes))
        return asked.framed(pa.table(columns | {"similarity": found.ravel(), "rank": rank}), into)

    def explain(self, user: Any, item: Any, k: int = 5, *, library: Library | None = None) -> Any:
        """Return the k ratings of a user that count most for or against an item, as a frame.

        `contribution` is by how much a rating moves the logit of liking the item away from the average user's, to first
        order, everything else that the model knows held fixed; see `unskew.topk.contributions`.
        """
        log, into = self.with_log("what users have rated"), asked.library_for(self.log, library)
        form = self._known_products()
        who, what = asked.one_code(log, "user", user), asked.one_code(log, "item", item)
        rows = np.flatnonzero((log.users == who) & (log.items != what))
        given = contributions(form, log.items[rows], log.ratings[rows].astype(np.float64), what)
        order = np.argsort(-np.abs(given), kind="stable")[: whole(k, "k", 1)]
        held = log.scale.from_unit(log.ratings) if log.stars is None else log.stars
        columns = asked.named(log, "item", log.items[rows[order]])
        columns |= {log.names.rating: np.asarray(held)[rows[order]], "contribution": given[order]}
        return asked.framed(pa.table(columns), into)

    def inner_products(self) -> Linear:
        """Return the prediction as inner products, the average user and item last; refused if it is none."""
        form = self.part("prediction").linear()
        if form is None:
            raise ParameterError(
                f"The predictions of {type(self.method).__name__} are no inner products of users and items here, and "
                "it has no vectors: fit it with a net such as MF()."
            )
        return form

    def _known_products(self) -> Linear:
        """Return the same without the average ones, in double precision."""
        return Linear(*(np.asarray(side[:-1], np.float64) for side in self.inner_products()))

    def order(self, by: str | None = None) -> str:
        """Return the order of lists that is meant, the model's usual one for None; refused if it has no such order."""
        orders = self.part("prediction").orders
        if by is not None and (not isinstance(by, str) or by not in orders):
            known = " or ".join(map(repr, orders))
            other = "" if len(orders) > 1 else "; a model of the method 'dce-bayes' knows more"
            raise ParameterError(f"by must be {known} for {type(self.method).__name__}, not {by!r}{other}.")
        return by or orders[0]

    def ranking(self, by: str, seed: int = 0) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]:
        """Return what lists are ranked by, as a function of codes."""
        if by == "liking":
            return self.predict_codes
        part, rng = self.part("prediction"), np.random.default_rng(seed)
        return lambda users, items: np.asarray(part.order_scores(by, users, items, rng), np.float64)

    def ranked(self, by: str) -> Ranked | None:
        """Return the same for users and all items at once, up to a known error, where that is known."""
        mapped = by == "liking" and "prediction" in (*self.corrections, *self.parts.calibrators)
        return None if mapped else self.part("prediction").ranked(by)

    def with_random_ratings(self, random: RatingLog) -> Recommender:
        """Correct the model by ratings of random pairs, as far as they bear it out; see `model.random_ratings`."""
        known, n_unknown, n_in_log = in_codes(self.log, random)
        lines, found, as_fitted = dict[str, Line](), list[Correction](), replace(self, corrections={})
        for role in (role for role in ROLES if role in self.parts):
            answers = as_fitted.scores(role, known.users, known.items)
            lines[role], tried = learn(role, answers, known.ratings, self.seed)
            found += tried
        report = RandomRatings(len(known), n_unknown, n_in_log, known.positive_rate, tuple(found))
        return replace(self, random_ratings=report, corrections=lines)

    def predict_codes(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.float64]:
        """Return predictions in [0, 1] by codes; the code -1 is somebody or something unknown."""
        return self.scores("prediction", users, items)

    def scores(self, role: str, users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.float64]:
        """Ask a role about pairs by codes, in [0, 1]."""
        part, found = self.part(role), np.empty(len(users))
        for start in range(0, len(users), CHUNK):
            chunk = slice(start, start + CHUNK)
            u, i = (np.asarray(codes[chunk], np.int32) for codes in (users, items))
            found[chunk] = self.parts.answer(role, u, i, part.answers(u, i))
        return self.corrections[role](found) if role in self.corrections else found

    def fold_in(self, user_log: Any, *, on_unknown: OnUnknown = "raise") -> Recommender:
        """Return a model that knows new users too, by the few ratings they have given and without training.

        `user_log` is a `RatingLog` read as the model's own was, or a frame with the columns user_id, item_id and rating
        on the scale of the model's log. Every answer about known users stays. Each new user gets the row that is most
        likely given the ratings, weighted by inverse propensity where the method weighs, and given how fitted users
        are spread around their average. Ratings of unknown items are refused or, with on_unknown="fallback", left out
        and counted.
        """
        from unskew.fold_in import fold_in  # which imports this module

        return fold_in(self, user_log, on_unknown=on_unknown)

    def part(self, role: str) -> Part:
        """Return what fills a role."""
        if role not in self.parts:
            lost = role in self.method.plan().roles
            why = "; use a method that has one" if not lost else " any more, as its history says: fit again"
            raise ParameterError(f"{type(self.method).__name__} has no {role}{why}.")
        found: Part = self.parts[role]
        return found

    def diagnose(self, **settings: Any) -> Findings:
        """Judge whether to use this model, by its log and random ratings if any; settings as in `unskew.diagnose`."""
        from unskew.diagnosis.diagnose import diagnose  # which imports this module

        return diagnose(self, **settings)

    def more_sweeps(self, sweeps: int) -> Recommender:
        """Sample a Bayesian method further, with sweeps that go on from where its fit, saved or not, ended."""
        sweeps = whole(sweeps, "sweeps", 1, MOST_SWEEPS)
        if self.n_fitted_users is not None:
            raise ParameterError("Users were folded into this model, whose log holds none of their ratings; fit anew.")
        before, parts = self.part("prediction"), copy(self.parts)
        sampled = before.continued(self.log, sweeps)
        notes = [*(note for note in self.history.notes if note not in before.notes), *sampled.notes]
        parts.parts = {**self.parts.parts, "prediction": sampled}
        return replace(self, parts=parts, history=replace(self.history, notes=notes))

    def update(self, source: Any, *, sweeps: int | None = None) -> Recommender:
        """Return the model of a Bayesian method with more ratings, those of new users and items included.

        `source` is a file or a frame like the log's, or a `RatingLog` read as the log was. The sampler goes on from its
        kept state for `sweeps` over all ratings, by default 90% of what a fit begins with; see `unskew.update` for
        what stands as it was fitted. Refused: another scale, other columns, ratings older than the log's last, and
        pairs that the log has.
        """
        from unskew.update import update  # which imports this module

        return update(self, source, sweeps=sweeps)

    def save(self, path: str | PathLike[str], *, without_log: bool = False) -> None:
        """Write the model as a folder, for `unskew.load`; a model already there is replaced, all else is refused.

        The folder holds the log. Without it the model answers as before, but nobody can tell what users have rated
        (`exclude_seen`, `explain`), fold new users in, or diagnose it.
        """
        from unskew.store.model import save  # which imports this module

        save(self, path, without_log=without_log)

    def with_log(self, for_what: str) -> RatingLog:
        """Return the log, refused if the model was saved without it."""
        if not len(self.log):
            raise ParameterError(f"The model was saved without its log, and does not know {for_what}.")
        return self.log
