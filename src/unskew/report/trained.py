"""How a model was trained: a sentence for each stage, and what the fit has noted."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.model import Recommender
from unskew.report.names import duration
from unskew.training.history import words_of


@dataclass(frozen=True)
class TrainedFacts:
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


def trained_of(model: Recommender) -> TrainedFacts:
    history, sentences = model.history, []
    for stage in dict.fromkeys(epoch.stage for epoch in history.epochs):
        epochs = history.of(stage)
        kept = history.kept.get(stage, epochs[-1].epoch)
        took = duration(sum(epoch.seconds for epoch in epochs))
        title = words_of(stage).capitalize()
        sentences.append(f"{title}: {len(epochs)} epochs in {took}; the state after epoch {kept} was kept.")
    return TrainedFacts(tuple(sentences), tuple(history.notes))
