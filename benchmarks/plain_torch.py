"""A joint step of DCE-DR as one would write it in plain PyTorch: embeddings, autograd, fused Adam."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

import unskew

N_EXPERTS, PAIRS_PER_ROW, L2 = 5, 2, 0.1


class PlainMF(nn.Module):
    """logit = v_u . w_i + b_u + b_i + c."""

    def __init__(self, n_users: int, n_items: int, n_factors: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, n_factors), nn.Embedding(n_items, n_factors)
        self.user_bias, self.item_bias = nn.Embedding(n_users, 1), nn.Embedding(n_items, 1)
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        dot = (self.users(users) * self.items(items)).sum(1)
        return dot + self.user_bias(users)[:, 0] + self.item_bias(items)[:, 0] + self.offset


class PlainStep:
    """Imputation, then prediction, on batches of the same sizes as ours; propensities known, experts at rest."""

    def __init__(self, log: unskew.RatingLog, batch_size: int, n_factors: int) -> None:
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        self.prediction, self.imputation = (PlainMF(log.n_users, log.n_items, n_factors) for _ in range(2))
        self.optimisers = [
            torch.optim.Adam(net.parameters(), lr=0.03, weight_decay=L2 / batch_size, fused=True)
            for net in (self.imputation, self.prediction)
        ]
        self.gate = nn.Linear(n_factors, N_EXPERTS)
        self.slopes, self.intercepts = torch.ones(N_EXPERTS), torch.zeros(N_EXPERTS)
        rows = rng.integers(len(log), size=batch_size)
        self.users, self.items = (torch.from_numpy(codes[rows].astype(np.int64)) for codes in (log.users, log.items))
        self.ratings = torch.from_numpy(log.ratings[rows])
        self.weight = torch.from_numpy(rng.uniform(1, 5, batch_size).astype(np.float32))
        count = PAIRS_PER_ROW * batch_size
        self.any_users = torch.from_numpy(rng.integers(log.n_users, size=count))
        self.any_items = torch.from_numpy(rng.integers(log.n_items, size=count))

    def take(self, count: int) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        for _ in range(count):
            for optimiser, loss in zip(self.optimisers, (self.imputation_loss, self.prediction_loss), strict=True):
                optimiser.zero_grad(set_to_none=True)
                loss().backward()
                optimiser.step()
        torch.set_num_threads(threads)

    def imputation_loss(self) -> Tensor:
        with torch.no_grad():
            logits = self.prediction(self.users, self.items)
        gap = (torch.sigmoid(self.imputation(self.users, self.items)) - self.ratings) * logits
        return (self.weight * gap.square()).sum() / (self.weight * logits.square()).sum()

    def prediction_loss(self) -> Tensor:
        seen, any_pair = self.prediction(self.users, self.items), self.prediction(self.any_users, self.any_items)
        imputed, imputed_any = (
            self.calibrated(users, items)
            for users, items in ((self.users, self.items), (self.any_users, self.any_items))
        )
        correction = (self.weight * (imputed - self.ratings) * seen).mean()
        return (softplus(any_pair) - imputed_any * any_pair).mean() + correction

    @torch.no_grad()
    def calibrated(self, users: Tensor, items: Tensor) -> Tensor:
        """The imputation by a mixture of Platt maps, assigned by its user vectors."""
        logits = self.imputation(users, items).unsqueeze(1)
        mix = torch.softmax(self.gate(self.imputation.users(users)), 1)
        return (mix * torch.sigmoid(self.slopes * logits + self.intercepts)).sum(1)
