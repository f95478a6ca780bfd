"""Any module of PyTorch is a net: shown by a graph net that no table can hold."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra unskew[torch]")

import unskew  # noqa: E402
from unskew.data.pairs import pair_fold  # noqa: E402
from unskew.data.split import holdout_split  # noqa: E402
from unskew.methods.calibrated import DoublyCalibrated  # noqa: E402
from unskew.methods.robust import DRJL  # noqa: E402
from unskew.methods.weighting import Naive  # noqa: E402
from unskew.nets.base import NetContext  # noqa: E402
from unskew.nets.factors import MF  # noqa: E402
from unskew.nets.torch import Module, TorchNet  # noqa: E402
from unskew.propensity.factors import Factors  # noqa: E402
from unskew.training.loop import train  # noqa: E402
from unskew.training.options import Training  # noqa: E402


class LightGCN(torch.nn.Module):
    """Vectors averaged over layers of the graph of the training interactions (He et al., SIGIR 2020), and biases."""

    def __init__(self, context, n_factors=8, n_layers=2):
        super().__init__()
        n, self.n_users, self.n_layers = context.n_users + context.n_items, context.n_users, n_layers
        self.vectors = torch.nn.Parameter(0.1 * torch.randn(n, n_factors))
        self.biases = torch.nn.Parameter(torch.zeros(n))
        self.offset = torch.nn.Parameter(torch.tensor(context.base_logit))
        users, items = (torch.from_numpy(np.asarray(codes, np.int64)) for codes in context.interactions)
        edges = torch.stack([torch.cat([users, items + self.n_users]), torch.cat([items + self.n_users, users])])
        degree = torch.bincount(edges[0], minlength=n).clamp(min=1).float()
        weights = (degree[edges[0]] * degree[edges[1]]).rsqrt()
        self.graph = torch.sparse_coo_tensor(edges, weights, (n, n), check_invariants=False).coalesce()

    def spread(self):
        layers = [self.vectors]
        for _ in range(self.n_layers):
            layers.append(torch.sparse.mm(self.graph, layers[-1]))
        return torch.stack(layers).mean(0)

    def forward(self, users, items):
        vectors, items = self.spread(), items + self.n_users
        return (vectors[users] * vectors[items]).sum(1) + self.biases[users] + self.biases[items] + self.offset

    def user_vectors(self, users):
        return self.spread()[users]


class Dot(torch.nn.Module):
    """Matrix factorisation in PyTorch, with the start of another net."""

    def __init__(self, users, items):
        super().__init__()
        self.users, self.items = (torch.nn.Parameter(torch.from_numpy(np.array(rows))) for rows in (users, items))

    def forward(self, users, items):
        return (self.users[users] * self.items[items]).sum(1)


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=150, n_items=60, density=0.25, seed=3)


QUICK = Training(max_epochs=12, progress=False)


def context(n_users=6, n_items=5):
    users, items = np.divmod(np.arange(0, n_users * n_items, 2), n_items)
    return NetContext(n_users, n_items, 0.3, (users, items))


def test_a_dense_step_is_that_of_a_table():
    rng = np.random.default_rng(0)
    table = MF(n_factors=3, biases=False).build(context(), rng)
    module = Module(lambda _: Dot(table.value("users")[:-1], table.value("items")[:-1])).build(context(), rng)
    users, items = np.divmod(np.arange(30, dtype=np.int32), 5)
    for _ in range(5):
        slopes = (module.logits(users, items) - 0.5).astype(np.float32)
        for net in (table, module):
            net.learn(users[:15], items[:15], slopes[:15])
            net.learn(users[15:], items[15:], slopes[15:])
            net.step(0.1, 0.0)
    np.testing.assert_allclose(module.logits(users, items), table.logits(users, items), atol=1e-5)


def test_unknown_codes_are_answered_by_means():
    net = Module(LightGCN).build(context(), np.random.default_rng(1))
    items = np.arange(5, dtype=np.int32)
    every = np.array([[net.logits(np.array([u]), np.array([i]))[0] for i in range(5)] for u in range(6)])
    shares = np.bincount(np.linspace(0, 5, 32).astype(int)) / 32
    np.testing.assert_allclose(net.logits(np.full(5, -1), items), shares @ every, atol=1e-6)
    assert np.isfinite(net.logits(np.array([-1]), np.array([-1]))).all()


def test_who_has_no_training_row_answers_at_rest_as_unknown():
    rows = np.array([0, 1, 2], np.int32)
    net = Module(LightGCN).build(context()._replace(interactions=(rows, rows)), np.random.default_rng(1))
    assert net.rest() == 3 + 2
    item = np.zeros(1, np.int32)
    assert net.logits(np.array([5]), item) == net.logits(np.array([-1]), item)
    assert (net.user_vectors(np.array([5])) == net.user_vectors(np.array([-1]))).all()


def test_bits_follow_from_the_seed_alone(world):
    random_state, threads, fits = torch.get_rng_state(), torch.get_num_threads(), []
    for seed, wanted in ((1, 1), (1, 2), (2, 1)):
        torch.set_num_threads(wanted)
        torch.manual_seed(len(fits))
        fits.append(Naive(net=Module(LightGCN)).fit(world.log, seed=seed, training=replace(QUICK, max_epochs=3)))
    torch.set_num_threads(threads)
    users, items = np.arange(60, dtype=np.int32), np.arange(60, dtype=np.int32)
    first, again, other = (fit.predict_codes(users, items) for fit in fits)
    assert (first == again).all()
    assert (first != other).any()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    Naive(net=Module(LightGCN)).fit(world.log, training=replace(QUICK, max_epochs=1))
    assert (torch.get_rng_state() == before).all()
    torch.set_rng_state(random_state)


def test_a_net_of_a_fold_knows_its_own_pairs_only(world):
    seen = []

    def factory(given):
        seen.append(given)
        return LightGCN(given)

    fitted = Factors(net=Module(factory), l2=1e-4, n_folds=3).fit(world.log, training=QUICK)
    (given,) = seen
    n_users, n_items = world.log.n_users, world.log.n_items
    assert (given.n_users, given.n_items) == (3 * n_users, 3 * n_items)
    users, items = given.interactions
    assert (users // n_users == items // n_items).all()
    assert (pair_fold(fitted.folds.seed, users % n_users, items % n_items, 3) != users // n_users).all()
    rate = fitted.pair(*np.divmod(np.arange(world.log.n_pairs), n_items)).mean()
    assert rate == pytest.approx(len(world.log) / world.log.n_pairs, rel=0.1)


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_role_of_a_doubly_robust_method(world, wrapped):
    method = DRJL(net=Module(LightGCN), l2=1e-4, propensity=Factors(net=Module(LightGCN), l2=1e-4, n_folds=2))
    fit = (DoublyCalibrated(method) if wrapped else method).fit(world.log, training=QUICK)
    p = fit.predict_codes(np.arange(60, dtype=np.int32), np.arange(60, dtype=np.int32))
    assert np.isfinite(p).all()
    assert p.std() > 0.01


def test_a_state_brings_the_net_back(world):
    spec = Module(LightGCN)
    plan = Naive(net=spec).plan()
    net = train(plan, holdout_split(world.log, 0.1, seed=0), training=QUICK).parts.parts["prediction"]
    assert isinstance(net, TorchNet)
    again = spec.from_state(net.state())
    users, items = np.arange(-1, 60, dtype=np.int32), np.arange(-1, 60, dtype=np.int32)
    assert (again.logits(users, items) == net.logits(users, items)).all()
    assert (again.user_vectors(users) == net.user_vectors(users)).all()
