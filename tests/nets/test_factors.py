"""Factor nets against their formulas."""

import pytest
import torch

from unskew.errors import ParameterError
from unskew.nets.base import Catalogue
from unskew.nets.factors import MF, NCF

CATALOGUE = Catalogue(n_users=5, n_items=7, base_rate=0.2, engine="torch")
NETS = [MF(n_factors=4), MF(n_factors=4, biases=False, spread=1.0), NCF(n_factors=16), NCF(n_factors=4, hidden=False)]
USERS, ITEMS = torch.tensor([0, 1, 4, 4]), torch.tensor([6, 2, 2, 0])


def build(recipe, seed=0):
    return recipe.build(CATALOGUE, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("recipe", NETS, ids=repr)
def test_the_same_seed_builds_the_same_net_and_another_seed_another(recipe):
    assert torch.equal(build(recipe)(USERS, ITEMS), build(recipe)(USERS, ITEMS))
    assert not torch.equal(build(recipe)(USERS, ITEMS), build(recipe, seed=1)(USERS, ITEMS))


def test_mf_with_biases_is_the_dot_product_plus_both_biases_plus_the_offset():
    net = build(MF(n_factors=4))
    u, i = net.users.value, net.items.value
    u[:, -1], i[:, -1] = torch.arange(5.0), torch.arange(7.0)
    by_hand = u[4, :4] @ i[2, :4] + 4 + 2 + net.offset.value[0, 0]
    torch.testing.assert_close(net(USERS, ITEMS)[2], by_hand)


def test_mf_starts_at_the_base_rate_and_the_literature_net_starts_saturated():
    with torch.no_grad():
        ours = torch.sigmoid(build(MF(spread=0.1))(USERS, ITEMS))
        theirs = build(MF(n_factors=64, biases=False, spread=1.0))(USERS, ITEMS)
    torch.testing.assert_close(ours, torch.full((4,), 0.2), atol=0.05, rtol=0)
    assert theirs.abs().mean() > 3


def test_ncf_without_hidden_layer_is_additive_in_user_and_item():
    net = build(NCF(n_factors=4, hidden=False))
    with torch.no_grad():
        s = torch.stack([net(torch.full((7,), u), torch.arange(7)) for u in range(5)])
    interaction = s - s.mean(1, keepdim=True) - s.mean(0, keepdim=True) + s.mean()
    torch.testing.assert_close(interaction, torch.zeros_like(s), atol=1e-6, rtol=0)


def test_ncf_with_hidden_layer_follows_its_formula():
    net = build(NCF(n_factors=4))
    x = torch.cat([net.users.value[1], net.items.value[2]])
    by_hand = net.outer.value[0] @ torch.relu(net.inner.value @ x) + net.offset.value[0, 0]
    torch.testing.assert_close(net(USERS, ITEMS)[1], by_hand)


@pytest.mark.parametrize("recipe", NETS, ids=repr)
def test_every_net_learns_a_pattern(recipe):
    net = build(recipe)
    labels = torch.tensor([1.0, 0.0, 1.0, 0.0])
    for _ in range(300):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(USERS, ITEMS), labels)
        loss.backward()
        net.step(0.05, 0.0)
    assert loss.item() < 0.05


@pytest.mark.parametrize("recipe", NETS, ids=repr)
def test_a_snapshot_brings_back_the_exact_state(recipe):
    net = build(recipe)
    before, kept = net(USERS, ITEMS).detach(), net.snapshot()
    net(USERS, ITEMS).sum().backward()
    net.step(0.1, 0.0)
    assert not torch.equal(net(USERS, ITEMS).detach(), before)
    net.restore(kept)
    assert torch.equal(net(USERS, ITEMS).detach(), before)


def test_zero_factors_leave_the_additive_model_and_need_biases():
    assert build(MF(n_factors=0))(USERS, ITEMS).shape == (4,)
    with pytest.raises(ParameterError, match="n_factors must be"):
        MF(n_factors=0, biases=False)
    with pytest.raises(ParameterError, match="-1"):
        NCF(n_factors=-1)
