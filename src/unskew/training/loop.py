"""The one loop: carries out any plan, knows no loss."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from unskew.data.feed import Batch, Feed, Members
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DivergedError, ParameterError
from unskew.nets.base import Catalogue, NetRecipe
from unskew.training.fitted import Occasion
from unskew.training.history import Epoch, History
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Stage, Update
from unskew.training.stopping import Patience
from unskew.training.view import Cast, View


@dataclass(frozen=True, eq=False)
class Trained:
    """Who plays each role after training, and how it went."""

    cast: Cast
    history: History
    feed: Feed


def train(
    plan: Plan,
    split: Split,
    *,
    seed: int = 0,
    training: Training | None = None,
    unbiased: RatingLog | None = None,
    members: Members | None = None,
    title: str = "",
) -> Trained:
    """Carry out the plan; the same seed gives the same bits at any number of threads."""
    if not 0 <= seed < 2**63:
        raise ParameterError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed}.")
    with one_thread():
        return _Loop(plan, split, seed, training or Training(), unbiased, members, title).run()


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch sums differently on different numbers of threads; batches are small, so one is as fast."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Loop:
    def __init__(
        self,
        plan: Plan,
        split: Split,
        seed: int,
        training: Training,
        unbiased: RatingLog | None,
        members: Members | None,
        title: str,
    ) -> None:
        self.plan, self.split, self.training, self.unbiased, self.title = plan, split, training, unbiased, title
        start, feed, self.generator = (np.random.default_rng([seed, stream]) for stream in range(3))
        self.feed = Feed(
            split,
            batch_size=training.batch_size_for(len(split.train_rows)),
            pairs_per_row=plan.pairs_per_row,
            generator=feed,
            members=members,
            calibrates=any(role.calibrator for role in plan.roles.values()),
        )
        self.players: dict[str, Any] = self._build_nets(start)
        self.cast = Cast(
            self.players,
            clips={name: self._density if role.clip is None else role.clip for name, role in plan.roles.items()},
            calibrators={name: role.calibrator for name, role in plan.roles.items() if role.calibrator},
            error=plan.error,
        )
        self.history = History()

    @property
    def _density(self) -> float:
        return len(self.split.log) / self.split.log.n_pairs

    def _build_nets(self, start: np.random.Generator) -> dict[str, Any]:
        log, copies = self.split.log, self.feed.members.n_members if self.feed.members else 1
        rates = {"rating": self.split.train_mean, "seen": self._density}
        players: dict[str, Any] = {}
        for name, role in self.plan.roles.items():
            generator = torch.Generator().manual_seed(int(start.integers(2**63)))
            if isinstance(role.net, NetRecipe):
                sizes = log.n_users * copies, log.n_items * copies
                catalogue = Catalogue(*sizes, rates[role.starts_at], self.training.engine)
                trunk = None if role.on is None else players[role.on]
                players[name] = role.net.build(catalogue, generator) if trunk is None else role.net.on(trunk, catalogue)
        return players

    def run(self) -> Trained:
        for stage in self.plan.stages:
            self.feed.forget_columns()
            self._copy(stage, "stage")
            self._fit(stage, "stage", planned=0.0)
            if stage.updates:
                self._run_epochs(stage)
        self.feed.forget_columns()
        self.cast.known.clear()
        return Trained(self.cast, self.history, self.feed)

    def _run_epochs(self, stage: Stage) -> None:
        still = frozenset(self.plan.roles) - stage.moves
        patience = Patience(self.training.patience, stage.moves)
        quiet = None if self.training.progress is None else not self.training.progress
        epochs = range(1, self.training.max_epochs + 1)
        with tqdm(epochs, f"{self.title} {stage.name}".strip(), disable=quiet, leave=False, unit="epoch") as bar:
            for epoch in bar:
                began = time.perf_counter()
                self._copy(stage, "epoch")
                losses = self._run_epoch(stage, epoch, still)
                self._fit(stage, "epoch", planned=epoch / self.training.max_epochs)
                risk = self._validate(stage, epoch, still)
                self.history.epochs.append(Epoch(stage.name, epoch, losses, risk, time.perf_counter() - began))
                if risk is None:
                    continue
                bar.set_postfix(validation=f"{risk:.4f}", refresh=False)
                patience.record(risk, self.players)
                if patience.exhausted:
                    break
        patience.restore(self.players)
        self._look_up(stage.moves)
        self.history.kept[stage.name] = patience.best_epoch or epoch
        self._settle(stage)

    def _settle(self, stage: Stage) -> None:
        """Rows that no update has read still hold their random start: count them and let them answer as the average."""
        for role in dict.fromkeys(role for update in stage.updates for role in update.trains):
            if count := self.players[role].settle():
                self.history.notes.append(
                    f"{count} users or items had nothing to teach the {role} in stage {stage.name!r} "
                    "and are answered for as the average one."
                )

    def _run_epoch(self, stage: Stage, epoch: int, still: frozenset[str]) -> dict[str, float]:
        losses: dict[str, float] = {}
        for turn in stage.turns:
            totals = [0.0] * len(turn)
            for batches in self._batches(turn):
                for number, (update, batch) in enumerate(zip(turn, batches, strict=True)):
                    totals[number] += self._step(update, batch, still)
            for update, total in zip(turn, totals, strict=True):
                self._check_finite(stage, update.trains, epoch, total)
                name = "+".join(update.trains)
                losses[name] = losses.get(name, 0.0) + total / self.feed.n_batches
        return losses

    def _batches(self, turn: tuple[Update, ...]) -> Iterator[tuple[Batch, ...]]:
        """One pass over the rows: for each update the batch that those of a turn share, or one of its own."""
        own = [self.feed.epoch() if update.own_batch else None for update in turn]
        for shared in self.feed.epoch():
            yield tuple(shared if batches is None else next(batches) for batches in own)

    def _step(self, update: Update, batch: Batch, still: frozenset[str]) -> float:
        value = self._by_closed_form(update, batch, still)
        if value is None:
            loss = update.loss(View(self.cast, batch, frozenset(update.trains), still))
            loss.backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        for name in update.trains:
            role = self.plan.roles[name]
            self.players[name].step(role.learning_rate, role.l2)
        return value

    def _by_closed_form(self, update: Update, batch: Batch, still: frozenset[str]) -> float | None:
        """The loss, its slopes told to who learns, if it has a closed form and all who learn can be told."""
        form = getattr(update.loss, "closed_form", None)
        if form is None or not all(hasattr(self.players[name], "keep") for name in update.trains):
            return None
        method = getattr(update.loss, "__self__", None)
        view = View(self.cast, batch, frozenset(update.trains), still, differentiates=False)
        value: float | None = form(view) if method is None else form(method, view)
        return value

    def _check_finite(self, stage: Stage, roles: tuple[str, ...], epoch: int, loss: float) -> None:
        broken = [name for name in roles if not self.players[name].is_finite()]
        if broken or not math.isfinite(loss):
            raise DivergedError(
                f"Training left the finite numbers in stage {stage.name!r}, role {(broken or roles)[0]!r}, "
                f"epoch {epoch}; lower its learning rate, raise its l2 or raise the clip."
            )

    @torch.no_grad()
    def _validate(self, stage: Stage, epoch: int, still: frozenset[str]) -> float | None:
        if stage.validate is None:
            return None
        risk = stage.validate(View(self.cast, self.feed.holdout, still=still)).item()
        if not math.isfinite(risk):
            raise DivergedError(f"The validation risk of stage {stage.name!r} is {risk} after epoch {epoch}.")
        return risk

    def _copy(self, stage: Stage, per: str) -> None:
        for copy in stage.copies:
            if copy.per == per:
                self.players[copy.target].take_over(self.players[copy.source])

    def _fit(self, stage: Stage, per: str, planned: float) -> None:
        for fit in stage.fits:
            if fit.per == per:
                self.players[fit.role] = self._fitted(fit, planned)
                self._look_up({fit.role})

    def _look_up(self, moved: Collection[str]) -> None:
        """Find the maps of all users once for every calibrator that has moved."""
        for role, name in self.cast.calibrators.items():
            if name in moved and hasattr(self.players.get(name), "looked_up"):
                users = np.arange(self.split.log.n_users)
                self.cast.known[name] = self.players[name].tables(self.players[role], users)

    def _fitted(self, fit: Fit, planned: float) -> Any:
        recipe = self.plan.roles[fit.role].net
        assert not isinstance(recipe, NetRecipe)
        view = View(self.cast, self.feed.calibration)
        train = View(self.cast, self.feed.train)
        occasion = Occasion(self.split, self.training, self.generator, self.unbiased, view, train, planned)
        fitted = recipe.fit_on(occasion, self.players.get(fit.role))
        if fit.per == "stage":
            self.history.take_in(fit.role, fitted)
        return fitted
