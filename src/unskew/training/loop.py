"""The one loop: carries out any plan, knows no loss."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unskew.data.feed import Feed
from unskew.data.log import RatingLog
from unskew.data.rows import Batch, Members
from unskew.data.split import Split
from unskew.errors import DivergedError
from unskew.express.turns import in_one_call
from unskew.nets.base import Net
from unskew.progress import bar
from unskew.risk.closed import form_of
from unskew.seeds import checked_seed
from unskew.training.fitted import Occasion
from unskew.training.fresh import fresh_nets
from unskew.training.history import Epoch, History, words_of
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Stage, Update
from unskew.training.rules import by_rules
from unskew.training.threads import one_thread
from unskew.training.view import Cast, View

BATCHES_AT_ONCE = 32  # in a compiled call, which cannot be interrupted


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
    random_ratings: RatingLog | None = None,
    members: Members | None = None,
    title: str = "",
) -> Trained:
    """Carry out the plan; the same seed gives the same bits at any number of threads."""
    seed, training = checked_seed(seed), training or Training()
    with one_thread():
        return Loop(plan, split, seed, training, random_ratings, members, title).run()


class Loop:
    """A plan being carried out."""

    def __init__(
        self,
        plan: Plan,
        split: Split,
        seed: int,
        training: Training,
        random_ratings: RatingLog | None,
        members: Members | None,
        title: str,
    ) -> None:
        plan = by_rules(plan, split.facts)
        self.plan, self.split, self.training, self.random_ratings, self.title = (
            plan,
            split,
            training,
            random_ratings,
            title,
        )
        start, feed, self.generator = (np.random.default_rng([seed, stream]) for stream in range(3))
        self.feed = Feed(
            split,
            batch_size=training.batch_size_for(split.facts.n_train),
            pairs_per_row=plan.pairs_per_row,
            generator=feed,
            members=members,
            calibrates=any(role.calibrator for role in plan.roles.values()),
        )
        self.group = split.group
        self.players = fresh_nets(plan, split, members.n_members if members else 1, start)
        self.cast = Cast(
            self.players,
            clips={name: role.clip or 0.0 for name, role in plan.roles.items()},
            calibrators={name: role.calibrator for name, role in plan.roles.items() if role.calibrator},
            error=plan.error,
            group=self.group,
        )
        self.history = History()

    def run(self) -> Trained:
        self.feed.forget_columns()  # which draws the hold-out's pairs, always in one order
        for stage in self.plan.stages:
            self.feed.forget_columns()
            self._begin(stage)
            if stage.updates:
                self._run_epochs(stage)
        self.feed.forget_columns()
        self.cast.known.clear()
        for player in self.players.values():
            if isinstance(player, Net):
                player.rest()
        return Trained(self.cast, self.history, self.feed)

    def _begin(self, stage: Stage) -> None:
        """The copies and fits with which a stage begins."""
        for copy in stage.copies:
            self.players[copy.target].take_over(self.players[copy.source])
        for fit in stage.fits:
            if fit.per == "stage":
                self._fit(fit, planned=0.0)

    def _run_epochs(self, stage: Stage) -> None:
        still = frozenset(self.plan.roles) - stage.moves
        patience, most, epoch = stage.stopping(self.training.patience), self.training.max_epochs, 0
        title = words_of(f"{self.title} {stage.name}")
        with bar(title, most, "epoch", shown=self.training.progress, at_most=True) as progress:
            for epoch in range(1, most + 1):
                risk = self._run_epoch(stage, epoch, still)
                progress.advance(None if risk is None else f"validation {risk:.4f}")
                if risk is None:
                    continue
                patience.record(risk, self.players)
                if patience.exhausted:
                    break
        patience.restore(self.players)
        self._look_up(stage.moves)
        self.history.kept[stage.name] = patience.kept_epoch or epoch
        self._settle(stage)

    def _run_epoch(self, stage: Stage, epoch: int, still: frozenset[str]) -> float | None:
        """Updates, fits; the validation risk if the stage validates."""
        began, totals, losses = time.perf_counter(), [0.0] * len(stage.updates), dict[str, float]()
        for values in self._taken(stage.updates, still):
            for of_batch in values:
                totals = [total + value for total, value in zip(totals, of_batch, strict=True)]
        for update, total in zip(stage.updates, totals, strict=True):
            self._check_finite(stage, update.trains, epoch, total)
            name = "+".join(update.trains)
            losses[name] = losses.get(name, 0.0) + total / self.feed.n_batches
        for fit in stage.fits:
            if fit.per == "epoch":
                self._fit(fit, planned=epoch / self.training.max_epochs)
        risk = self._validate(stage, epoch, still)
        self.history.epochs.append(Epoch(stage.name, epoch, losses, risk, time.perf_counter() - began))
        return risk

    def _taken(self, updates: tuple[Update, ...], still: frozenset[str]) -> Iterator[Sequence[Sequence[float]]]:
        """Take the batches of a pass, one or several at once, and say the losses of each."""
        take = in_one_call(updates, self.plan.roles, self.cast)
        if take is None:
            for batches in self._batches(updates):
                yield [[self._step(update, batch, still) for update, batch in zip(updates, batches, strict=True)]]
            return
        for stretch in self.feed.stretches():
            view = View(self.cast, stretch.whole, still=still)
            for first in range(0, len(stretch), BATCHES_AT_ONCE):
                yield take(view, stretch, first, min(first + BATCHES_AT_ONCE, len(stretch))).tolist()

    def _settle(self, stage: Stage) -> None:
        """Rows that no update has read still hold their random start: count them and let them answer as the average."""
        for role in dict.fromkeys(role for update in stage.updates for role in update.trains):
            if count := self.players[role].settle():
                self.history.notes.append(
                    f"{count} users or items had nothing to teach the {role} in stage {stage.name!r} "
                    "and are answered for as the average one."
                )

    def _batches(self, updates: tuple[Update, ...]) -> Iterator[tuple[Batch, ...]]:
        """One pass over the rows: for each update the batch that all share, or one of its own."""
        own = [self.feed.epoch() if update.own_batch else None for update in updates]
        for shared in self.feed.epoch():
            yield tuple(shared if batches is None else next(batches) for batches in own)

    def _step(self, update: Update, batch: Batch, still: frozenset[str]) -> float:
        value = self._by_closed_form(update, batch, still)
        if value is None:
            loss = update.loss(View(self.cast, batch, frozenset(update.trains), still))
            loss.backward()  # type: ignore[no-untyped-call]
            value = loss.item() / self.group.size  # all workers have the same loss, and will add it up
        for name in update.trains:
            role = self.plan.roles[name]
            self.players[name].step(role.learning_rate, role.l2 or 0.0)
        return value

    def _by_closed_form(self, update: Update, batch: Batch, still: frozenset[str]) -> float | None:
        """The loss, its slopes told to who learns, if it has a closed form and all who learn can be told."""
        form = form_of(update.loss)
        if form is None or not all(hasattr(self.players[name], "keep") for name in update.trains):
            return None
        with torch.no_grad():
            return form(View(self.cast, batch, frozenset(update.trains), still))

    def _check_finite(self, stage: Stage, roles: tuple[str, ...], epoch: int, loss: float) -> None:
        finite = [self.players[name].is_finite() for name in roles]
        anywhere = self.group.largest([0 if fine else 1 for fine in finite])
        broken = [name for name, found in zip(roles, anywhere, strict=True) if found]
        if broken or not math.isfinite(loss):
            raise DivergedError(
                f"Training left the finite numbers in stage {stage.name!r}, role {(broken or roles)[0]!r}, "
                f"epoch {epoch}; lower its learning rate, raise its l2 or raise the clip."
            )

    @torch.no_grad()
    def _validate(self, stage: Stage, epoch: int, still: frozenset[str]) -> float | None:
        if stage.validate is None:
            return None
        rows = self.feed.holdout if stage.tolerance is None else self.feed.train
        risk = stage.validate(View(self.cast, rows, still=still)).item()
        if not math.isfinite(risk):
            raise DivergedError(f"The validation risk of stage {stage.name!r} is {risk} after epoch {epoch}.")
        return risk

    def _fit(self, fit: Fit, planned: float) -> None:
        self.players[fit.role] = self._fitted(fit, planned)
        self._look_up({fit.role})

    def _look_up(self, moved: Collection[str]) -> None:
        """Find the maps of all users once for every calibrator that has moved."""
        for role, name in self.cast.calibrators.items():
            if name in moved and hasattr(self.players.get(name), "looked_up"):
                users = np.arange(self.split.log.n_users)
                self.cast.known[name] = self.players[name].tables(self.players[role], users)

    def _fitted(self, fit: Fit, planned: float) -> Any:
        recipe: Any = self.plan.roles[fit.role].net
        fitted = recipe.fit_on(self.occasion(self.generator, planned), self.players.get(fit.role))
        if fit.per == "stage":
            self.history.take_in(fit.role, fitted)
        return fitted

    def occasion(self, generator: np.random.Generator, planned: float) -> Occasion:
        """What a role may look at now."""
        view, train = View(self.cast, self.feed.calibration), View(self.cast, self.feed.train)
        return Occasion(self.split, self.training, generator, self.random_ratings, view, train, planned)
