"""What a method is: settings that turn into a plan, and one call from ratings to a model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar, Literal

from unskew.calibration.report import report_of, weights_of
from unskew.compiled import announced
from unskew.data.guess import ROLES
from unskew.data.log import RatingLog
from unskew.data.read import as_log, read_log
from unskew.data.rows import LogSettings
from unskew.distributed import on
from unskew.errors import DataError, ParameterError, checked_seed
from unskew.gone import called_otherwise
from unskew.methods.settings import CLIP, L2, Space, searched
from unskew.model import Recommender
from unskew.nets.base import NetSpec
from unskew.nets.factors import MF
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.registry import make, settings_of, with_settings
from unskew.selection.random_ratings import in_codes
from unskew.settings import check_settings, setting
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Plan, Role


class Method(ABC):
    """A recipe: settings only, never changed by `fit`. Two methods with equal settings are equal."""

    kind: ClassVar[str] = "method"
    from_positives: ClassVar[bool] = False  # whether rows that are all positive suffice

    def __post_init__(self) -> None:
        check_settings(self)

    @abstractmethod
    def plan(self) -> Plan:
        """Return what fills each role, what learns from which rows, in which order."""

    def space(self) -> Space:
        """Return which settings a search tries, and where; nothing if there is nothing to tune."""
        return searched(self) if is_dataclass(self) else {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return settings by name, those of parts as part__setting: scikit-learn's `clone` copies a method by them."""
        own = settings_of(self)
        parts = {f"{name}__{key}": value for name, part in own.items() for key, value in settings_of(part).items()}
        return own | parts if deep else own

    @property
    def reads_features(self) -> bool:
        """Whether any of its parts reads features of users or items."""
        return any(role.part.reads_features for role in self.plan().roles.values())

    @property
    def learns_from_all(self) -> bool:
        """Whether the prediction learns from every rating, those included that are held out for other parts."""
        return self.plan().roles["prediction"].part.learns_from_all

    def fit(
        self,
        log: Any,
        *,
        seed: int = 0,
        training: Training | None = None,
        random_ratings: Any = None,
        unbiased: RatingLog | None = None,
    ) -> Recommender:
        """Train on a log, or on what `read_log` makes one of; `random_ratings` are of pairs drawn at random."""
        random_ratings = called_otherwise(random_ratings, unbiased=unbiased)
        log = as_log(log)
        if log.target == "implicit" and not self.from_positives:
            raise DataError(
                f"{type(self).__name__} learns from what differs, and all rows are positive: take 'dce-bayes'."
            )
        random_ratings = log.random_ratings if random_ratings is None else read_log(random_ratings, like=log)
        seed, training, plan = checked_seed(seed), Training.given(training), self.plan()
        known = None if random_ratings is None else in_codes(log, random_ratings)[0]
        with announced(training.progress):
            split = training.split(log, seed)
            try:
                trained = train(plan, split, seed=seed, training=training, random_ratings=known)
            except MemoryError as error:
                advice = "lower n_factors, batch_size or pairs_per_row"
                raise ParameterError(f"The fit needs more memory than there is: {advice}.") from error
        if log.features != (None, None) and not self.reads_features:
            trained.history.notes.append("The log has features, and no part of this method reads them.")
        weighed = "propensity" in plan.roles and any(stage.steps for stage in plan.stages)
        model = Recommender(
            self,
            log,
            trained.parts,
            trained.history,
            seed,
            weights=weights_of(trained) if weighed else None,
            calibration=report_of(trained.view(trained.feed.holdout)),
            training=training,
            fitted_on="all" if self.learns_from_all else "train",
        )
        return model if random_ratings is None else model.with_random_ratings(random_ratings)


@dataclass(frozen=True, kw_only=True)
class NetMethod(Method):
    """A method made of nets of one architecture.

    `net` is that architecture, `learning_rate` the step of Adam, `l2` the weight of l2/2 |row|^2, None for what the
    rule gives for the log (`training.loop.resolved`), `error` the error that is minimised: "log" (cross-entropy) or
    "squared".
    """

    net: NetSpec = setting(factory=MF)
    learning_rate: float = setting(0.01, above=0)
    l2: float | None = setting(None, least=0, search=L2)
    error: Literal["log", "squared"] = "log"

    def learner(self) -> Role:
        """Return a role filled by a new net of this method's architecture."""
        return Role(self.net, rate=self.learning_rate, l2=self.l2)


@dataclass(frozen=True, kw_only=True)
class PropensityMethod(NetMethod):
    """A method that weights seen pairs by 1 / max(p, clip).

    `clip=None` is the log's own density |O|/|D|: then no rating stands for more pairs than an average one does. What is
    clipped is counted and reported in `model.weights`. A propensity that depends on the rating is clipped before the
    rating is taken into account.
    """

    propensity: Propensity = setting(factory=Factors)
    clip: float | None = setting(None, least=0, most=1, search=CLIP)

    def propensity_role(self) -> Role:
        return Role(self.propensity, clip=self.clip)


def fit(
    source: Any,
    method: str = "dce-bayes",
    *,
    seed: int = 0,
    training: Training | None = None,
    random_ratings: Any = None,
    client: Any = None,
    **settings: Any,
) -> Recommender:
    """Fit the method of this name, with these settings, to a log or whatever `unskew.read_log` makes one of:
    the path of a file or folder, a pandas, polars or Arrow frame, a SciPy sparse matrix, or three arrays.

    What `read_log` takes besides, such as `user=`, `positive=` or `target=`, is handed on to it; other settings are the
    method's. With a `client` of Dask, or the address of its scheduler, the sweeps of a sampled method are drawn by its
    workers, with the same bits.

    Examples:
        >>> import unskew
        >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
        >>> model = unskew.fit(world.log, sweeps=20)
        >>> model.recommend(k=1).num_rows
        60
    """
    of_log = *ROLES, *LogSettings.__annotations__
    reading: Any = {name: settings.pop(name) for name in of_log if name in settings}
    made: Method = with_settings(make(method), settings, f"The method {method!r}", of_log)
    if reading:
        source = read_log(source, **reading)
    return fit_on(client, made, source, seed=seed, training=training, random_ratings=random_ratings)


def fit_on(client: Any, method: Method, source: Any, **settings: Any) -> Recommender:
    """Fit a method whose sweeps are drawn by workers of a cluster: a client, an address, or None for this machine."""
    if client is not None and not method.learns_from_all:
        raise ParameterError(
            f"{type(method).__name__} learns by gradients, on one machine (tried with up to a million ratings): leave "
            "the cluster out, or use 'dce-bayes'."
        )
    with on(client):
        return method.fit(source, **settings)
