"""The one loop: carries out any plan, knows no loss."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from itertools import cycle
from typing import Any, cast

import numpy as np

from unskew.data.feed import Batch, Feed
from unskew.data.log import RatingLog
from unskew.data.population import Folds
from unskew.data.split import Split, scarcity
from unskew.errors import DivergedError, PlanError
from unskew.losses.batch import Parts, View
from unskew.losses.columns import Total, value_of
from unskew.nets.base import Net, NetContext, NetSpec, Part
from unskew.runtime import bar
from unskew.training.options import Epoch, History, Training
from unskew.training.plan import FitContext, FitSpec, Plan, Role, Stage, Step, refuse_listed

L2_PER_SCARCITY = 0.25


def resolved(roles: Mapping[str, Role], split: Split) -> dict[str, Role]:
    """Return the roles with numbers for what they leave to the log.

    The L2 of nets that learn ratings is a quarter of the log's scarcity: a row learned from n ratings carries noise of
    the order of 1/sqrt(n), and interactions below the noise of user and item together have to be pruned (the threshold
    of matrix completion: Negahban & Wainwright, JMLR 2012). The clip is the log's density: no rating then stands for
    more pairs than an average one does.
    """
    noise = scarcity(split.log)
    return {
        name: role._replace(
            l2=role.l2_factor * L2_PER_SCARCITY * noise if role.l2 is None else role.l2,
            clip=split.density if role.clip is None else role.clip,
        )
        for name, role in roles.items()
    }


def train(plan: Plan, split: Split, **options: Any) -> Loop:
    """Carry out the plan, with options of `Loop`; the same seed gives the same bits at any number of threads."""
    loop = Loop(plan, split, **options)
    for stage in plan.stages:
        loop.begin(stage)
        if stage.steps:
            loop.run_epochs(stage)
        else:
            loop.fit(stage, 1.0)
    loop.begin(Stage("the end"))
    return loop


class Loop:
    """A plan being carried out, and then what came of it: the parts that fill the roles, and the history."""

    def __init__(
        self,
        plan: Plan,
        split: Split,
        *,
        seed: int = 0,
        training: Training | None = None,
        random_ratings: RatingLog | None = None,
        folds: Folds | None = None,
    ) -> None:
        for role in plan.roles.values():
            refuse_listed(role.part, split.log)
        self.split, self.seed, self.random_ratings = split, seed, random_ratings
        self.training = Training.given(training)
        self.feed = Feed(
            split,
            batch_size=self.training.batch_size_for(len(split.train_rows)),
            pairs_per_row=plan.pairs_per_row,
            rng=np.random.default_rng([seed, 1]),
            folds=folds,
            calibrates=any(role.calibrated_by for role in plan.roles.values()),
        )
        self.roles = resolved(plan.roles, split)
        self.by_role = self._new_nets(folds.n if folds else 1)
        self.parts = Parts(
            self.by_role,
            clips={name: role.clip or 0.0 for name, role in self.roles.items()},
            calibrators={name: role.calibrated_by for name, role in self.roles.items() if role.calibrated_by},
            error=plan.error,
        )
        self.history = History(notes=list(plan.notes))

    def _new_nets(self, n_nets: int) -> dict[str, Part]:
        """Return a net for each role that learns by slopes, each with a random stream of its own."""
        parts = dict[str, Part]()
        rates = {"rating": self.split.train_mean, "seen": self.split.density}
        streams = np.random.default_rng([self.seed, 0]).spawn(len(self.roles))
        for (name, role), stream in zip(self.roles.items(), streams, strict=True):
            if isinstance(role.part, NetSpec):
                sizes = self.split.log.n_users * n_nets, self.split.log.n_items * n_nets
                context = NetContext(*sizes, rates[role.starts_at], self.feed.interactions)
                parts[name] = role.part.build(context, stream, parts.get(role.shares_with))
        return parts

    def begin(self, stage: Stage) -> None:
        """Forget what roles have answered, find what stays as it is in this stage, and copy what it says."""
        self.feed.forget()
        moves = stage.moves(self.roles)
        self.parts.still = {
            name for name, role in self.roles.items() if name not in moves and role.calibrated_by not in moves
        }
        for source, target in stage.copies:
            self._net(target).take_over(self._net(source))

    def _net(self, role: str) -> Net:
        return cast(Net, self.by_role[role])

    def view(self, batch: Batch) -> View:
        return View(self.parts, batch, self.feed.n_pairs)

    def run_epochs(self, stage: Stage) -> None:
        """Take all steps, epoch after epoch, until the validation risk stops falling; keep the best state."""
        patience, kept, most = stage.stopping(self.training.patience), dict[str, Any](), self.training.max_epochs
        with bar(stage.name, most, "epoch", shown=self.training.progress, at_most=True) as progress:
            for epoch in range(1, most + 1):
                began = time.perf_counter()
                losses = self._run_epoch(stage, epoch)
                self.fit(stage, epoch / most)
                risk = self._validate(stage, epoch, patience.judged_on)
                self.history.epochs.append(Epoch(stage.name, epoch, losses, risk, time.perf_counter() - began))
                progress.advance(None if risk is None else f"validation {risk:.4f}")
                if risk is None:
                    continue
                if patience.record(risk):  # of nets, which learn in place, a copy; what fits itself is replaced whole
                    parts = {role: self.by_role[role] for role in stage.moves(self.roles) if role in self.by_role}
                    kept = {role: part.state() if isinstance(part, Net) else part for role, part in parts.items()}
                if patience.exhausted:
                    break
        for role, state in kept.items():
            if isinstance(state, Part):
                self.by_role[role] = state
            else:
                self._net(role).restore(state)
        found = (note for role in stage.fits for note in self.by_role[role].notes)  # of the fits that were kept
        self.history.notes.extend(note for note in found if note not in self.history.notes)
        self.history.kept[stage.name] = patience.best_epoch or epoch
        self.history.stopped[stage.name] = patience.reason(epoch, most)
        self._rest(stage)

    def _run_epoch(self, stage: Stage, epoch: int) -> dict[str, float]:
        """Take all steps on all batches; the mean loss of each update."""
        totals = dict.fromkeys(("+".join(update.trains) for update in stage.updates), 0.0)
        n_feeds = len(stage.steps) if stage.own_batches else 1
        for views in zip(*(map(self.view, self.feed.epoch()) for _ in range(n_feeds)), strict=True):
            for step, view in zip(stage.steps, cycle(views), strict=False):
                for update, value in zip(step, self._take(step, view), strict=True):
                    totals["+".join(update.trains)] += value / self.feed.n_batches
        for name, total in totals.items():
            roles = name.split("+")
            broken = [role for role in roles if not self._net(role).is_finite()]
            if broken or not math.isfinite(total):
                raise DivergedError(
                    f"Training left the finite numbers in stage {stage.name!r}, role {(broken or roles)[0]!r}, "
                    f"epoch {epoch}; lower its learning rate, raise its l2 or raise the clip."
                )
        return totals

    def _take(self, step: Step, view: View) -> list[float]:
        """Take one step: every update reads the same logits, then all that they train move once."""
        found: dict[Any, Any] = {}
        values = []
        for trains, loss, weight in step:
            self.parts.learning = trains
            total = loss(view)
            slopes = total.slopes if isinstance(total, Total) else {}
            if missing := set(trains) - {role for role, _ in slopes}:
                name = getattr(loss, "__qualname__", loss)
                raise PlanError(f"The loss {name} gives no slopes to {sorted(missing)}, which it is to train.")
            for key, slope in slopes.items():
                slope = slope if weight == 1.0 else weight * slope
                found[key] = found[key] + slope if key in found else slope
            values.append(weight * float(value_of(total)))
        self.parts.learning = ()
        for (role, rows), slopes in found.items():
            self._net(role).learn(rows.users, rows.items, np.ascontiguousarray(slopes, np.float32))
        trained = {role for role, _ in found}
        owners = {self.roles[role].shares_with or role for role in trained}
        for role in self.roles:
            if role in trained or role in owners:
                self._net(role).step(self.roles[role].rate, self.roles[role].l2 or 0.0)
        view.forget({name for name, role in self.roles.items() if (role.shares_with or name) in owners})
        return values

    def _validate(self, stage: Stage, epoch: int, judged_on: str) -> float | None:
        if stage.validate is None:
            return None
        risk = float(value_of(stage.validate(self.view(getattr(self.feed, judged_on)))))
        if not math.isfinite(risk):
            raise DivergedError(f"The validation risk of stage {stage.name!r} is {risk} after epoch {epoch}.")
        return risk

    def fit(self, stage: Stage, planned: float) -> None:
        """Fit what fits itself in this stage."""
        for role in stage.fits:
            spec = cast(FitSpec, self.roles[role].part)
            self.by_role[role] = part = spec.fit_in(self._context(role, planned))
            if not stage.steps:
                self.history.take_in(role, part)

    def _context(self, role: str, planned: float) -> FitContext:
        """Return what a part that fits itself may look at now; its seed is the same at every fit."""
        seed = int(np.random.default_rng([self.seed, 2, list(self.roles).index(role)]).integers(2**63))
        calibrates = next((name for name, other in self.parts.calibrators.items() if other == role), "")
        batch = self.feed.calibration
        if calibrates and self.by_role[calibrates].out_of_fold:  # all of the log is as good as held out
            batch = batch._replace(observed=self.feed.train.observed)
        return FitContext(
            self.split,
            self.training,
            seed,
            self.random_ratings,
            view=self.view(batch),
            holdout=self.view(self.feed.holdout),
            train=self.view(self.feed.train),
            calibrates=calibrates,
            planned=planned,
            previous=self.by_role.get(role),
        )

    def _rest(self, stage: Stage) -> None:
        """Count the rows that no update has read, which answer as the average from here on."""
        owners = dict.fromkeys(name for role in stage.trains for name in (role, self.roles[role].shares_with) if name)
        for role in owners:
            if count := self._net(role).rest():
                self.history.notes.append(
                    f"{count} users or items had nothing to teach the {role} in stage {stage.name!r} "
                    "and are answered for as the average one."
                )
